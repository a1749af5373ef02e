"""What changes something: apply and its dead-man, rollback, persist, tune, capture."""

import os
import signal
import time

import fleet
import pytest


def planned(routers, **more):
    """Plans of one CPU for all, in fleet/NAME.toml."""
    dest = str(routers.work / "fleet") + "/{{ inventory_hostname }}.toml"
    told = routers.task("plan", candidate="one-cpu", sample="0", dest=dest)
    assert all("msg" not in one for one in told.values()), told
    return dict(src=dest, settle=1, seconds=more.pop("seconds", 60), **more)


def until(is_so, seconds=90):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.1)


def test_a_change_is_confirmed_by_a_new_login_shown_before_and_undone_after(routers):
    (router,) = routers.make(1)
    plan = planned(routers)
    told = routers.task("apply", "--check", "--diff", **plan)["r1"]
    assert told["changed"] and told["outcome"] == "not-made" and router.mask() == 0
    assert "+/sys/class/net/lan0/queues/rx-0/rps_cpus = 1" in routers.printed
    logins = lambda: (router.dir / "sshd.log").read_text().count("Accepted publickey")  # noqa: E731
    before = logins()
    told = routers.task("apply", **plan)["r1"]
    assert told["changed"] and told["outcome"] == "confirmed" and told["seconds_left"] > 0, told
    assert router.mask() == 1 and logins() > before, "a login of its own to confirm"
    assert "waiting" not in router.status() and "undone" not in router.status()
    told = routers.task("apply", **plan)["r1"]
    assert not told["changed"] and told["outcome"] == "in-force"
    assert routers.task("verify", src=plan["src"])["r1"]["in_force"]
    told = routers.task("rollback", "--check")["r1"]
    assert told["changed"] and router.mask() == 1
    told = routers.task("rollback")["r1"]
    assert told["changed"] and len(told["restored"]) >= 1 and router.mask() == 0
    assert not routers.task("rollback")["r1"]["changed"]


def test_dropbear_and_the_shell_of_busybox_do_as_well(routers):
    if not (fleet.DROPBEAR and fleet.BUSYBOX):
        pytest.skip("no dropbear or no busybox here: set DROPBEAR")
    (router,) = routers.make(1, small=True)
    plan = planned(routers)
    told = routers.task("apply", **plan)["r1"]
    assert told["outcome"] == "confirmed" and router.mask() == 1, told
    assert (router.dir / "sshd.log").read_text().count("Pubkey auth succeeded") >= 2
    dest = routers.work / "r1.tar.gz"
    assert routers.task("capture", dest=str(dest), samples=1)["r1"]["bytes"] == dest.stat().st_size
    told = routers.task("measure", seconds=2)["r1"]
    assert len(told["windows"]) == 2 and told["frames"] >= 0
    assert routers.task("rollback")["r1"]["changed"] and router.mask() == 0
    # The change that lets nobody in.
    router.wrap('[ "$1" = apply ] || exec $REAL "$@"; $REAL "$@"; c=$?; ip link set wan0 down; exit $c')
    plan.update(seconds=17, return_timeout=5, no_probe=True)
    assert routers.task("apply", **plan)["r1"]["outcome"] == "lost"
    until(lambda: router.mask() == 0)


def test_a_router_that_vanishes_after_the_change_comes_back_undone(routers):
    gone, cut_off = routers.make(2)
    plan = planned(routers, seconds=20, return_timeout=60)
    # The one loses its cable the moment that the change is made, and has it back later; the other lets
    # nobody in any more, while its gateway answers.
    script = '[ "$1" = apply ] || exec $REAL "$@"; $REAL "$@"; c=$?; %s; exit $c'
    gone.wrap(script % "ip link set wan0 down")
    cut_off.wrap(script % "ip rule add sport 22 table 99; ip route add unreachable default table 99")
    lan = "[ -e %s/back ] && { ip link set wan0 up; ip route add default via 198.18.0.1; }"
    mender = "while sleep 0.5; do %s && break; done" % (lan % gone.dir)
    back = "while sleep 0.5; do [ -e %s/back ] && ip rule del sport 22 table 99 && break; done" % cut_off.dir
    gone.leave("sh", "-c", mender)
    cut_off.leave("sh", "-c", back)
    process = routers.start_task("apply", **plan)
    until(lambda: gone.mask() == 1 and cut_off.mask() == 1)
    until(lambda: gone.mask() == 0 and cut_off.mask() == 0)
    for router in (gone, cut_off):
        (router.dir / "back").touch()
    told = routers.ended_task(process)
    for one in told.values():
        assert one["failed"] and one["outcome"] == "undone" and "undid it" in one["msg"], one
    assert gone.mask() == 0 and cut_off.mask() == 0


