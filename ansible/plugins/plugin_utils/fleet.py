# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a page about all routers has: classes, findings by frequency, drift, what a rollout brought."""

from __future__ import annotations

import math

SEVERITIES = ["critical", "warning", "notice", "info"]


def clean(value):
    """Everything that steers a terminal or turns text around is shown by its number, as in our reports."""
    if isinstance(value, str):
        return "".join(
            "\\u%04x" % ord(c)
            if (ord(c) < 32 and c != "\n")
            or 0x7F <= ord(c) < 0xA0
            or 0x202A <= ord(c) <= 0x202E
            or 0x2066 <= ord(c) <= 0x2069
            else c
            for c in value
        )
    if isinstance(value, dict):
        return {clean(key): clean(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(one) for one in value]
    return value


def counted(names):
    """Names, those that are there several times once with their number."""
    return [
        name if names.count(name) == 1 else "%d x %s" % (names.count(name), name)
        for name in sorted(set(names))
    ]


def by_class(rows):
    """Classes with their routers, the largest first."""
    found = {}
    for row in rows:
        if not row.get("facts"):
            continue
        kind = row["facts"]["class"]
        one = found.setdefault(
            kind["id"],
            {
                "id": kind["id"],
                "label": kind["label"],
                "ports": counted(kind["traits"]["ports"]),
                "routers": [],
                "versions": {},
                "changed": 0,
                "persisted": 0,
                "gains": [],
            },
        )
        one["routers"].append(row["name"])
        version = row["facts"]["version"]
        one["versions"][version] = one["versions"].get(version, 0) + 1
        status = row["facts"]["status"]
        one["changed"] += bool(status["journals"])
        one["persisted"] += bool(status.get("persisted"))
        span = (row.get("verdict") or {}).get("cost")
        if span and row["verdict"]["go"] and row["verdict"].get("kept", True):
            one["gains"].append(span["ratio"])
    for one in found.values():
        gains = one.pop("gains")
        one["gain"] = (
            {
                "routers": len(gains),
                "mean": math.exp(sum(math.log(gain) for gain in gains) / len(gains)),
                "least": max(gains),
                "most": min(gains),
            }
            if gains
            else None
        )
    return sorted(found.values(), key=lambda one: (-len(one["routers"]), one["label"]))


def by_rule(rows):
    """Findings of all routers by rule: the gravest and most frequent first."""
    found = {}
    for row in rows:
        # A rule that finds two things on one router is one router's finding.
        for finding in {
            f["rule"]: f for f in reversed((row.get("facts") or {}).get("findings") or [])
        }.values():
            one = found.setdefault(
                finding["rule"],
                {
                    "rule": finding["rule"],
                    "severity": finding["severity"],
                    "example": finding["title"],
                    "consequence": finding["consequence"],
                    "remedy": finding["remedy"],
                    "routers": [],
                    "classes": set(),
                },
            )
            one["severity"] = min(one["severity"], finding["severity"], key=SEVERITIES.index)
            one["routers"].append(row["name"])
            one["classes"].add(row["facts"]["class"]["id"])
    for one in found.values():
        one["classes"] = sorted(one["classes"])
    return sorted(
        found.values(), key=lambda one: (SEVERITIES.index(one["severity"]), -len(one["routers"]), one["rule"])
    )


def fleet(rows):
    """The whole page. A row is a router: `name`; `facts`, where it could be looked at; `error`, where not;
    `verdict`, where a rollout came to it."""
    rows = clean(rows)
    told = [row for row in rows if row.get("facts")]
    verdicts = [row for row in rows if row.get("verdict")]
    page = {
        "routers": len(rows),
        "looked": len(told),
        "classes": by_class(rows),
        "findings": by_rule(rows),
        "drift": [{"name": row["name"], **one} for row in told for one in row["facts"]["status"]["drift"]],
        "skipped": [
            row["name"] for row in told if (row["facts"]["status"].get("persisted") or {}).get("skipped")
        ],
        "waiting": [row["name"] for row in told if row["facts"]["status"].get("waiting")],
        "undone": [
            {"name": row["name"], "why": row["facts"]["status"]["undone"]["why"]}
            for row in told
            if row["facts"]["status"].get("undone")
        ],
        "missing": [
            {"name": row["name"], "error": row.get("error") or "not looked at"}
            for row in rows
            if not row.get("facts")
        ],
        "kept": [row for row in verdicts if row["verdict"]["go"] and row["verdict"].get("kept", True)],
        "with_others": [
            row["name"] for row in verdicts if row["verdict"]["go"] and not row["verdict"].get("kept", True)
        ],
        "worse": [row for row in verdicts if not row["verdict"]["go"]],
    }
    return page


def row(variables):
    """A router's row, of its variables in a playbook."""
    looked = variables.get("linerate_looked") or {}
    is_there = not (looked.get("failed") or looked.get("unreachable"))
    return {
        "name": variables["inventory_hostname"],
        "facts": variables.get("linerate") if looked and is_there else None,
        "error": looked.get("msg"),
        "verdict": variables.get("linerate_verdict"),
    }
