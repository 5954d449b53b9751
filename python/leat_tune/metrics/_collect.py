# SPDX-License-Identifier: BSD-3-Clause
"""Collect samples of all processes of a directory, from their blocks alone.

A scrape only reads files: it sends nothing to a process, and waits for none. It reads a process
that hangs or is stopped like any other, and leaves out a process that ends during the scrape.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ._names import RESERVED, Family, families, own_families
from ._rows import RowSums
from ._text import Sample

#: Age of a process's heartbeat, seconds, from which leat_up is 0.
UP_SECONDS = 3.0
_TEXT_MAX = 128
# Most samples of a scrape: a directory full of files must not exhaust memory.
SAMPLES_MAX = 200_000


def _value(family: Family, value: Any) -> Any:
    return (value.count, value.sum, tuple(value.buckets)) if family.type == "histogram" else value


class _Scrape:
    """The families of one scrape, each with its samples."""

    def __init__(self) -> None:
        self.families: dict[str, tuple[Family, dict[tuple[str, ...], Sample]]] = {}
        self.samples = 0
        self.errors: Counter[str] = Counter()

    def add(self, family: Family, sample: Sample) -> None:
        known, samples = self.families.setdefault(family.name, (family, {}))
        if (known.type, known.unit, known.states) != (family.type, family.unit, family.states):
            # A process of a different release uses this name for something else: skip its sample.
            self.errors["schema"] += 1
            return
        key = tuple(sample.labels.values())
        if key in samples:
            self.errors["duplicate"] += 1
        elif self.samples >= SAMPLES_MAX:
            self.errors["limit"] += 1
        else:
            samples[key] = sample
            self.samples += 1


class Collector:
    """Reads the processes that scan() returns, for each scrape. Thread-safe; scrapes are serial."""

    def __init__(
        self,
        scan: Callable[[], tuple[list[Any], list[Any]]],
        *,
        rows: str = "sum",
        texts: bool = False,
        gone: tuple[type[BaseException], ...] = (OSError,),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Create a collector.

        scan   returns processes, and errors of other files; it may raise one of gone
        rows   "sum", "each" or "none"
        texts  include text reports, as labels of leat_COMPONENT_info
        gone   exceptions raised on reading a process that ended, or that can't be read
        clock  CLOCK_MONOTONIC, ns
        """
        if rows not in ("sum", "each", "none"):
            raise ValueError(rows)
        self._scan = scan
        self._rows = rows
        self._texts = texts
        self._gone = gone
        self._clock = clock
        # Offset of CLOCK_MONOTONIC to the epoch. Fixed, so that _created does not change when the
        # clock is set.
        self._epoch = (time.time_ns() - time.monotonic_ns()) * 1e-9
        self._lock = threading.Lock()
        self._scrapes = 0
        self._errors: Counter[str] = Counter({"gone": 0, "schema": 0, "duplicate": 0, "limit": 0})
        self._sums: dict[tuple[int, float], dict[tuple[int, str], RowSums]] = {}
        self._seen: set[tuple[int, float]] = set()
        self._known: dict[tuple[str, int], dict[str, Family]] = {}

    def collect(self) -> list[tuple[Family, list[Sample]]]:
        """Return families with their samples, the exporter's own families first."""
        with self._lock:
            begin = time.monotonic()
            scrape = _Scrape()
            own = {family.name: family for family in own_families()}
            for family in own.values():
                scrape.families[family.name] = (family, {})
            self._scrapes += 1
            nb, problems = 0, 0
            self._seen.clear()
            try:
                processes, bad = self._scan()
                problems = len(bad)
            except self._gone:
                processes = []
                self._errors["directory"] += 1
            for process in processes:
                try:
                    self._process(scrape, own, process)
                    nb += 1
                except self._gone:
                    self._errors["gone"] += 1
                finally:
                    process.close()
            for key in [key for key in self._sums if key not in self._seen]:
                del self._sums[key]
            self._errors.update(scrape.errors)
            mine: list[tuple[str, dict[str, str], float]] = [
                ("leat_exporter_scrapes", {}, self._scrapes),
                ("leat_exporter_scrape_duration_seconds", {}, round(time.monotonic() - begin, 6)),
                ("leat_exporter_processes", {}, nb),
                ("leat_exporter_problems", {}, problems),
            ]
            for reason, count in sorted(self._errors.items()):
                mine.append(("leat_exporter_scrape_errors", {"reason": reason}, count))
            for name, labels, value in mine:
                scrape.add(own[name], Sample(labels, value))
            return [
                (family, list(samples.values())) for family, samples in scrape.families.values()
            ]

    def _process(self, scrape: _Scrape, own: dict[str, Family], process: Any) -> None:
        # Export a process completely or not at all: first do what can fail.
        snapshot = process.snapshot(rows=self._rows != "none")
        now = self._clock()
        labels = {"program": process.program, "pid": str(process.pid)}
        age = max(0.0, (now - snapshot.heartbeat_ns) * 1e-9)
        held = len(snapshot.leases)
        for name, value in (
            ("leat_up", int(age < UP_SECONDS)),
            ("leat_heartbeat_age_seconds", round(age, 6)),
            ("leat_start_time_seconds", process.start),
            ("leat_leases", held),
        ):
            scrape.add(own[name], Sample(labels, value))
        parents: dict[int, Any] = {}
        rows = []
        for obj in snapshot.objects:
            if obj.row:
                rows.append(obj)
                continue
            parents[obj.id] = obj
            where = {**labels, "object": obj.name}
            about = {**labels, "component": obj.component, "object": obj.name}
            created = self._epoch + obj.created_ns * 1e-9
            if obj.time_ns:
                report_age = max(0.0, (now - obj.time_ns) * 1e-9)
                scrape.add(own["leat_report_age_seconds"], Sample(about, round(report_age, 6)))
                self._object(scrape, obj, where, created)
            scrape.add(own["leat_setting_changes"], Sample(about, obj.epoch, created))
        if self._rows == "each":
            self._each(scrape, labels, rows, parents)
        elif self._rows == "sum":
            # A pid can be reused, but not together with its start time.
            key = (process.pid, process.start)
            self._seen.add(key)
            sums = self._sums.setdefault(key, {})
            self._sum(scrape, own, labels, rows, parents, sums)

    def _families(self, obj: Any) -> dict[str, Family]:
        key = (obj.component, obj.schema.hash)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 1024:
                self._known.clear()
            known = self._known[key] = {f.report: f for f in families(obj.schema.json)}
        return known

    def _object(self, scrape: _Scrape, obj: Any, labels: dict[str, str], created: float) -> None:
        known = self._families(obj)
        for name, value in obj.report.items():
            family = known.get(name)
            if family is None:
                continue
            if family.type != "info":
                scrape.add(family, Sample(labels, _value(family, value), created))
            elif self._texts:
                label = f"{name}_" if name in RESERVED else name
                scrape.add(family, Sample({**labels, label: str(value)[:_TEXT_MAX]}, 1))

    def _each(
        self, scrape: _Scrape, labels: dict[str, str], rows: Iterable[Any], parents: dict[int, Any]
    ) -> None:
        for row in rows:
            parent = parents.get(row.parent)
            where = {**labels, "object": row.name, "parent": parent.name if parent else ""}
            if row.time_ns:
                self._object(scrape, row, where, self._epoch + row.created_ns * 1e-9)

    def _sum(
        self,
        scrape: _Scrape,
        own: dict[str, Family],
        labels: dict[str, str],
        rows: Iterable[Any],
        parents: dict[int, Any],
        sums: dict[tuple[int, str], RowSums],
    ) -> None:
        """Add a sample over all rows of an object, for each report with a sum or maximum."""
        counts: Counter[tuple[int, str]] = Counter()
        for row in rows:
            if row.parent not in parents:
                continue
            key = (row.parent, row.component)
            if key not in counts:
                sums.setdefault(key, RowSums()).begin()
            counts[key] += 1
            if row.time_ns:
                known = self._families(row)
                values = [
                    (known[name], _value(known[name], value))
                    for name, value in row.report.items()
                    if name in known
                ]
                sums[key].row(row.name, values)
        for key in [key for key in sums if key[0] not in parents]:
            del sums[key]
        for (parent, component), one in sums.items():
            name = parents[parent].name
            if (parent, component) not in counts:
                one.begin()
            for family, value in one.sums():
                # Without _created, since the rows of a sum were created at different times.
                scrape.add(family, Sample({**labels, "object": name}, value))
            where = {**labels, "component": component, "object": name}
            scrape.add(own["leat_rows"], Sample(where, counts[parent, component]))
