# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What kind of machine a router is: routers of one class behave alike under one change."""

from __future__ import annotations

import hashlib
import json


def devices(show):
    """The devices with hardware or a driver behind them."""
    return [
        {
            "name": device["name"],
            "driver": device.get("driver"),
            "rx_queues": len(device.get("rx_queues") or []),
            "tx_queues": len(device.get("tx_queues") or []),
            "speed": device.get("speed"),
            "state": device.get("operstate"),
        }
        for device in show.get("netdevs") or []
        if device.get("driver") and device.get("sysfs", "").find("/virtual/") < 0
    ]


def kinds(trees):
    """Kinds of devices in the stack, at any depth."""
    for tree in trees or []:
        yield tree.get("kind")
        yield from kinds(tree.get("below"))


def traits(show):
    """What two machines of one class have in common: hardware, kernel and what lies over the ports. No
    names, addresses or settings, which routers of one model differ in."""
    machine = show["machine"]
    cpus = [cpu for cpu in show.get("cpus") or [] if cpu.get("online", True)]
    return {
        "board": machine.get("board") or machine.get("cpu_model"),
        "arch": machine.get("arch"),
        "kernel": machine.get("kernel"),
        "cpus": len(cpus),
        "ports": sorted(
            "%s %d+%d" % (device["driver"], device["rx_queues"], device["tx_queues"])
            for device in devices(show)
        ),
        "stack": sorted({str(kind) for kind in kinds(show.get("stack")) if kind}),
    }


def machine_class(show):
    """The class: a short name for comparing, and one for reading."""
    told = traits(show)
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    drivers = sorted({port.split(" ")[0] for port in told["ports"]})
    words = [told["board"], told["kernel"], "%d CPUs" % told["cpus"], "+".join(drivers)]
    return {"id": digest, "label": ", ".join(word for word in words if word), "traits": told}
