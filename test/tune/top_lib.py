# SPDX-License-Identifier: BSD-3-Clause
"""For tests of leat-top: snapshots without a process."""

from __future__ import annotations

from fake_schemas import schema_text

from leat_tune import BUCKETS, Histogram, Lease, Object, Schema, Snapshot, bucket_of
from leat_top.model import Seen

S = 1_000_000_000

WORKER = """
component = "worker"
title = "Workers"
help = "Of an application."

[[setting]]
name = "batch"
type = "integer"
unit = "calls"
range = [1, 64]
special = { automatic = 0 }
default = 8
when = "now"
help = "Calls of a batch."

[[setting]]
name = "mode"
type = "enum"
values = ["fast", "safe", "off"]
default = "fast"
when = "now"
help = "How it works."

[[setting]]
name = "low"
type = "integer"
range = [0, 100]
default = 10
when = "now"
help = "Lower mark."

[[setting]]
name = "high"
type = "integer"
range = [0, 100]
default = 90
when = "now"
help = "Upper mark."

[[setting]]
name = "threads"
type = "integer"
range = [1, 8]
default = 1
when = "start"
help = "Threads."

[[group]]
name = "marks"
settings = ["low", "high"]
rule = "low <= high"
help = "Marks."

[[report]]
name = "calls"
kind = "counter"
type = "integer"
unit = "calls"
help = "Calls made."

[[report]]
name = "waited_ns"
kind = "counter"
type = "integer"
unit = "ns"
help = "Time waited."

[[report]]
name = "depth"
kind = "gauge"
type = "integer"
unit = "calls"
help = "Calls in flight."

[[report]]
name = "where"
kind = "text"
type = "string"
size = 32
help = "Where it is."

[[report]]
name = "latency"
kind = "histogram"
unit = "ns"
help = "Of a call."
"""

_schemas: dict[str, Schema] = {}


def schema(description: str) -> Schema:
    if description not in _schemas:
        _schemas[description] = Schema.parse(schema_text(description))
    return _schemas[description]


def histogram(*values: int) -> Histogram:
    buckets = [0] * BUCKETS
    for ns in values:
        buckets[bucket_of(ns)] += 1
    return Histogram(len(values), sum(values), tuple(buckets))


def thing(description: str, id: int, name: str, time_ns: int, *, parent: int = 0, epoch: int = 0,
          **report) -> Object:
    """Return an object with these measurements; the others are not reported."""
    s = schema(description)
    settings = {one.name: one.default for one in s.settings.values()} if not parent else {}
    return Object(
        id=id, parent=parent, name=name, schema=s, path=f"{s.component}.{name}", settings=settings,
        report=report, created_ns=1, time_ns=time_ns, epoch=epoch, updates=1, row=bool(parent),
        owner=not parent, )


def seen(now_ns: int, objects: list[Object], *, pid: int = 100, program: str = "prog",
         heartbeat_ns: int | None = None, changes=(), leases: tuple[Lease, ...] = ()) -> Seen:
    heartbeat = now_ns if heartbeat_ns is None else heartbeat_ns
    snapshot = Snapshot(now_ns, heartbeat, S, 0, objects, list(changes), list(leases))
    return Seen(pid, program, pid * 7, 1_700_000_000.0, now_ns - heartbeat > 3 * S, snapshot)
