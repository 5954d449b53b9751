# SPDX-License-Identifier: BSD-3-Clause
"""Turn snapshots of processes into rates, percentiles and histories. Reads no process itself.

    frame 1, frame 2, ...  --->  Model.update()  --->  Process, Object with .rates, .windows, .past

A rate is the growth of a counter between two reports of an object, divided by the time between the
two reports. It is therefore exact however often, or how late, the snapshots are taken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .format import TIME_UNITS, clean, duration
from .schema import of_kind, order

PAST = 240  # values kept of each rate
HUNG_NS = 3_000_000_000
STALL_NS = 500_000_000
PERCENTILES = ((50.0, "p50"), (99.0, "p99"), (99.9, "p99_9"))


@dataclass(frozen=True)
class Seen:
    """A process at one moment, as source.py found it."""

    pid: int
    program: str
    instance: int
    start: float
    hung: bool
    snapshot: object | None  # leat_tune.Snapshot
    trouble: str = ""  # why there is no snapshot


@dataclass(frozen=True)
class Window:
    """The values that a histogram received in the last interval, ns."""

    count: int
    rate: float
    mean: float | None
    p50: float | None = None
    p99: float | None = None
    p99_9: float | None = None

    def as_dict(self) -> dict:
        return {
            "count": self.count,
            "per_second": self.rate,
            "mean_ns": self.mean,
            "p50_ns": self.p50,
            "p99_ns": self.p99,
            "p99_9_ns": self.p99_9,
        }


@dataclass(eq=False)
class Object:
    process: Process
    id: int
    parent: int
    row: bool
    name: str
    path: str
    schema: object  # leat_tune.Schema
    settings: dict = field(default_factory=dict)
    report: dict = field(default_factory=dict)
    epoch: int = 0
    time_ns: int = 0
    rates: dict[str, float] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    past: dict[str, deque] = field(default_factory=dict)
    rows: list[Object] = field(default_factory=list)
    age_ns: int = 0  # of the report

    @property
    def component(self) -> str:
        return self.schema.component

    @property
    def key(self) -> tuple:
        """Return the object's identity; a row's includes its name, since ids of rows are reused."""
        if self.row:
            return (*self.process.key, self.parent, self.id, self.name)
        return (*self.process.key, self.id)

    def rate(self, name: str) -> float | None:
        return self.rates.get(name)

    def value(self, name: str):
        """Return a measurement, or None if this process does not report it."""
        return self.report.get(name)

    def number(self, name: str) -> float | None:
        """Return a measurement if it is a number.

        An application's component may have the name of one of leat's, and other types.
        """
        value = self.report.get(name)
        return value if isinstance(value, (int, float)) else None

    def share(self, name: str) -> float | None:
        """Return the growth of a counter of time as a share of the interval."""
        rate, report = self.rates.get(name), self.schema.reports.get(name)
        if rate is None or report is None or report.unit not in TIME_UNITS:
            return None
        return rate * TIME_UNITS[report.unit] / 1e9

    def stalled_ns(self) -> int:
        """Return for how long, ns, the object's loop has stood still; 0: it runs."""
        reported = self.number("stalled_ns") or 0
        if self.process.hung:
            return 0  # the whole process hangs: don't blame its lcores
        return reported + self.age_ns if reported >= STALL_NS else 0

    def trouble(self) -> str:
        """Describe what is wrong with the object; empty: nothing."""
        stalled = self.stalled_ns()
        if stalled:
            where = clean(str(self.report.get("running") or ""))
            return f"stands still for {duration(stalled)}" + (f" in {where}" if where else "")
        return ""

    def busiest(self) -> tuple[str, Window] | None:
        """Return the histogram with the most values in the last interval."""
        counted = [(w.count, name) for name, w in self.windows.items() if w.count > 0]
        if not counted:
            return None
        name = max(counted)[1]
        return name, self.windows[name]


