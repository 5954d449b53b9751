# SPDX-License-Identifier: BSD-3-Clause
"""Names of metrics, according to OpenMetrics."""

from __future__ import annotations

from dataclasses import dataclass

from .model import Component, Report

# By unit of a description: the metric's base unit, as OpenMetrics wants, and the factor.
BASE = {
    "ns": ("seconds", 1e-9),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "percent": ("ratio", 0.01),
}
TYPES = {"counter": "counter", "text": "info", "histogram": "histogram"}
# Suffixes that OpenMetrics appends: a gauge with such a name would be taken for another type.
RESERVED = ("_total", "_created", "_count", "_sum", "_bucket", "_info", "_gcount", "_gsum")


@dataclass(frozen=True)
class Metric:
    family: str  # the name in # TYPE, # UNIT and # HELP
    sample: str  # the name of its samples; a histogram's have _bucket, _count or _sum appended
    type: str  # counter, gauge, histogram, info, stateset
    unit: str | None
    factor: float  # metric = reported value * factor


def metric(c: Component, r: Report) -> Metric:
    type_ = TYPES.get(r.kind, "stateset" if r.type == "enum" else "gauge")
    unit, factor = BASE.get(r.unit or "", (r.unit, 1.0))
    name = r.name
    if r.unit and (name == r.unit or name.endswith("_" + r.unit)):
        name = name[:-len(r.unit)].rstrip("_")
    family = "_".join(part for part in ("leat", c.name, name, unit) if part)
    sample = family + {"counter": "_total", "info": "_info"}.get(type_, "")
    return Metric(family, sample, type_, unit, factor)


def mistake(c: Component, before: list[Report], r: Report) -> str | None:
    """Return why a report can't be a metric, or None."""
    m = metric(c, r)
    if m.type in ("gauge", "stateset") and m.family.endswith(RESERVED):
        return f"metric {m.family} ends as no {r.kind} may"
    for other in before:
        if metric(c, other).family == m.family:
            return f"metric {m.family} is that of {other.name!r}, too"
    return None
