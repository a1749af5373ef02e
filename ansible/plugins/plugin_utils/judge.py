# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Before and after a change, by a router's own traffic: what a packet costs, what is lost.

Traffic changes by itself, so that a rate says little; CPU time for each packet says more. Two stretches of
time are compared, not interleaved blocks: this tells a change that hurts from one that does not, and proves
no gain. `linerate tune` does that.
"""

from __future__ import annotations

import math

# Two-sided 95 % quantiles of Student's distribution for 1, 2, ... degrees of freedom.
STUDENT = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
]  # fmt: skip

# Neighbouring intervals resemble each other: means of so many groups of them are compared.
GROUPS = 6

# Below so many packets per second what a packet costs is noise of everything else.
IDLE = 1000.0


def window(interval):
    """The part of an interval of `linerate record` that is compared."""
    known = [cpu for cpu in interval["cpus"] if cpu["idle"] is not None]
    return {
        "seconds": interval["seconds"],
        "packets": sum(d["rx_packets"] or 0.0 for d in interval["devices"] if d["device"] != "lo"),
        "bits": sum(d["rx_bits"] or 0.0 for d in interval["devices"] if d["device"] != "lo"),
        "busy": sum(max(0.0, 1.0 - cpu["idle"] - (cpu["user"] or 0.0)) for cpu in known),
        "dropped": sum(d["dropped"] or 0.0 for d in interval["devices"] if d["device"] != "lo"),
        "throttled": bool(interval["throttled"]),
    }


def groups(windows, figure):
    """Logarithms of a figure's means over neighbouring intervals."""
    count = min(GROUPS, len(windows))
    logs = []
    for number in range(count):
        part = windows[number * len(windows) // count : (number + 1) * len(windows) // count]
        value = figure(part)
        if value is None or value <= 0.0:
            return []
        logs.append(math.log(value))
    return logs


def mean(part, key):
    """Mean by time."""
    seconds = sum(one["seconds"] for one in part)
    return sum(one[key] * one["seconds"] for one in part) / seconds if seconds else 0.0


def cost(part):
    """CPU seconds for each packet."""
    packets = mean(part, "packets")
    return mean(part, "busy") / packets if packets >= IDLE else None


def ratio(before, after):
    """After over before with its 95 % interval (Welch), or None where it can't be had."""
    if len(before) < 3 or len(after) < 3:
        return None

    def moments(values):
        middle = sum(values) / len(values)
        return middle, sum((v - middle) ** 2 for v in values) / (len(values) - 1) / len(values)

    (mean_a, var_a), (mean_b, var_b) = moments(before), moments(after)
    spread = var_a + var_b
    if spread > 0.0:
        parts = var_a**2 / (len(before) - 1) + var_b**2 / (len(after) - 1)
        freedom = max(1, int(spread**2 / parts))
        student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96
    else:
        student = 0.0
    half = student * math.sqrt(spread)
    middle = mean_b - mean_a
    return {"ratio": math.exp(middle), "low": math.exp(middle - half), "high": math.exp(middle + half)}


def percent(value):
    """A ratio as a change."""
    return "%+.1f %%" % ((value - 1.0) * 100.0)


def judge(before, after, tolerance=0.1, loss_tolerance=1e-6):
    """The verdict: `loss`, `worse` and `unclear` stop a rollout; `better`, `not-worse` and `idle` let it
    go on. `idle` is a router with too little traffic to say more than that nothing was lost."""
    told = {
        "cost": ratio(groups(before["windows"], cost), groups(after["windows"], cost)),
        "packets": [mean(one["windows"], "packets") for one in (before, after)],
        "lost": [before["lost"], after["lost"]],
        "tolerance": tolerance,
    }
    expected = before["lost"] / max(before["frames"], 1) * after["frames"]
    most = expected + 3.0 * math.sqrt(expected) + loss_tolerance * after["frames"]
    if after["lost"] > most:
        where = ", ".join(
            "%s %s %s: %d" % (p["stage"], p["place"], p["counter"], p["watched"]) for p in after["places"]
        )
        why = "%d packets were lost, %.0f before (%s)" % (after["lost"], expected, where)
        return dict(told, verdict="loss", go=False, why=why)
    if told["packets"][0] >= IDLE and told["packets"][1] < told["packets"][0] / 10.0:
        why = "hardly any packets come through: %.0f a second, %.0f before" % tuple(reversed(told["packets"]))
        return dict(told, verdict="worse", go=False, why=why)
    span = told["cost"]
    if span is None:
        return dict(told, verdict="idle", go=True, why="nothing lost; too little traffic to say more")
    words = "a packet costs %s (%s to %s)" % tuple(percent(span[key]) for key in ("ratio", "low", "high"))
    if span["low"] > 1.0 + tolerance:
        return dict(told, verdict="worse", go=False, why=words)
    if span["high"] > 1.0 + tolerance:
        why = "%s: that it costs no more than %s is not shown" % (words, percent(1.0 + tolerance))
        return dict(told, verdict="unclear", go=False, why=why)
    return dict(told, verdict="better" if span["high"] < 1.0 else "not-worse", go=True, why=words)