@dataclass(eq=False)
class Process:
    pid: int
    program: str
    instance: int
    start: float
    hung: bool = False
    trouble: str = ""
    heartbeat_age_ns: int = 0
    interval_ns: int = 0
    objects: list[Object] = field(default_factory=list)  # without rows
    changes: list = field(default_factory=list)
    leases: list = field(default_factory=list)
    past: dict[str, deque] = field(default_factory=dict)

    @property
    def key(self) -> tuple:
        return (self.pid, self.instance)

    def of(self, component: str) -> list[Object]:
        return [o for o in self.objects if o.component == component]

    def total(self, component: str, *names: str) -> float | None:
        """Return the sum of rates over all objects; None if no object reports them."""
        found = [o.rates[n] for o in self.of(component) for n in names if n in o.rates]
        return sum(found) if found else None

    def busy(self) -> tuple[float, float, float] | None:
        """Return the shares of the process's lcores' time: busy, idle, asleep."""
        lcores = [load(o) for o in self.of("reactor")]
        known = [shares for shares in lcores if shares is not None]
        if not known:
            return None
        return tuple(sum(shares[i] for shares in known) / len(known) for i in range(3))

    def worst(self, component: str, name: str) -> float | None:
        """Return the largest percentile of the last interval over all objects."""
        found = [getattr(w, name) for o in self.of(component) for w in o.windows.values()]
        return max((v for v in found if v is not None), default=None)

    def silent(self) -> str:
        """Explain why the process's values are not current; empty: they are."""
        if self.trouble:
            return self.trouble
        if self.hung:
            return f"stands still: no sign of life for {duration(self.heartbeat_age_ns)}"
        return ""

    def state(self) -> str:
        """Describe what is wrong with the process; empty: nothing."""
        stalled = max(self.objects, key=Object.stalled_ns, default=None)
        if self.silent() or stalled is None or not stalled.stalled_ns():
            return self.silent()
        return f"{stalled.name} {stalled.trouble()}"


def load(reactor: Object) -> tuple[float, float, float] | None:
    """Return shares of the last interval: busy (with housekeeping), idle, asleep."""
    busy = reactor.share("busy_ns")
    if busy is None:
        return None
    busy += reactor.share("housekeeping_ns") or 0.0
    return busy, reactor.share("idle_ns") or 0.0, reactor.share("sleep_ns") or 0.0


class _Before:
    """The last report of an object, and what was computed from it."""

    def __init__(self) -> None:
        self.time_ns = 0
        self.report: dict = {}
        self.rates: dict[str, float] = {}
        self.windows: dict[str, Window] = {}
        self.past: dict[str, deque] = {}


