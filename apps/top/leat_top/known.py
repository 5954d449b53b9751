# SPDX-License-Identifier: BSD-3-Clause
"""Columns of leat's own components: their important measurements, the most important first.

A process of another release may not report all of them; then their columns are empty.
"""

from __future__ import annotations

import time

from .columns import (
    alarm,
    amount,
    bar,
    busy_of,
    gauge,
    generic_columns,
    latency_columns,
    name_column,
    program_columns,
    rate,
    share_of,
    time_of,
    trend,
    words,
)
from .format import long_time
from .model import Object, Process
from .table import Column


def _text(name: str):
    def of(o: Object):
        value = o.value(name)
        return None if value in (None, "") else str(value)

    return of


def _share(i: int):
    def of(o: Object):
        shares = busy_of(o)
        return shares[i] if shares else None

    return of


def _running(o: Object) -> str | None:
    return o.trouble() or _text("running")(o)


def reactor_columns() -> list[Column]:
    return [
        name_column("LCORE", 8),
        *program_columns(),
        words("state", "STATE", 8, _text("state"), keep=4),
        bar("load", "BUSY IDLE ASLEEP", busy_of, width=16, grow=6, keep=50),
        share_of("busy", "BUSY", _share(0), keep=60),
        share_of("idle", "IDLE", _share(1), keep=8),
        share_of("sleep", "ASLP", _share(2), keep=8),
        rate("turns", "TURNS/s", width=7, keep=7),
        rate("messages", "MSG/s", keep=3),
        rate("timers", "TMR/s", keep=2),
        words("idle_effective", "POLICY", 6, _text("idle_effective"), role="dim", keep=3),
        words("running", "IN", 12, _running, role="accent", keep=9, grow=3),
    ]


def poller_columns() -> list[Column]:
    return [
        name_column("POLLER", 18),
        words("state", "STATE", 8, _text("state"), keep=6),
        share_of("busy_ns", "BUSY", lambda o: o.share("busy_ns"), keep=9),
        share_of("idle_ns", "IDLE", lambda o: o.share("idle_ns"), keep=7),
        rate("runs", "RUNS/s", width=7, keep=8),
        rate("busy_runs", "BUSY RUNS/s", width=11, keep=5),
        trend("trend", "TREND", lambda o: o.past.get("busy_runs"), grow=2, keep=3),
    ]


def endpoint_columns() -> list[Column]:
    return [
        name_column("ENDPOINT", 10),
        *program_columns(),
        words("device", "DEVICE", 12, _text("device"), keep=5),
        words("provider", "PROVIDER", 8, _text("provider"), role="dim", keep=2),
        rate("returned", "OPS/s", keep=90),
        rate("tx_bytes", "TX B/s", keep=40),
        rate("rx_bytes", "RX B/s", keep=40),
        *latency_columns(),
        gauge("held_back_now", "HELD", width=5, keep=6),
        alarm("refused", "REF/s", lambda o: o.rate("refused"), role="warn", keep=6),
        alarm("errors", "ERR/s", lambda o: o.rate("errors"), keep=8),
        gauge("peers", "PEERS", width=5, keep=3),
        trend("trend", "OPS/s TREND", lambda o: o.past.get("returned"), width=12, grow=3, keep=6),
    ]


def process_columns() -> list[Column]:
    def ops(p: Process):
        return p.total("endpoint", "returned")

    def held(p: Process):
        found = [o.number("held_back_now") for o in p.of("endpoint")]
        found = [v for v in found if v is not None]
        return sum(found) if found else None

    def busy(p: Process):
        shares = p.busy()
        return shares[0] if shares else None

    def draw_pid(p: Process, width: int, glyphs):
        return str(p.pid), "strong"

    def draw_up(p: Process, width: int, glyphs):
        return long_time(time.time() - p.start), "dim"

    return [
        Column("pid", "PID", 7, lambda p: p.pid, draw_pid, keep=99, most_first=False),
        words("program", "PROGRAM", 12, lambda p: p.program, role="name", keep=98, grow=1),
        Column("up", "UP", 6, lambda p: -p.start, draw_up, keep=4),
        amount("lcores", "LC", lambda p: len(p.of("reactor")), width=3, keep=5),
        bar("load", "LOAD", Process.busy, width=8, grow=3, keep=20),
        share_of("busy", "BUSY", busy, keep=60),
        amount("ops", "OPS/s", ops, role="rate", keep=50),
        amount("tx", "TX B/s", lambda p: p.total("endpoint", "tx_bytes"), role="rate", keep=30),
        amount("rx", "RX B/s", lambda p: p.total("endpoint", "rx_bytes"), role="rate", keep=30),
        time_of("p99", "p99", lambda p: p.worst("endpoint", "p99"), keep=25),
        amount("held", "HELD", held, width=5, keep=7),
        alarm("errors", "ERR/s", lambda p: p.total("endpoint", "errors"), width=5, keep=9),
        trend("trend", "OPS/s TREND", lambda p: p.past.get("ops"), width=12, grow=4, keep=10),
    ]


def peer_columns() -> list[Column]:
    return [
        name_column("PEER", 14),
        words("state", "STATE", 10, _text("state"), keep=8),
        words("address", "ADDRESS", 20, _text("address"), keep=9, grow=3),
    ]


