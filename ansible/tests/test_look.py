"""What only looks: facts, check, plan, verify."""

import json
import pathlib


def test_a_router_without_python_is_looked_at_planned_for_and_verified(routers):
    (router,) = routers.make(1)
    told = routers.task("facts")["r1"]["ansible_facts"]["linerate"]
    assert told["version"].count(".") == 2
    assert told["class"]["id"] in json.dumps(told) and len(told["class"]["id"]) == 8
    assert told["machine"]["kernel"] in told["class"]["label"]
    assert told["status"]["journals"] == [] and "show" not in told

    # By way of another program that becomes root.
    told = routers.task("facts", "--become", "--become-method", "su")["r1"]
    assert "ansible_facts" in told, told

    told = routers.task("check", rules=["rps-missing"])["r1"]
    assert told["failed"] and "no such rule" in told["msg"]
    told = routers.task("check")["r1"]
    assert not told["changed"] and all(f["rule"] and f["severity"] for f in told["findings"])
    assert told["findings"], "a bare namespace has something to find"
    told = routers.task("check", fail_on="info")["r1"]
    assert told["failed"] and told["findings"][0]["title"] in told["msg"]

    kept = routers.work / "fleet" / "r1.toml"
    one = dict(candidate="one-cpu", sample="0", dest=str(kept))
    told = routers.task("plan", "--check", **one)["r1"]
    assert told["changed"] and not kept.exists()
    told = routers.task("plan", "--diff", **one)["r1"]
    assert told["changed"] and told["name"] == "one-cpu" and told["settings"] >= 1
    assert kept.read_text() == told["plan"] and 'name = "one-cpu"' in told["plan"]
    assert '+name = "one-cpu"' in routers.printed
    told = routers.task("plan", **one)["r1"]
    assert not told["changed"], "the same router has the same plan"

    told = routers.task("verify", src=str(kept))["r1"]
    assert told["failed"] and not told["in_force"]
    assert "/sys/class/net/lan0/queues/rx-0/rps_cpus" in told["msg"]
    told = routers.task("verify", content=kept.read_text(), fail_on_drift=False)["r1"]
    assert not told["failed"] and told["drifted"][0]["state"] == "drifted"
    assert router.inside("sh", "-c", "ls -d /tmp/linerate-?????? || true").stdout == ""
    assert router.mask() == 0


def test_mistakes_are_told_in_words_that_help(routers):
    first, old, strange = routers.make(3)
    old.wrap('[ "$1" != --version ] || { echo "linerate 0.0.9"; exit 0; }; exec $REAL "$@"')
    strange.wrap(
        '[ "$1" != show ] || { echo \'{"format":"linerate-show","version":9}\'; exit; }; exec $REAL "$@"'
    )
    first.program.unlink()
    told = routers.task("facts")
    assert "linerate.router.install" in told["r1"]["msg"]
    assert "0.0.9 is older than" in told["r2"]["msg"]
    assert "version 9 of linerate-show" in told["r3"]["msg"]
    told = routers.task("verify", "--limit", "r2")["r2"]
    assert told["failed"] and "plan" in told["msg"], "there is none"
    told = routers.task("plan", "--limit", "r2", candidate="none-such")["r2"]
    assert told["failed"] and "none-such" in told["msg"]
    told = routers.task("verify", "--limit", "r2", content="this is no plan\n")["r2"]
    assert told["failed"] and "exit code 2" in told["msg"]


def test_a_router_with_another_host_key_is_not_talked_to(routers):
    first, second = routers.make(2)
    routers.inventory()
    known = routers.work / "known_hosts"
    lines = known.read_text().splitlines()
    wrong = lines[0].split(" ")[1:3]
    known.write_text("%s\n%s %s\n" % (lines[0], second.address, " ".join(wrong)))
    told = routers.task("facts")
    assert "ansible_facts" in told["r1"] and not told["r1"].get("unreachable")
    assert told["r2"]["unreachable"] and "HOST IDENTIFICATION HAS CHANGED" in told["r2"]["msg"]


def test_the_collection_has_documentation_for_each_of_its_modules(collections):
    root = pathlib.Path(collections) / "ansible_collections/linerate/router/plugins"
    actions = {path.stem for path in (root / "action").glob("*.py")}
    modules = {path.stem for path in (root / "modules").glob("*.yml")}
    assert actions == modules