class Model:
    def __init__(self) -> None:
        self.processes: list[Process] = []
        self._before: dict[tuple, _Before] = {}
        self._past: dict[tuple, dict[str, deque]] = {}

    def update(self, seen: list[Seen]) -> None:
        """Process the next snapshots. Forget processes and objects that are not in them."""
        before, self._before = self._before, {}
        past, self._past = self._past, {}
        self.processes = [self._process(s, before, past) for s in seen]
        self.processes.sort(key=lambda p: p.key)

    def components(self) -> list:
        """Return a schema for each component with objects, leat's own first."""
        found: dict[str, object] = {}
        for o in self.objects():
            found.setdefault(o.component, o.schema)
        return [found[name] for name in sorted(found, key=order)]

    def objects(self, component: str | None = None) -> list[Object]:
        return [
            o
            for p in self.processes
            for o in p.objects
            if component is None or o.component == component
        ]

    def find(self, key: tuple) -> Object | None:
        for process in self.processes:
            if process.key == key[:2]:
                for o in process.objects:
                    for one in (o, *o.rows):
                        if one.key == key:
                            return one
        return None

    def _process(self, seen: Seen, before: dict, past: dict) -> Process:
        process = Process(seen.pid, clean(seen.program), seen.instance, seen.start)
        process.hung = seen.hung
        process.trouble = clean(seen.trouble)
        process.past = self._past[process.key] = past.get(process.key, {})
        snapshot = seen.snapshot
        if snapshot is None:
            return process
        process.heartbeat_age_ns = max(snapshot.time_ns - snapshot.heartbeat_ns, 0)
        process.interval_ns = snapshot.interval_ns
        process.changes = list(snapshot.changes)
        process.leases = list(snapshot.leases)
        by_id: dict[int, Object] = {}
        rows: list[Object] = []
        for raw in snapshot.objects:
            o = self._object(process, raw, snapshot.time_ns, before)
            if o.row:
                rows.append(o)
            else:
                by_id[o.id] = o
        for row in rows:
            parent = by_id.get(row.parent)
            if parent is not None:
                parent.rows.append(row)
        process.objects = sorted(by_id.values(), key=lambda o: natural(o.path))
        for o in process.objects:
            o.rows.sort(key=lambda row: natural(row.name))
        self._totals(process)
        return process

    def _object(self, process: Process, raw, now_ns: int, before: dict) -> Object:
        o = Object(
            process=process,
            id=raw.id,
            parent=raw.parent,
            row=bool(raw.row),
            name=clean(raw.name),
            path=clean(raw.path),
            schema=raw.schema,
            settings=raw.settings or {},
            report=raw.report or {},
            epoch=raw.epoch,
            time_ns=raw.time_ns,
        )
        o.age_ns = max(now_ns - raw.time_ns, 0) if raw.time_ns else 0
        last = before.get(o.key)
        if last is None:
            last = _Before()
        elif raw.time_ns > last.time_ns > 0:
            seconds = (raw.time_ns - last.time_ns) / 1e9
            last.rates = _rates(o, last.report, seconds)
            last.windows = _windows(o, last.report, seconds)
        elif o.age_ns > HUNG_NS:
            # The object has stopped reporting: its last rates are not current.
            last.rates = dict.fromkeys(last.rates, 0.0)
            last.windows = {}
        for name, rate in last.rates.items():
            last.past.setdefault(name, deque(maxlen=PAST)).append(rate)
        last.report = o.report
        last.time_ns = raw.time_ns
        o.rates, o.windows, o.past = last.rates, last.windows, last.past
        self._before[o.key] = last
        return o

    @staticmethod
    def _totals(process: Process) -> None:
        """Append to the histories that the overview draws of a process."""
        busy = process.busy()
        values = {
            "ops": process.total("endpoint", "returned"),
            "bytes": process.total("endpoint", "tx_bytes", "rx_bytes"),
            "busy": busy[0] if busy else None,
        }
        for name, value in values.items():
            process.past.setdefault(name, deque(maxlen=PAST)).append(value)


def _rates(o: Object, last: dict, seconds: float) -> dict[str, float]:
    rates = {}
    for report in of_kind(o.schema, "counter"):
        new, old = o.report.get(report.name), last.get(report.name)
        # A counter that decreased has restarted: it has no rate in this interval.
        if new is not None and old is not None and new >= old:
            rates[report.name] = (new - old) / seconds
    return rates


def _windows(o: Object, last: dict, seconds: float) -> dict[str, Window]:
    windows = {}
    for report in of_kind(o.schema, "histogram"):
        new, old = o.report.get(report.name), last.get(report.name)
        if new is None or old is None or new.count < old.count:
            continue
        grown = new.delta(old)
        if grown.count == 0:
            windows[report.name] = Window(0, 0.0, None)
            continue
        values = {name: float(grown.percentile(p)) for p, name in PERCENTILES}
        rate, mean = grown.count / seconds, grown.sum / grown.count
        windows[report.name] = Window(grown.count, rate, mean, **values)
    return windows


def natural(text: str) -> list:
    """Return a sort key that orders lcore2 before lcore10."""
    parts: list = []
    digits = ""
    for char in text + "\0":
        if char.isascii() and char.isdigit():
            digits += char
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, char))
    return parts