def test_a_router_that_does_not_come_back_is_told_as_lost(routers):
    (router,) = routers.make(1)
    plan = planned(routers, seconds=17, return_timeout=5, no_probe=True)
    router.wrap('[ "$1" = apply ] || exec $REAL "$@"; $REAL "$@"; c=$?; ip link set wan0 down; exit $c')
    told = routers.task("apply", **plan)["r1"]
    assert told["failed"] and told["outcome"] == "lost", told
    until(lambda: router.mask() == 0)


def test_a_controller_killed_in_the_middle_leaves_nothing(routers):
    (router,) = routers.make(1)
    plan = planned(routers, seconds=45)
    plan["settle"] = 30
    process = routers.start_task("apply", **plan)
    until(lambda: router.mask() == 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The next controller finds it waiting, waits for its end, and makes it anew.
    assert router.status()["waiting"]["seconds_left"] > 1
    plan.update(settle=1)
    told = routers.task("apply", **plan)["r1"]
    assert told["outcome"] == "confirmed" and told["changed"], told
    assert router.mask() == 1


def test_what_is_left_waiting_is_confirmed_by_a_task_of_its_own_or_undone(routers):
    first, second = routers.make(2)
    plan = planned(routers, seconds=30, confirm="later")
    told = routers.task("apply", **plan)
    for one in told.values():
        assert one["outcome"] == "waiting" and 0 < one["seconds_left"] <= 30, one
    told = routers.task("confirm", "--limit", "r1")["r1"]
    assert told["changed"] and told["seconds_left"] > 0
    until(lambda: second.mask() == 0)
    told = routers.task("confirm", "--limit", "r2")["r2"]
    assert told["failed"] and told["outcome"] == "undone" and "before it was confirmed" in told["msg"]
    assert first.mask() == 1


def test_persisting_is_done_once_and_taken_back(routers):
    (router,) = routers.make(1)
    plan = planned(routers)
    told = routers.task("persist", src=plan["src"])["r1"]
    assert told["failed"] and "exit code 5" in told["msg"], "there is no init here"
    router.pretend_openwrt()
    told = routers.task("persist", "--check", src=plan["src"])["r1"]
    assert told["changed"] and not (router.etc / "plan.toml").exists()
    told = routers.task("persist", src=plan["src"])["r1"]
    assert told["changed"] and "/etc/linerate/plan.toml" in told["files"], told
    for words in ([], ["--check"]):
        assert not routers.task("persist", *words, src=plan["src"])["r1"]["changed"]
    assert (
        routers.task("facts")["r1"]["ansible_facts"]["linerate"]["status"]["persisted"]["init"] == "openwrt"
    )
    told = routers.task("persist", state="absent")["r1"]
    assert told["changed"] and not (router.etc / "plan.toml").exists()
    assert not routers.task("persist", state="absent")["r1"]["changed"]


def test_a_capture_comes_byte_for_byte(routers):
    (router,) = routers.make(1)
    dest = routers.work / "captures" / "r1.tar.gz"
    told = routers.task("capture", dest=str(dest), samples=1)["r1"]
    assert told["changed"] and dest.stat().st_size == told["bytes"]
    shown = router.linerate("show", "--json", "--host", str(dest))
    assert shown.returncode == 0 and '"lan0"' in shown.stdout
    assert not routers.task("capture", dest=str(dest), force=False)["r1"]["changed"]


def test_an_experiment_outlives_its_controller_and_its_record_is_collected(routers):
    (router,) = routers.make(1)
    if "tune" not in router.linerate("--help").stdout:
        pytest.skip("the router's build does not tune")
    dest = routers.work / "r1.json"
    # A stand-in that takes its time: what tune itself does is tested elsewhere.
    router.wrap(
        '[ "$1" = tune ] || exec $REAL "$@"; echo x >>%s/runs; until [ -e %s/go ]; do sleep 0.2; done;'
        ' echo \'{"format":"linerate-result","version":1,"cells":[1,2]}\' >result.json'
        % (router.dir, router.dir)
    )
    asked = dict(dest=str(dest), poll=1, arguments=["--quick"])
    process = routers.start_task("tune", **asked)
    until(lambda: (router.dir / "runs").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    told = routers.task("tune", timeout=1, **asked)["r1"]
    assert told["failed"] and "still runs" in told["msg"]
    (router.dir / "go").touch()
    told = routers.task("tune", **asked)["r1"]
    assert told["changed"] and told["cells"] == 2 and dest.exists(), told
    assert (router.dir / "runs").read_text() == "x\n", "it was begun once"
    told = routers.task("tune", dest=str(dest), arguments=["--apply"])["r1"]
    assert told["failed"] and "--apply is not for tune" in told["msg"]
