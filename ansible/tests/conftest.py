"""Routers for the tests: namespaces with an sshd each, and the collection where ansible finds it."""

import importlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fleet  # noqa: E402


def missing():
    """What the tests in namespaces need and is not here."""
    if os.geteuid() != 0:
        return "needs root"
    if fleet.PROGRAM is None:
        return "no linerate: set LINERATE_PROGRAM"
    if fleet.SSHD is None:
        return "no sshd here: set SSHD, or install openssh-server"
    if shutil.which("ansible-playbook") is None:
        return "no ansible-playbook here"
    if os.environ.get("LINERATE_FLEET_INSIDE") is None:
        return "not in namespaces of its own: start it by scripts/ansible.sh test"
    return None


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """A directory with the collection as `ansible-galaxy collection build` packs it."""
    work = tmp_path_factory.mktemp("collections")
    here = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(work))
    run = dict(check=True, stdout=subprocess.DEVNULL, env=here)
    subprocess.run(["ansible-galaxy", "collection", "build", "--output-path", work, HERE.parent], **run)
    (packed,) = work.glob("*.tar.gz")
    subprocess.run(["ansible-galaxy", "collection", "install", packed, "-p", work, "--offline"], **run)
    return work


@pytest.fixture
def module(collections, monkeypatch):
    """Imports a module of plugin_utils by its name."""
    monkeypatch.syspath_prepend(str(collections))
    for name in [n for n in sys.modules if n.startswith("ansible_collections")]:
        monkeypatch.delitem(sys.modules, name)
    place = "ansible_collections.linerate.router.plugins.plugin_utils."
    return lambda name: importlib.import_module(place + name)


@pytest.fixture
def routers(tmp_path, collections):
    """Makes routers, and takes them down after the test."""
    why = missing()
    if why:
        pytest.skip(why)
    with fleet.Fleet(tmp_path, collections) as made:
        yield made
