"""The page about all routers, of as many as LINERATE_FLEET_SIZE says."""

import html.parser
import json
import os
import pathlib
import random
import resource
import subprocess
import time

import fleet
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZE = int(os.environ.get("LINERATE_FLEET_SIZE", "60"))
HOSTILE = "<script>alert(1)</script>\u202e{{ 7 * 191 }}\x1b[2J"


def captures():
    """Captured machines."""
    return sorted(path.parent for path in (ROOT / "fixtures" / "hosts").glob("*/proc")) + sorted(
        (ROOT / "fixtures" / "hosts").glob("*/capture.tar.gz")
    )


def stub(directory, captured):
    """A linerate that answers with what the real one says of a captured machine."""
    directory.mkdir()
    codes = {}
    for verb in ("show", "check"):
        words = [fleet.PROGRAM, verb, "--json", "--host", captured]
        told = subprocess.run(words, capture_output=True, check=False)
        assert told.returncode in (0, 1), told.stderr
        (directory / verb).write_bytes(told.stdout)
        codes[verb] = told.returncode
    status = dict(format="linerate-status", version=1, journals=[], drift=[], running=[], labs=[])
    (directory / "status").write_text(json.dumps(status))
    program = directory / "linerate"
    program.write_text(
        "#!/bin/sh\ncase $1 in --version) echo linerate 0.1.0 ;;\n"
        + "".join("%s) cat %s/%s; exit %d ;;\n" % (v, directory, v, c) for v, c in codes.items())
        + "status) cat %s/status ;;\n*) exit 2 ;; esac\n" % directory
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def plant(tmp_path, collections):
    """Routers that are stubs, reached without a network."""
    if fleet.PROGRAM is None:
        pytest.skip("no linerate: set LINERATE_PROGRAM")
    return fleet.Fleet(tmp_path, collections)


def inventory(plant, hosts):
    """Writes it."""
    everywhere = dict(ansible_connection="local", ansible_python_interpreter="/nonexistent/python")
    text = json.dumps({"routers": {"hosts": hosts, "vars": everywhere}})
    (plant.work / "inventory.json").write_text(text)


class Page(html.parser.HTMLParser):
    """What stands in a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.opened = set(), []
        self.feed(text)
        assert self.opened == [], "all is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [a for a in attrs if a[0] in ("src", "href") or a[0].startswith("on")], attrs
        if tag not in ("meta",):
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag


def test_many_simulated_routers_make_one_page(plant, capsys):
    machines = captures()
    programs = [stub(plant.work / ("kind%d" % n), captured) for n, captured in enumerate(machines)]
    dice = random.Random(7)
    kinds = {"r%04d" % n: dice.randrange(len(programs)) for n in range(SIZE)}
    inventory(plant, {name: dict(linerate_program=str(programs[kind])) for name, kind in kinds.items()})
    began = time.monotonic()
    page = plant.work / "fleet" / "fleet.html"
    plant.play("linerate.router.report", "--forks", "20", linerate_dir=str(plant.work / "fleet"))
    took = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with capsys.disabled():
        print(
            "\n%d routers: %.0f s, %.0f s of CPU time, %d MiB in the largest process, a page of %d KiB"
            % (SIZE, took, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10, page.stat().st_size >> 10)
        )
    text = page.read_text()
    assert "%d of %d could be looked at." % (SIZE, SIZE) in text
    assert "script" not in Page(text).tags and "default-src 'none'" in text
    # Each rule is as frequent as the machines are on which the program finds it.
    found = {}
    for kind in kinds.values():
        told = json.loads((programs[kind].parent / "check").read_text())
        for rule in {finding["rule"] for finding in told["findings"]}:
            found[rule] = found.get(rule, 0) + 1
    assert found
    for rule, count in found.items():
        assert '<th scope="row">%s</th>' % rule in text
        row = text.split('<th scope="row">%s</th>' % rule)[1].split("</tr>")[0]
        assert '<td class="num" data-label="routers">%d</td>' % count in row, rule


def test_whatever_a_router_says_of_itself_is_only_text(plant):
    captured = captures()[0]
    evil, gone, fine = (stub(plant.work / name, captured) for name in ("evil", "gone", "fine"))
    for name, change in (
        ("show", lambda told: told["machine"].update(board=HOSTILE, kernel=HOSTILE)),
        ("check", lambda told: told["findings"][0].update(title=HOSTILE, rule=HOSTILE)),
        (
            "status",
            lambda told: told.update(
                drift=[{"knob": {"kind": "sysctl", "name": HOSTILE}, "wanted": HOSTILE, "is": None}],
                undone={"why": HOSTILE},
            ),
        ),
    ):
        path = evil.parent / name
        told = json.loads(path.read_text())
        change(told)
        path.write_text(json.dumps(told))
    gone.write_text("#!/bin/sh\necho '%s' >&2; exit 5\n" % "linerate: <b>no</b>")
    programs = {"evil": evil, "gone": gone, "fine": fine}
    inventory(plant, {name: dict(linerate_program=str(program)) for name, program in programs.items()})
    plant.play("linerate.router.report", code=2, linerate_dir=str(plant.work / "fleet"))
    text = (plant.work / "fleet" / "fleet.html").read_text()
    page = Page(text)
    assert "script" not in page.tags and "b" not in page.tags
    assert "1337" not in text and "{{ 7 * 191 }}" in text, "nothing of it is evaluated"
    assert "\u202e" not in text and "\x1b" not in text and "\\u202e" in text
    assert "2 of 3 could be looked at." in text and "&lt;b&gt;no&lt;/b&gt;" in text


def test_the_page_looks_like_our_reports():
    ours = ROOT / "src" / "report" / "render" / "style.css"
    assert (ROOT / "ansible" / "roles" / "report" / "files" / "style.css").read_text() == ours.read_text()
