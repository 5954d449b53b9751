# SPDX-License-Identifier: BSD-3-Clause
"""Names, types and units of metrics, from schemas: the same as leat-tune-gen --metrics lists.

A report NAME of component COMPONENT becomes leat_COMPONENT_NAME_UNIT. Times are in seconds,
whatever the unit of the report. A unit at the end of NAME is not repeated:

    reactor   busy_ns   counter, ns    leat_reactor_busy_seconds_total
    reactor   turns     counter, turns leat_reactor_turns_total
    endpoint  latency   histogram      leat_endpoint_latency_seconds
    reactor   state     gauge, enum    leat_reactor_state, a state set
    endpoint  address   text           leat_endpoint_address_info, its text a label
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# By unit of a report: the metric's unit, and the factor. Other units are the same in both.
_UNITS: dict[str, tuple[str, float]] = {
    "ns": ("seconds", 1e-9),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
    "percent": ("ratio", 0.01),
}

#: Labels with a meaning of their own: a text report of this name gets a different label.
RESERVED = frozenset({"program", "pid", "object", "parent", "component", "le"})


@dataclass(frozen=True)
class Family:
    """A metric. Its samples differ in their labels."""

    name: str  #: without _total
    type: str  #: counter, gauge, histogram, info, stateset
    help: str
    unit: str = ""  #: with which the name ends; "": none
    factor: float = 1.0  #: from the report's unit to this one
    component: str = ""
    report: str = ""  #: of the component
    states: tuple[str, ...] = ()
    aggregate: str = "last"  #: of rows: sum, max or last
    labels: tuple[str, ...] = field(default=(), compare=False)  #: of the exporter's own families

    @property
    def sample(self) -> str:
        """Name in queries, except for the suffixes of a histogram."""
        return self.name + (
            "_total" if self.type == "counter" else "_info" if self.type == "info" else ""
        )


def _named(component: str, report: str, given: str) -> tuple[str, str, float]:
    unit, factor = _UNITS.get(given, (given, 1.0))
    name = report
    if given and (name == given or name.endswith("_" + given)):
        name = name[: -len(given)].rstrip("_")
    return "_".join(part for part in ("leat", component, name, unit) if part), unit, factor


def families(schema: dict[str, Any]) -> Iterator[Family]:
    """Return the metrics of a component, from the JSON of its schema."""
    component = schema["component"]
    for report in schema.get("reports", ()):
        kind, name = report["kind"], report["name"]
        type_ = {"counter": "counter", "histogram": "histogram", "text": "info"}.get(kind, "gauge")
        if type_ == "gauge" and report.get("type") == "enum":
            type_ = "stateset"
        given = report.get("unit") or ("ns" if kind == "histogram" else "")
        full, unit, factor = _named(component, name, given)
        yield Family(
            full,
            type_,
            report.get("help", ""),
            unit,
            factor,
            component,
            name,
            tuple(report.get("values") or ()) if type_ == "stateset" else (),
            report.get("aggregate") or ("sum" if kind in ("counter", "histogram") else "last"),
        )


_PROCESS = ("program", "pid")
_OBJECT = (*_PROCESS, "component", "object")
_OWN = (
    Family("leat_up", "gauge",
           "Whether the process answers: 0 when its control thread stands still.",
           labels=_PROCESS),
    Family(
        "leat_heartbeat_age_seconds",
        "gauge",
        "Time since the process's control thread was seen.",
        "seconds",
        labels=_PROCESS,
    ),
    Family(
        "leat_start_time_seconds",
        "gauge",
        "When the process began, since the epoch.",
        "seconds",
        labels=_PROCESS,
    ),
    Family("leat_leases", "gauge", "Settings' leases that agents hold.", labels=_PROCESS),
    Family(
        "leat_report_age_seconds",
        "gauge",
        "Time since an object's last report: it grows while the object's loop stands still.",
        "seconds",
        labels=_OBJECT,
    ),
    Family(
        "leat_setting_changes", "counter", "Changes of an object's settings.", labels=_OBJECT
    ),
    Family("leat_rows", "gauge", "Rows of an object, such as an endpoint's peers.", labels=_OBJECT),
    Family("leat_exporter_scrapes", "counter", "Scrapes that this exporter answered."),
    Family(
        "leat_exporter_scrape_errors",
        "counter",
        "What could not be exported, by reason.",
        labels=("reason",),
    ),
    Family(
        "leat_exporter_scrape_duration_seconds",
        "gauge",
        "How long it took to read all processes, the last time.",
        "seconds",
    ),
    Family("leat_exporter_processes", "gauge", "Processes that were read."),
    Family(
        "leat_exporter_problems",
        "gauge",
        "Files of the directory that were refused: corrupt, or of another user.",
    ),
)


def own_families() -> tuple[Family, ...]:
    """Return the metrics that do not come from a schema."""
    return _OWN


def metric_list(schemas: Iterable[dict[str, Any]]) -> list[str]:
    """Return every name that a query may use, sorted."""
    names: set[str] = set()
    for family in (*own_families(), *(f for schema in schemas for f in families(schema))):
        if family.type == "histogram":
            names.update(f"{family.name}_{end}" for end in ("bucket", "sum", "count"))
        else:
            names.add(family.sample)
    return sorted(names)
