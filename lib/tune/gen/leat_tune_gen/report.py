# SPDX-License-Identifier: BSD-3-Clause
"""Check a table [[report]] of a description."""

from __future__ import annotations

from .common import help_text, name, string_size, unit, values
from .keys import Key, Table
from .model import Report

REPORT = {
    "name": Key(required=True),
    "kind": Key(required=True),
    "type": Key(),
    "unit": Key(),
    "values": Key(list),
    "size": Key(int),
    "aggregate": Key(),
    "help": Key(required=True),
}
# The types of each kind of report; the first is the default.
REPORT_TYPES = {
    "counter": ["integer"],
    "gauge": ["integer", "real", "bool", "enum"],
    "text": ["string"],
    "histogram": ["histogram"],
}
AGGREGATES = {
    "counter": ["sum", "max", "last"],
    "gauge": ["last", "sum", "max"],
    "text": ["last"],
    "histogram": ["sum"],
}


def report(t: Table) -> Report:
    kind = t.values.get("kind")
    t.check(REPORT)
    if kind not in REPORT_TYPES:
        if isinstance(kind, str):
            t.say("kind", f"kind {kind!r}; there are {', '.join(REPORT_TYPES)}")
        kind = "gauge"
    type_ = t.get("type", REPORT_TYPES[kind][0])
    if type_ not in REPORT_TYPES[kind]:
        t.say("type", f"a {kind} has type {' or '.join(REPORT_TYPES[kind])}, not {type_!r}")
        type_ = REPORT_TYPES[kind][0]
    help_text(t, "help")
    r = Report(name(t), type_, t.get("help", ""), t.where.line, kind=kind)
    r.unit = unit(t, t.get("unit"))
    if kind == "histogram":
        if r.unit not in (None, "ns"):
            t.say("unit", "a histogram has nanoseconds, unit \"ns\"")
        r.unit = "ns"
    elif r.unit and type_ in ("bool", "enum", "string"):
        t.say("unit", f"{type_} has no unit")
    r.aggregate = t.get("aggregate", AGGREGATES[kind][0])
    if r.aggregate not in AGGREGATES[kind]:
        t.say("aggregate", f"a {kind} has aggregate {' or '.join(AGGREGATES[kind])}, "
              f"not {r.aggregate!r}")
    elif r.aggregate != "last" and type_ in ("bool", "enum"):
        t.say("aggregate", f"{type_} has aggregate last, not {r.aggregate!r}")
    r.values = values(t, type_)
    r.size = string_size(t, type_)
    return r
