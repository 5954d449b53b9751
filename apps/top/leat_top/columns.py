# SPDX-License-Identifier: BSD-3-Clause
"""Columns of tables: their constructors, and the columns of components leat-top does not know."""

from __future__ import annotations

from collections.abc import Callable

from .format import (
    TIME_UNITS,
    Glyphs,
    duration,
    load_bar,
    nice_top,
    percent,
    si,
    sparkline,
    with_unit,
)
from .model import Object, load, natural
from .schema import of_kind
from .table import Cell, Column


def amount(name: str, title: str, of: Callable, *, role: str = "text", **more) -> Column:
    """A number with a prefix, such as 1.20M. Zero and missing values are dim."""

    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        value = of(row)
        return si(value), role if value else "faint"

    return Column(name, title, more.pop("width", 6), of, draw, **more)


def alarm(name: str, title: str, of: Callable, *, role: str = "bad", **more) -> Column:
    """A number that should be zero."""
    return amount(name, title, of, role=role, **more)


def time_of(name: str, title: str, of: Callable, **more) -> Column:
    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        value = of(row)
        return duration(value, micro=glyphs.micro), "time" if value else "faint"

    return Column(name, title, more.pop("width", 8), of, draw, **more)


def share_of(name: str, title: str, of: Callable, **more) -> Column:
    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        value = of(row)
        return percent(value), "text" if value and value >= 0.005 else "faint"

    return Column(name, title, more.pop("width", 5), of, draw, **more)


def words(name: str, title: str, width: int, of: Callable, *, role: str = "text", **more) -> Column:
    def value(row):
        text = of(row)
        return None if text is None else natural(text.casefold())

    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        text = of(row)
        return ("-", "faint") if text is None else (text, role)

    return Column(name, title, width, value, draw, right=False, most_first=False, **more)


def trend(name: str, title: str, of: Callable, *, role: str = "spark", **more) -> Column:
    """A sparkline of of(row), the past values. Sorted by the last value."""

    def value(row):
        past = of(row)
        return past[-1] if past else None

    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        past = list(of(row) or ())[-2 * width :]
        top = nice_top(max((v for v in past if v is not None), default=0.0))
        return sparkline(past, width, glyphs, top), role

    return Column(name, title, more.pop("width", 12), value, draw, **more)


def bar(name: str, title: str, of: Callable, **more) -> Column:
    """A bar of of(row), the shares busy, idle and asleep."""

    def value(row):
        shares = of(row)
        return None if shares is None else shares[0]

    def draw(row, width: int, glyphs: Glyphs) -> Cell:
        shares = of(row)
        if shares is None:
            return " " * width, "text"
        return load_bar(*shares, width, glyphs)

    return Column(name, title, more.pop("width", 12), value, draw, right=False, **more)


def rate(name: str, title: str, *, role: str = "rate", **more) -> Column:
    """The rate of an object's counter."""
    return amount(name, title, lambda o: o.rate(name), role=role, **more)


def gauge(name: str, title: str, **more) -> Column:
    return amount(name, title, lambda o: o.number(name), **more)


def program_columns() -> list[Column]:
    return [
        words("program", "PROGRAM", 12, lambda o: o.process.program, role="dim", keep=6, grow=1),
        amount_pid(),
    ]


def amount_pid() -> Column:
    def draw(o: Object, width: int, glyphs: Glyphs) -> Cell:
        return str(o.process.pid), "dim"

    return Column("pid", "PID", 7, lambda o: o.process.pid, draw, keep=7, most_first=False)


def name_column(title: str = "NAME", width: int = 12) -> Column:
    return words("name", title, width, lambda o: o.name, role="name", keep=99, grow=1)


def latency_columns() -> list[Column]:
    """Percentiles of the histogram with the most values in the last interval, and its name."""

    def of(percentile: str) -> Callable:
        def value(o: Object):
            found = o.busiest()
            return getattr(found[1], percentile) if found else None

        return value

    def which(o: Object):
        found = o.busiest()
        return found[0].removeprefix("latency_") if found else None

    return [
        words("op", "OP", 7, which, role="dim", keep=5),
        time_of("p50", "p50", of("p50"), keep=6),
        time_of("p99", "p99", of("p99"), keep=7),
        time_of("p99_9", "p99.9", of("p99_9"), keep=5),
    ]


def busy_of(o: Object):
    return load(o)


def _plain(report) -> Column:
    """Return the column of a measurement, according to its description."""
    name, title = report.name, report.name.removesuffix("_ns").replace("_", " ").upper()
    width = max(6, min(len(title), 14))
    if report.kind == "counter":
        if report.unit in TIME_UNITS:
            return share_of(name, title + "%", lambda o: o.share(name), width=max(width, 6))
        return rate(name, title + "/s", width=max(6, min(len(title) + 2, 14)))
    if report.kind == "text" or report.type in ("string", "enum"):
        return words(name, title, max(8, width), lambda o: _text(o.value(name)))

    def draw(o: Object, width: int, glyphs: Glyphs) -> Cell:
        value = o.value(name)
        text = with_unit(
            value, report.unit if report.unit in TIME_UNITS else None, micro=glyphs.micro
        )
        return text, "text" if value else "faint"

    def value(o: Object):
        return o.number(name)

    return Column(name, title, max(8 if report.unit in TIME_UNITS else 6, width), value, draw)


def _text(value) -> str | None:
    return None if value is None else with_unit(value, None)


def _histogram_columns(report) -> list[Column]:
    def of(name: str) -> Callable:
        def value(o: Object):
            window = o.windows.get(report.name)
            return getattr(window, name) if window else None

        return value

    short = report.name.removeprefix("latency_").removesuffix("_ns")
    return [
        time_of(f"{report.name}.p50", f"{short} p50", of("p50"), width=max(8, len(short) + 4)),
        time_of(f"{report.name}.p99", f"{short} p99", of("p99"), width=max(8, len(short) + 4)),
    ]


def generic_columns(schema, *, rows: bool = False) -> list[Column]:
    """Return columns of a component that leat-top has no columns of its own for."""
    columns = [name_column(schema.component.upper(), 14)]
    if not rows:
        columns += program_columns()
    for report in schema.reports.values():
        columns += _histogram_columns(report) if report.kind == "histogram" else [_plain(report)]
    counters = [r for r in of_kind(schema, "counter") if r.unit not in TIME_UNITS]
    if counters and not rows:
        first = counters[0].name
        columns.append(trend("trend", "TREND", lambda o: o.past.get(first), grow=1, keep=4))
    return columns


def text_of(o: Object) -> str:
    """Return the text of an object that the filter searches."""
    texts = [v for v in o.report.values() if isinstance(v, str)]
    return " ".join([o.path, o.name, o.process.program, str(o.process.pid), *texts])
