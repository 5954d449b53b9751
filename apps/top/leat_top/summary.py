# SPDX-License-Identifier: BSD-3-Clause
"""Summarise an object in one line: "1.20M calls/s, 48 sessions"."""

from __future__ import annotations

from .columns import amount_pid, time_of, trend, words
from .format import TIME_UNITS, Glyphs, Parts, percent, si, width_of, with_unit
from .model import Object
from .schema import of_kind, order
from .table import Column

# For leat's own components: measurements, and their labels.
_LINES: dict[str, tuple[tuple[str, str], ...]] = {
    "rpc": (("handled", "handled/s"), ("done", "done/s"), ("sessions", "sessions")),
    "msg": (("sent", "sent/s"), ("received", "received/s"), ("conns", "connections")),
    "stream": (("streams", "open"), ("tx_bytes", "B/s sent"), ("rx_bytes", "B/s received")),
    "task": (("tasks", "tasks"), ("ready", "ready"), ("switches", "switches/s")),
    "memory": (("pools", "pools"), ("size", "bytes")),
    "rpc_bench": (("calls", "calls/s"), ("failed", "failed/s"), ("outstanding", "outstanding")),
    "perf": (("messages", "messages/s"), ("transferred", "B/s"), ("errors", "errors/s")),
}
_MOST = 4


def facts(o: Object) -> list[tuple[str, str]]:
    """Return numbers with their labels."""
    if not o.schema.reports:
        return [(str(len(o.settings)), "setting" if len(o.settings) == 1 else "settings")]
    known = _LINES.get(o.component)
    if known is None:
        return _described(o)
    found = []
    for name, label in known:
        rated = name in o.rates
        value = o.rates[name] if rated else o.number(name)
        report = o.schema.reports.get(name)
        # While a counter has no rate yet, don't show its total instead.
        if report is None or (report.kind == "counter" and not rated):
            continue
        found.append((si(value), label))
    moving = [f for f in found if f[0] != "0"]
    return moving or found


def _described(o: Object) -> list[tuple[str, str]]:
    found = []
    for report in o.schema.reports.values():
        label = report.name.replace("_", " ")
        if report.kind == "counter" and report.name in o.rates:
            if report.unit in TIME_UNITS:
                found.append((percent(o.share(report.name)), label.removesuffix(" ns")))
            else:
                found.append((si(o.rates[report.name]), label + "/s"))
        elif report.kind == "gauge" and report.name in o.report:
            value = o.report[report.name]
            unit = report.unit if report.unit in TIME_UNITS else None
            found.append((with_unit(value, unit), label))
    return found[:_MOST]


def _draw(o: Object, width: int, glyphs: Glyphs) -> Parts:
    parts: Parts = []
    left = width
    for number, label in facts(o):
        need = width_of(number) + 1 + width_of(label) + (2 if parts else 0)
        if need > left:
            break
        if parts:
            parts.append(("  ", "text"))
        parts += [(number, "rate" if number != "0" else "faint"), (" " + label, "dim")]
        left -= need
    return parts or [("-", "faint")]


def _past(o: Object):
    names = [n for n, _ in _LINES.get(o.component, ()) if n in o.past]
    names += [r.name for r in of_kind(o.schema, "counter") if r.unit not in TIME_UNITS]
    return next((o.past[n] for n in names if n in o.past and any(o.past[n])), None)


def _p99(o: Object) -> float | None:
    found = o.busiest()
    return found[1].p99 if found else None


def summary_columns() -> list[Column]:
    return [
        Column(
            "component", "COMPONENT", 10, lambda o: order(o.component),
            lambda o, width, glyphs: (o.component, "accent"),
            right=False, keep=50, most_first=False,
        ),
        words("name", "NAME", 12, lambda o: o.name, role="name", keep=99, grow=1),
        words("program", "PROGRAM", 12, lambda o: o.process.program, role="dim", keep=6),
        amount_pid(),
        Column("facts", "", 34, lambda o: None, _draw, right=False, grow=4, keep=60),
        time_of("p99", "p99", _p99, keep=7),
        trend("trend", "TREND", _past, width=12, grow=2, keep=4),
    ]