def rpc_columns() -> list[Column]:
    return [
        name_column("RPC", 10),
        *program_columns(),
        rate("posted", "POSTED/s", width=8, keep=9),
        rate("done", "DONE/s", width=7, keep=10),
        rate("handled", "HANDLED/s", width=9, keep=10),
        rate("packets_sent", "PACKETS/s", width=9, keep=5),
        amount("batch", "PER PKT", _per("items_sent", "packets_sent"), width=7, keep=6),
        gauge("sessions", "SESSIONS", width=8, keep=7),
        alarm(
            "retransmissions",
            "RESENT/s",
            lambda o: o.rate("retransmissions"),
            role="warn",
            width=8,
            keep=6,
        ),
        alarm("expired", "EXPIRED/s", lambda o: o.rate("expired"), role="warn", width=9, keep=5),
        trend("trend", "TREND", _past("handled", "done"), grow=3, keep=4),
    ]


def _per(name: str, other: str):
    """Return a function for the ratio of two rates, such as items per packet."""

    def of(o: Object):
        many, few = o.rate(name), o.rate(other)
        return many / few if many is not None and few else None

    return of


def _past(*names: str):
    """Return a function for the past rates of the first of these counters that moved."""

    def of(o: Object):
        rates = [(o.rate(n) or 0.0, n) for n in names if n in o.past]
        return o.past[max(rates)[1]] if rates else None

    return of


def msg_columns() -> list[Column]:
    return [
        name_column("MSG", 10),
        *program_columns(),
        rate("sent", "SENT/s", width=7, keep=10),
        rate("received", "RECV/s", width=7, keep=10),
        rate("sent_bytes", "TX B/s", keep=8),
        rate("recv_bytes", "RX B/s", keep=8),
        gauge("held", "HELD", width=5, keep=5),
        alarm("stalled", "STALLED/s", lambda o: o.rate("stalled"), role="warn", width=9, keep=6),
        gauge("conns", "CONNS", width=5, keep=7),
        trend("trend", "TREND", _past("sent", "received"), grow=3, keep=4),
    ]


def stream_columns() -> list[Column]:
    return [
        name_column("STREAMS", 10),
        *program_columns(),
        gauge("streams", "OPEN", keep=10),
        rate("tx_bytes", "TX B/s", keep=9),
        rate("rx_bytes", "RX B/s", keep=9),
        rate("accepted", "ACCEPTED/s", width=10, keep=6),
        alarm("failed", "FAILED/s", lambda o: o.rate("failed"), width=8, keep=7),
        trend("trend", "TREND", _past("tx_bytes", "rx_bytes"), grow=3, keep=4),
    ]


def task_columns() -> list[Column]:
    return [
        name_column("TASKS", 10),
        *program_columns(),
        gauge("tasks", "ALIVE", keep=10),
        gauge("ready", "READY", keep=9),
        rate("spawned", "SPAWNED/s", width=9, keep=8),
        rate("switches", "SWITCHES/s", width=10, keep=8),
        alarm("refused", "REF/s", lambda o: o.rate("refused"), role="warn", keep=6),
        alarm("hogs", "HOGS/s", lambda o: o.rate("hogs"), role="warn", keep=7),
        trend("trend", "SWITCHES/s TREND", _past("switches"), width=12, grow=3, keep=4),
    ]


def mempool_columns() -> list[Column]:
    def used(o: Object):
        objects, in_use = o.number("objects"), o.number("in_use")
        return (in_use / objects, 0.0, 1.0) if objects and in_use is not None else None

    def part(o: Object):
        shares = used(o)
        return shares[0] if shares else None

    return [
        name_column("MEMPOOL", 16),
        *program_columns(),
        gauge("in_use", "IN USE", width=7, keep=9),
        gauge("objects", "OBJECTS", width=7, keep=8),
        gauge("object_size", "BYTES EACH", width=10, keep=4),
        share_of("used", "USED", part, keep=10),
        bar("bar", "FILL", used, width=10, grow=4, keep=7),
    ]


def perf_columns() -> list[Column]:
    return [
        name_column("PERF", 10),
        *program_columns(),
        gauge("size", "SIZE", keep=6),
        rate("messages", "MESSAGES/s", width=10, keep=10),
        rate("transferred", "B/s", keep=9),
        alarm("errors", "ERR/s", lambda o: o.rate("errors"), keep=8),
        *latency_columns()[1:],
        trend("trend", "MESSAGES/s TREND", _past("messages"), width=16, grow=3, keep=4),
    ]


_KNOWN = {
    "reactor": reactor_columns,
    "endpoint": endpoint_columns,
    "poller": poller_columns,
    "peer": peer_columns,
    "rpc": rpc_columns,
    "msg": msg_columns,
    "stream": stream_columns,
    "task": task_columns,
    "mempool": mempool_columns,
    "perf": perf_columns,
}
_SORTED_BY = {"process": "pid", "reactor": "name", "poller": "busy_ns"}


def columns_of(schema, *, rows: bool = False) -> list[Column]:
    """Return the columns of a component; measurements without a known column follow."""
    make = _KNOWN.get(schema.component)
    generic = generic_columns(schema, rows=rows)
    if make is None:
        return generic
    known = [c for c in make() if not rows or c.name not in ("program", "pid")]
    if schema.component == "peer":
        names = {c.name for c in known}
        known += [c for c in generic if c.name not in names]
    return known


def sorted_by(component: str) -> str:
    return _SORTED_BY.get(component, "name")



def sortable() -> list[str]:
    """Return the names of columns that --sort takes."""
    names = {c.name for make in _KNOWN.values() for c in make()}
    return sorted(names | {c.name for c in process_columns()})
