"""The rollout: canaries, batches, the first loss, a controller that dies, routers in no state."""

import json
import os
import re
import signal
import sys
import time

import pytest

# Frames of a protocol that nobody there speaks are a loss that the kernel counts (rx_dropped).
NOISE = r"""
import socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
while True:
    if int(open("/sys/class/net/lan0/queues/rx-0/rps_cpus").read().replace(",", ""), 16):
        wire.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(50))
    time.sleep(0.001)
"""
ROLLOUT = "linerate.router.rollout"


def asked(routers, **more):
    """Variables of a rollout that is quick."""
    plan = dict(candidate="one-cpu", sample="0")
    told = dict(linerate_dir=str(routers.work / "fleet"), linerate_plan=plan, linerate_measure=3)
    return dict(told, linerate_hosts="routers", linerate_persist=False, linerate_tolerance=10, **more)


def outcome(printed):
    """Counts of the recap by router."""
    lines = re.findall(r"^(\S+) +: (.*)$", printed.split("PLAY RECAP")[1], re.M)
    return {name: dict(re.findall(r"(\w+)=(\d+)", counts)) for name, counts in lines}


def order(printed):
    """Routers in the order in which they were changed."""
    found = []
    for part in re.split(r"^TASK ", printed, flags=re.M):
        if "Make the change, which" in part.split("\n")[0]:
            found.append(sorted(re.findall(r"^(?:changed|ok): \[(\w+)\]", part, re.M)))
    return found


def test_twenty_routers_are_changed_one_then_a_tenth_then_the_rest(routers):
    made = routers.make(20)
    slow, old, strange = made[17], made[18], made[19]
    slow.wrap('sleep 2; exec $REAL "$@"')
    old.wrap('[ "$1" != --version ] || { echo "linerate 0.0.9"; exit 0; }; exec $REAL "$@"')
    routers.inventory()
    known = routers.work / "known_hosts"
    lines = known.read_text().splitlines()
    lines[19] = "%s %s" % (strange.address, lines[0].split(" ", 1)[1])
    known.write_text("\n".join(lines) + "\n")
    printed = routers.play(ROLLOUT, code=None, **asked(routers))
    batches = order(printed)
    assert batches[0] == ["r1"], "one canary, for they are of one class"
    # Of 18 a tenth is one, which is the canary: then come the rest, ten at a time.
    assert [len(batch) for batch in batches] == [1, 10, 7], batches
    for router in made[:18]:
        assert router.mask() == 1 and "waiting" not in router.status(), router.name
    assert old.mask() == 0 and strange.mask() == 0
    told = outcome(printed)
    assert told["r19"]["failed"] == "1" and told["r20"]["unreachable"] == "1"
    page = (routers.work / "fleet" / "fleet.html").read_text()
    assert "18 routers were changed, and none is worse off." in page
    assert "18 of 20 could be looked at." in page
    assert "0.0.9 is older than" in page and "HOST IDENTIFICATION HAS CHANGED" in page
    # Once more: there is nothing to do.
    printed = routers.play(ROLLOUT, code=None, **asked(routers))
    assert order(printed) == []


def test_the_first_loss_stops_the_rollout_and_undoes_its_batch(routers):
    made = routers.make(5)
    noise = routers.work / "noise.py"
    noise.write_text(NOISE)
    broken = made[2]
    broken.leave(sys.executable, str(noise), "lanp0")
    # The canary is r1; r2 to r5 are the rest, two at a time.
    printed = routers.play(ROLLOUT, code=2, **asked(routers, linerate_batch=2))
    assert order(printed) == [["r1"], ["r2", "r3"]], printed
    assert [router.mask() for router in made] == [1, 0, 0, 0, 0]
    assert all("waiting" not in router.status() for router in made)
    stopped = json.loads((routers.work / "fleet" / "stopped").read_text())
    assert list(stopped) == ["r3"] and stopped["r3"]["verdict"] == "loss"
    assert "rx_dropped" in stopped["r3"]["why"]
    page = (routers.work / "fleet" / "fleet.html").read_text()
    assert "The rollout stopped: r3 is worse off" in page
    assert "Undone with them, for they were of the same batch: r2." in page
    assert outcome(printed)["localhost"]["failed"] == "1"


