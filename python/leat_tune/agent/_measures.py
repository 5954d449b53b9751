# SPDX-License-Identifier: BSD-3-Clause
"""Measures that a goal can name: values of a program between two moments.

    report          measures
    counter   NAME  NAME_per_second
    gauge     NAME  NAME, at the end
    histogram NAME  NAME_per_second, NAME_mean_us, NAME_p50_us, _p90_us, _p99_us, _p999_us

Texts and enums are no measures. Over several objects, counters and histograms are added, and gauges
combined as their description says: summed, or their maximum.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from .._errors import nearest
from ._goal import GoalError

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


@dataclass(frozen=True)
class Measure:
    """A measure: of one report of a component, over some of its objects."""

    name: str  #: as --list-goals prints it: latency_p99_us
    component: str
    report: str
    kind: str  #: counter, gauge, histogram
    what: str  #: per_second, value, mean, or a percentile
    unit: str
    help: str
    aggregate: str
    paths: tuple[str, ...] = ()

    def reported(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Whether one of the measure's objects has reported between two moments."""
        return any(
            path in new and (path not in old or new[path].time_ns > old[path].time_ns)
            for path in self.paths
        )

    def value(self, old: dict[str, Any], new: dict[str, Any]) -> float | None:
        """Return the measure's value between two moments, or None if it has none.

        old and new have the objects of both moments by path. A gauge counts even if its object is
        new; a counter or histogram counts only if its object exists at both moments.
        """
        total: Any = None
        rate = 0.0
        found = False
        for path in self.paths:
            after, before = new.get(path), old.get(path)
            if after is None or self.report not in after.report:
                continue
            value = after.report[self.report]
            if self.kind == "gauge":
                value = float(value)
                if total is None or self.aggregate == "last":
                    total = value
                else:
                    total = total + value if self.aggregate == "sum" else max(total, value)
                continue
            if before is None or self.report not in before.report or \
                    after.time_ns <= before.time_ns:
                continue
            seconds = (after.time_ns - before.time_ns) / 1e9
            if self.kind == "counter":
                rate += max(0, value - before.report[self.report]) / seconds
                found = True
                continue
            delta = value.delta(before.report[self.report])
            rate += sum(delta.buckets) / seconds
            total = delta if total is None else total.add(delta)
            found = True
        if self.kind == "gauge":
            return total
        if not found:
            return None
        if self.what == "per_second":
            return rate
        if not sum(total.buckets):
            return None
        ns = total.mean if self.what == "mean" else total.percentile(PERCENTILES[self.what])
        return ns / 1000


def of_schema(schema: Any) -> list[Measure]:
    """Return the measures of a component, without objects."""
    found = []
    for report in schema.reports.values():
        if report.kind == "text" or report.type in ("string", "enum"):
            continue
        name = report.name
        if report.kind == "histogram" and name.endswith("_ns"):
            name = name[: -len("_ns")]
        names: dict[str, tuple[str, str]] = {}
        if report.kind == "gauge":
            names[name] = ("value", report.unit)
        else:
            unit = report.unit if report.kind == "counter" else "values"
            names[f"{name}_per_second"] = ("per_second", f"{unit or 'times'}/s")
        if report.kind == "histogram":
            for what in ("mean", *PERCENTILES):
                names[f"{name}_{what}_us"] = (what, "us")
        for full, (what, unit) in names.items():
            found.append(
                Measure(full, schema.component, report.name, report.kind, what, unit, report.help,
                        report.aggregate)
            )
    return found


def objects(snapshot: Any, pattern: str | None = None) -> dict[str, Any]:
    """Return the objects by path, without rows; pattern as of Snapshot.find()."""
    chosen = snapshot.find(pattern) if pattern else snapshot.objects
    return {o.path: o for o in chosen if not o.row}


def listed(snapshot: Any, pattern: str | None = None) -> list[Measure]:
    """Return every measure that a goal can name, each with the objects that have it."""
    by_schema: dict[str, tuple[Any, list[str]]] = {}
    for path, o in objects(snapshot, pattern).items():
        by_schema.setdefault(o.component, (o.schema, []))[1].append(path)
    return [
        Measure(**{**vars(one), "paths": tuple(paths)})
        for schema, paths in by_schema.values()
        for one in of_schema(schema)
    ]


def _matches(measure: str, name: str) -> bool:
    return measure == name or measure.endswith("_" + name)


def resolve(
    name: str,
    snapshot: Any,
    pattern: str | None = None,
    *,
    components: Collection[str] = (),
    without: Collection[str] = (),
) -> Measure:
    """Return the measure that a name means in a goal.

    The name is p99_us, latency_p99_us, endpoint.latency_p99_us, or endpoint.ep0.latency_p99_us.
    components: those whose settings are searched. If several components have a measure of a name
    without component, the name means that of these. without: paths of objects that a name without
    component does not mean. Raises GoalError if the name means no measure, or more than one.
    """
    component, dot, rest = name.partition(".")
    where, dot2, last = rest.rpartition(".")
    if not dot:
        component, last = "", name
    every = listed(snapshot, None if dot else pattern)
    found = []
    for one in every:
        if component and one.component != component or not _matches(one.name, last):
            continue
        paths = one.paths
        if dot2:
            own = {path: path.partition(".")[2] for path in paths}
            paths = tuple(p for p, o in own.items() if o == where or fnmatch.fnmatchcase(o, where))
        elif not dot:
            paths = tuple(path for path in paths if path not in without)
        if paths:
            found.append(Measure(**{**vars(one), "paths": paths}))
    exact = [one for one in found if one.name == last]
    found = exact or found
    if len(found) > 1 and not dot:
        found = [one for one in found if one.component in components] or found
    if not found:
        names = [f"{one.component}.{one.name}" for one in every] + [one.name for one in every]
        alike = nearest(name, names)
        words = f"; did you mean {' or '.join(alike)}?" if alike else ""
        raise GoalError(
            f"nothing measures '{name}'{words} (leat-tune agent --list-goals lists all)"
        )
    if len(found) > 1:
        names = sorted(f"{one.component}.{one.name}" for one in found)
        raise GoalError(f"'{name}' can be {_several(names)}: say which")
    (one,) = found
    if one.kind == "gauge" and one.aggregate == "last" and len(one.paths) > 1:
        raise GoalError(f"'{name}' is a value of {_several(list(one.paths))}: say which")
    return one


def _several(names: list[str], most: int = 6) -> str:
    words = ", ".join(names[:most])
    return words + (f" and {len(names) - most} more" if len(names) > most else "")


def values(
    measures: Iterable[tuple[str, Measure]], old: dict[str, Any], new: dict[str, Any]
) -> dict[str, float]:
    """Return the values of measures by name, without those that have none."""
    found = ((name, measure.value(old, new)) for name, measure in measures)
    return {name: value for name, value in found if value is not None and math.isfinite(value)}
