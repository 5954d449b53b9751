# SPDX-License-Identifier: BSD-3-Clause
"""Fake processes: objects like those that leat_tune.scan() returns, with the attributes that the
tests need."""

import dataclasses
import time
import zlib


@dataclasses.dataclass
class Histogram:
    count: int = 0
    sum: int = 0
    buckets: tuple = (0,) * 112

    @classmethod
    def of(cls, values):
        buckets = [0] * 112
        for ns in values:
            msb = max(ns, 32).bit_length() - 1
            buckets[min(((msb - 5) << 2) + (max(ns, 32) >> (msb - 2) & 3), 111)] += 1
        return cls(len(values), sum(values), tuple(buckets))


class Schema:
    def __init__(self, component, reports, settings=()):
        self.component = component
        self.json = {"component": component, "title": component.title(), "reports": reports,
                     "settings": list(settings)}
        self.hash = zlib.crc32(repr(self.json).encode())


@dataclasses.dataclass
class Object:
    schema: Schema
    name: str
    report: dict
    id: int = 1
    parent: int = 0
    epoch: int = 0
    row: bool = False
    created_ns: int = 0
    time_ns: int = dataclasses.field(default_factory=time.monotonic_ns)

    @property
    def component(self):
        return self.schema.component


@dataclasses.dataclass
class Snapshot:
    objects: list
    heartbeat_ns: int
    leases: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Process:
    program: str
    pid: int
    objects: list
    start: float = 1000.0
    age: float = 0.0
    fails: OSError | None = None

    def snapshot(self, rows=True):
        if self.fails is not None:
            raise self.fails
        objects = [o for o in self.objects if rows or not o.row]
        return Snapshot(objects, time.monotonic_ns() - int(self.age * 1e9))

    def close(self):
        pass


def report(name, kind="counter", type="integer", **more):
    if kind == "histogram":
        return {"name": name, "kind": kind, "help": f"The {name}.", **more}
    return {"name": name, "kind": kind, "type": type, "help": f"The {name}.", **more}


EP = Schema("ep", [
    report("ops", unit="ops"),
    report("sent_bytes", unit="bytes"),
    report("busy_ns", unit="ns"),
    report("wait", unit="us"),
    report("waiting", "gauge", aggregate="sum"),
    report("load", "gauge", "real", unit="percent"),
    report("up", "gauge", "bool"),
    report("state", "gauge", "enum", values=["idle", "busy"]),
    report("latency", "histogram"),
    report("address", "text", "string", size=64),
])
PEER = Schema("peer", [
    report("ops", unit="ops"),
    report("credits", "gauge", aggregate="sum"),
    report("longest_ns", "gauge", unit="ns", aggregate="max"),
    report("last", "gauge"),
    report("latency", "histogram"),
])


def ep(name="ep0", id=1, **more):
    values = {
        "ops": 10, "sent_bytes": 4096, "busy_ns": 1_500_000_000, "wait": 2, "waiting": -3,
        "load": 12.5, "up": True, "state": "busy",
        "latency": Histogram.of([40, 100, 5000, 1 << 40]),
        "address": "a:1",
    }
    return Object(EP, name, {**values, **more}, id=id)


def peer(name, ops, parent=1, **more):
    values = {"ops": ops, "credits": 2, "longest_ns": ops * 1000, "last": 1,
              "latency": Histogram.of([64] * ops)}
    return Object(PEER, name, {**values, **more}, id=100 + hash(name) % 1000, parent=parent,
                  row=True)