def test_a_rollout_goes_on_after_its_controller_was_killed(routers):
    made = routers.make(4)
    variables = asked(routers, linerate_batch=1, linerate_seconds=45)
    process = routers.start(ROLLOUT, **variables)
    end = time.monotonic() + 240
    # The canary is kept, and the change of the next one waits.
    while not (made[1].mask() == 1 and "waiting" in made[1].status()):
        assert time.monotonic() < end and process.poll() is None, (routers.work / "log").read_text()
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [router.mask() for router in made] == [1, 1, 0, 0]
    printed = routers.play(ROLLOUT, **variables)
    assert order(printed) == [["r2"], ["r3"], ["r4"]], "the first one is done"
    assert [router.mask() for router in made] == [1, 1, 1, 1]
    assert all("waiting" not in router.status() for router in made)


def test_a_canary_that_vanishes_ends_the_rollout_and_comes_back_undone(routers):
    made = routers.make(2)
    cut = '[ "$1" = apply ] || exec $REAL "$@"; $REAL "$@"; c=$?; ip link set wan0 down; exit $c'
    made[0].wrap(cut)
    back = "until [ -e %s/back ]; do sleep 0.3; done; ip link set wan0 up;" % made[0].dir
    made[0].leave("sh", "-c", back + "ip route add default via 198.18.0.1")
    process = routers.start(ROLLOUT, **asked(routers, linerate_seconds=40))
    end = time.monotonic() + 240
    for mask in (1, 0):
        while made[0].mask() != mask:
            assert time.monotonic() < end, (routers.work / "log").read_text()
            time.sleep(0.1)
    (made[0].dir / "back").touch()
    routers.ended(process, code=2)
    stopped = json.loads((routers.work / "fleet" / "stopped").read_text())
    assert stopped["r1"]["verdict"] == "undone"
    assert [router.mask() for router in made] == [0, 0]


def test_a_canary_that_is_gone_before_its_turn_stops_its_class(routers):
    made = routers.make(2)
    # It answers when it is looked at, and not when it is measured.
    made[0].wrap('case $* in *--load*) ip link set wan0 down ;; esac; exec $REAL "$@"')
    printed = routers.play(ROLLOUT, code=None, **asked(routers))
    stopped = json.loads((routers.work / "fleet" / "stopped").read_text())
    assert list(stopped) == ["r1"] and not stopped["r1"]["go"], printed
    assert [router.mask() for router in made] == [0, 0]


def test_what_was_confirmed_and_not_yet_persisted_is_persisted_by_the_next_run(routers):
    (router,) = routers.make(1)
    router.pretend_openwrt()
    variables = asked(routers)
    routers.play(ROLLOUT, **variables)
    assert router.mask() == 1 and "persisted" not in router.status()
    variables.update(linerate_persist=True)
    assert order(routers.play(ROLLOUT, **variables)) == [["r1"]]
    assert router.mask() == 1 and router.status()["persisted"]["init"] == "openwrt"
    assert order(routers.play(ROLLOUT, **variables)) == []


def test_check_mode_changes_nothing_and_shows_all(routers):
    made = routers.make(2)
    variables = asked(routers)
    printed = routers.play(ROLLOUT, "--check", "--diff", **variables)
    assert "+/sys/class/net/lan0/queues/rx-0/rps_cpus = 1" in printed
    assert [router.mask() for router in made] == [0, 0]
    assert not (routers.work / "fleet" / "fleet.html").exists()


@pytest.mark.parametrize("count", [1, 9, 10, 35])
def test_waves_have_one_then_a_tenth_then_the_rest_of_each_class(count, collections, module):
    waves = module("waves").waves
    classes = {"a%d" % n: "a" for n in range(count)} | {"b": "b"}
    told = waves(classes)
    assert list(told.values()).count("canary") == 2 and told["a0"] == "canary" and told["b"] == "canary"
    assert list(told.values()).count("tenth") == max(0, count // 10 - 1)
    assert len(told) == count + 1
    done = waves(classes, done=["a0"])
    assert done["a0"] == "done" and "canary" not in [done[n] for n in done if n != "b"]
