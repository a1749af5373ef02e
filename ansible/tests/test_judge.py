"""The verdict, on measurements that are made up."""

import random

import pytest


@pytest.fixture
def judge(module):
    """The filter's function."""
    return module("judge").judge


def measured(seed, packets=100_000.0, cost=1e-5, noise=0.02, lost=0, count=20):
    """So many seconds of a router with noise in what a packet costs."""
    dice = random.Random(seed)
    windows = []
    for _second in range(count):
        rate = packets * dice.uniform(0.7, 1.3)
        busy = rate * cost * dice.gauss(1.0, noise)
        windows.append({"seconds": 1.0, "packets": rate, "bits": rate * 8e3, "busy": busy, "dropped": 0.0})
    frames = int(packets * count)
    place = {"stage": "link", "place": "eth0", "counter": "rx_dropped", "watched": lost}
    return {"windows": windows, "lost": lost, "frames": frames, "places": [place] if lost else []}


def test_what_a_packet_costs_decides_and_not_how_many_there_are(judge):
    for seed in range(50):
        before = measured(seed)
        assert judge(before, measured(seed + 1000, packets=40_000.0))["go"], "less traffic, no worse"
        told = judge(before, measured(seed + 1000, cost=0.8e-5))
        assert told["go"] and told["verdict"] == "better" and told["cost"]["high"] < 1.0
        told = judge(before, measured(seed + 1000, cost=1.3e-5))
        assert not told["go"] and told["verdict"] == "worse" and told["cost"]["low"] > 1.1


def test_an_interval_of_95_percent_holds_the_truth_19_times_of_20(judge):
    held = 0
    for seed in range(2000):
        span = judge(measured(seed, noise=0.1), measured(seed + 5000, noise=0.1, cost=1.05e-5))["cost"]
        held += span["low"] <= 1.05 <= span["high"]
    assert 0.93 <= held / 2000 <= 0.97, held


def test_what_is_not_shown_stops_as_well(judge):
    told = judge(measured(1, noise=0.5), measured(2, noise=0.5, cost=1.08e-5))
    assert not told["go"] and told["verdict"] == "unclear" and "not shown" in told["why"]


def test_the_first_loss_stops_and_what_was_lost_before_does_not(judge):
    told = judge(measured(1), measured(2, lost=100))
    assert not told["go"] and told["verdict"] == "loss" and "rx_dropped: 100" in told["why"]
    assert judge(measured(1, lost=100), measured(2, lost=110))["go"], "as many as before"
    assert not judge(measured(1, lost=100), measured(2, lost=200))["go"]
    assert judge(measured(1), measured(2, lost=1))["go"], "one in two million"


def test_an_idle_router_is_judged_by_its_losses_alone(judge):
    quiet = dict(packets=50.0, count=20)
    told = judge(measured(1, **quiet), measured(2, cost=9.0, **quiet))
    assert told["go"] and told["verdict"] == "idle" and told["cost"] is None
    assert not judge(measured(1, **quiet), measured(2, lost=40, **quiet))["go"]


def test_packets_that_come_through_no_more_are_no_gain(judge):
    told = judge(measured(1), measured(2, packets=20.0))
    assert not told["go"] and told["verdict"] == "worse" and "hardly any packets" in told["why"]
