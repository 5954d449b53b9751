# SPDX-License-Identifier: BSD-3-Clause
"""OpenMetrics 1.0 and Prometheus' text format 0.0.4, from the same families.

Both formats have the same names and values. The older one has no info and stateset, which become
gauges there, and neither _created nor # UNIT.

https://github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md
https://prometheus.io/docs/instrumenting/exposition_formats
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ._names import Family

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

#: Smallest values of a histogram's buckets: four for each power of two (leat_tune_schema.h).
_PER_OCTAVE = 4
_FIRST = 5  # 32 ns
_ACCEPT_MAX = 16  # most choices of an Accept header that are read


class Sample(NamedTuple):
    """A sample of a family. value: a number, a state, or a histogram's (count, sum, buckets)."""

    labels: Mapping[str, str]
    value: object
    created: float | None = None  #: seconds since the epoch


def number(value: float) -> str:
    """Return a number in the syntax of both formats."""
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def scaled(value: float, factor: float) -> float:
    """Convert a value to the metric's unit, without extra digits of a product of floats."""
    if factor == 1.0:
        return value
    if factor < 1.0:
        return value / round(1.0 / factor)
    return value * factor


def escape(text: str) -> str:
    """Escape a label's value. Replace control characters, and what is not UTF-8."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(c if c == "\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str, openmetrics: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if openmetrics else text


def labels(pairs: Mapping[str, str], **more: str) -> str:
    """Return labels in braces, or nothing if there are none."""
    both = {**pairs, **more}
    if not both:
        return ""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in both.items()) + "}"


def bounds(buckets: int) -> list[str]:
    """Return the le labels of a histogram, except +Inf: powers of two of ns, in seconds."""
    octaves = buckets // _PER_OCTAVE
    # The last octave also counts all larger values: its bound is +Inf.
    return [repr(float(f"{1 << (_FIRST + i)}e-9")) for i in range(1, octaves)]


def _histogram(family: Family, sample: Sample) -> Iterator[str]:
    count, total, buckets = sample.value  # type: ignore[misc]
    seen = 0
    for i, le in enumerate(bounds(len(buckets))):
        seen += sum(buckets[i * _PER_OCTAVE : (i + 1) * _PER_OCTAVE])
        yield f"{family.name}_bucket{labels(sample.labels, le=le)} {seen}"
    # Count and buckets are read while they change. +Inf must equal the count: sum the buckets.
    count = sum(buckets)
    where = labels(sample.labels)
    yield f"{family.name}_bucket{labels(sample.labels, le='+Inf')} {count}"
    yield f"{family.name}_sum{where} {number(scaled(total, family.factor))}"
    yield f"{family.name}_count{where} {count}"


def _lines(family: Family, sample: Sample, openmetrics: bool) -> Iterator[str]:
    if family.type == "histogram":
        yield from _histogram(family, sample)
    elif family.type == "stateset":
        for state in family.states:
            where = labels(sample.labels, **{family.name: state})
            yield f"{family.name}{where} {int(state == sample.value)}"
    elif family.type == "info":
        yield f"{family.sample}{labels(sample.labels)} 1"
    else:
        value = scaled(sample.value, family.factor)  # type: ignore[arg-type]
        yield f"{family.sample}{labels(sample.labels)} {number(value)}"
    if openmetrics and sample.created is not None and family.type in ("counter", "histogram"):
        yield f"{family.name}_created{labels(sample.labels)} {number(round(sample.created, 3))}"


def render(what: Iterable[tuple[Family, list[Sample]]], openmetrics: bool) -> str:
    """Return the text of a scrape."""
    out = []
    for family, samples in what:
        if not samples:
            continue
        name, type_ = family.name, family.type
        if not openmetrics:
            name = family.sample
            type_ = {"info": "gauge", "stateset": "gauge"}.get(type_, type_)
        out.append(f"# TYPE {name} {type_}")
        if openmetrics and family.unit:
            out.append(f"# UNIT {name} {family.unit}")
        out.append(f"# HELP {name} {_escape_help(family.help, openmetrics)}")
        for sample in samples:
            out.extend(_lines(family, sample, openmetrics))
    if openmetrics:
        out.append("# EOF")
    return "\n".join(out) + "\n"


def choose(accept: str | None) -> str:
    """Return the content type for an Accept header; OpenMetrics if both are wanted equally."""
    best, found = 0.0, PROMETHEUS
    for choice in (accept or "").split(",")[:_ACCEPT_MAX]:
        kind, *parameters = (part.strip().lower() for part in choice.split(";"))
        given = dict(p.split("=", 1) for p in parameters if "=" in p)
        try:
            quality = min(max(float(given.get("q", "1")), 0.0), 1.0)
        except ValueError:
            continue
        if math.isnan(quality):
            continue
        if kind == "application/openmetrics-text" and given.get("version", "1.0.0") == "1.0.0":
            if quality > 0.0 and quality >= best:
                best, found = quality, OPENMETRICS
        elif kind == "text/plain" and given.get("version", "0.0.4") == "0.0.4" and quality > best:
            best, found = quality, PROMETHEUS
    return found
