"""The role that installs, with real dpkg over a file system of its own."""

import functools
import hashlib
import http.server
import shutil
import subprocess
import threading

import fleet
import pytest

INSTALL = """- hosts: routers
  gather_facts: false
  roles: [linerate.router.install]
"""


def package(work):
    """A .deb with the program under test."""
    root = work / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr" / "bin").mkdir(parents=True)
    shutil.copy(fleet.PROGRAM, root / "usr" / "bin" / "linerate")
    version = subprocess.run([fleet.PROGRAM, "--version"], capture_output=True, text=True, check=True)
    number = version.stdout.split()[1]
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    (root / "DEBIAN" / "control").write_text(
        "Package: linerate\nVersion: %s\nArchitecture: %s\nMaintainer: none\nDescription: for a test\n"
        % (number, arch.stdout.strip())
    )
    path = work / ("linerate_%s_%s.deb" % (number, arch.stdout.strip()))
    subprocess.run(["dpkg-deb", "-Znone", "-b", root, path], check=True, stdout=subprocess.DEVNULL)
    return path, number


def test_a_package_is_installed_once_from_a_file_or_a_url(routers):
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg here")
    path, number = package(routers.work)
    router, broken = routers.make(2)
    # Its own /usr/bin and dpkg's records: what is written stays in this namespace.
    for place in ("/usr/bin", "/var/lib/dpkg"):
        upper = "/run/upper%s" % place
        router.inside("mkdir", "-p", upper, upper + ".work")
        layers = "lowerdir=%s,upperdir=%s,workdir=%s.work" % (place, upper, upper)
        made = subprocess.run(
            ["nsenter", "-t", str(router.init()), "-m", "mount", "-t", "overlay", "-o", layers, "o", place],
            check=False,
        )
        if made.returncode != 0:
            pytest.skip("no overlay file system here")
    # One whose package manager says no.
    (broken.dir / "dpkg").write_text("#!/bin/sh\necho 'dpkg: error: the flash is full' >&2; exit 1\n")
    (broken.dir / "dpkg").chmod(0o755)
    broken.inside("mount", "--bind", broken.dir / "dpkg", "/usr/bin/dpkg")
    where = {name: dict(linerate_program="/usr/bin/linerate") for name in ("r1", "r2")}
    routers.inventory(**where)
    printed = routers.play(INSTALL, code=2, linerate_package=str(path))
    assert "changed: [r1]" in printed and "the flash is full" in printed
    assert "linerate" in router.inside("dpkg", "-l", "linerate").stdout
    assert router.inside("/usr/bin/linerate", "--version").stdout.split()[1] == number
    assert "changed: [" not in routers.play(INSTALL, "--limit", "r1", linerate_package=str(path))
    # By a URL, the controller fetches it.
    router.inside("dpkg", "--purge", "linerate")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(routers.work))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d/%s" % (server.server_port, path.name)
    asked = ["--limit", "r1"]
    assert "linerate_checksum" in routers.play(INSTALL, *asked, code=2, linerate_package=url)
    good = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    wrong = "sha256:" + "0" * 64
    routers.play(INSTALL, *asked, code=2, linerate_package=url, linerate_checksum=wrong)
    assert "Install it" in routers.play(INSTALL, *asked, linerate_package=url, linerate_checksum=good)
    assert "linerate" in router.inside("dpkg", "-l", "linerate").stdout
    server.shutdown()
