# SPDX-License-Identifier: BSD-3-Clause
"""The screen of an object: measurements, latencies, settings, and rows such as peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..columns import text_of, time_of, trend, words
from ..format import TIME_UNITS, Glyphs, load_bar, percent, si, with_unit
from ..grid import Grid, Rect
from ..known import columns_of, sorted_by
from ..model import Object, Window, load
from ..schema import of_kind
from ..settings import SettingRow, setting_columns, settings_of
from ..table import Cell, Column
from .base import Box, Hints, View

if TYPE_CHECKING:
    from ..app import App

_WIDE = 100


@dataclass(frozen=True)
class _Measured:
    object: Object
    report: object

    @property
    def name(self) -> str:
        return self.report.name

    def value(self):
        return self.object.value(self.name)

    def rate(self) -> float | None:
        return self.object.rate(self.name)


@dataclass(frozen=True)
class _Latency:
    name: str
    window: Window


def _value_column() -> Column:
    def draw(m: _Measured, width: int, glyphs: Glyphs) -> Cell:
        text = with_unit(m.value(), m.report.unit, micro=glyphs.micro)
        if m.report.type in ("string", "enum"):
            return text or "-", "accent"
        return text, "text" if m.value() else "faint"

    return Column("value", "VALUE", 13, lambda m: None, draw, grow=1, keep=90)


def _rate_column() -> Column:
    def draw(m: _Measured, width: int, glyphs: Glyphs) -> Cell:
        if m.report.kind != "counter":
            return "", "text"
        text = with_unit(
            m.rate(),
            m.report.unit if m.report.unit in (*TIME_UNITS, "bytes") else None,
            micro=glyphs.micro,
            rate=True,
        )
        return text, "rate" if m.rate() else "faint"

    return Column("rate", "RATE", 9, _Measured.rate, draw, keep=80)


def _measured_columns() -> list[Column]:
    return [
        words("name", "MEASUREMENT", 16, lambda m: m.name, role="name", keep=99),
        _value_column(),
        _rate_column(),
        trend("trend", "TREND", lambda m: m.object.past.get(m.name), width=10, grow=2, keep=10),
    ]


def _latency_columns() -> list[Column]:
    def number(name: str, title: str, of) -> Column:
        return Column(name, title, 8, of, lambda one, width, glyphs: (si(of(one)), "rate"))

    return [
        words("name", "LATENCY", 14, lambda one: one.name, role="name", keep=99, grow=1),
        number("rate", "PER S", lambda one: one.window.rate),
        time_of("mean", "mean", lambda one: one.window.mean, keep=5),
        time_of("p50", "p50", lambda one: one.window.p50, keep=8),
        time_of("p99", "p99", lambda one: one.window.p99, keep=9),
        time_of("p99_9", "p99.9", lambda one: one.window.p99_9, keep=7),
    ]


class Detail(View):
    def __init__(self, app: App, o: Object) -> None:
        super().__init__(app)
        self.key_of_object = o.key
        self._last = o
        self._measured = Box.of(
            "Measurements",
            _measured_columns(),
            "order",
            rows=self._measurements,
            key_of=lambda m: m.name,
            text_of=lambda m: f"{m.name} {m.report.help}",
        )
        self._measured.table.columns.insert(0, _order_column())
        self._measured.table.sort = "order"
        self._latency = Box.of(
            "Latency in the last interval",
            _latency_columns(),
            "rate",
            rows=self._latencies,
            key_of=lambda one: one.name,
            text_of=lambda one: one.name,
        )
        self._settings = Box.of(
            "Settings",
            setting_columns(short=True),
            rows=lambda: settings_of([self.object]),
            key_of=lambda row: row.key,
            text_of=SettingRow.text,
            enter=app.edit,
        )
        self._rows: Box | None = None
        self.refresh()

    @property
    def object(self) -> Object:
        return self._last

    @property
    def title(self) -> str:
        return self._last.path

    def alive(self) -> bool:
        return self.app.model.find(self.key_of_object) is not None

    def refresh(self) -> None:
        found = self.app.model.find(self.key_of_object)
        if found is not None:
            self._last = found
        focused = self.box
        o = self.object
        if o.rows and self._rows is None:
            schema = o.rows[0].schema
            self._rows = Box.of(
                schema.title or schema.component,
                columns_of(schema, rows=True),
                sorted_by(schema.component),
                rows=lambda: self.object.rows,
                key_of=lambda row: row.key,
                text_of=text_of,
                enter=self.app.open,
            )
        self.boxes = [self._measured]
        if self._latencies():
            self.boxes.append(self._latency)
        if o.rows:
            self.boxes.append(self._rows)
        if o.settings:
            self.boxes.append(self._settings)
        if focused in self.boxes:
            self.focus = self.boxes.index(focused)

    def _measurements(self) -> list[_Measured]:
        o = self.object
        return [_Measured(o, r) for r in o.schema.reports.values() if r.kind != "histogram"]

    def _latencies(self) -> list[_Latency]:
        o = self.object
        found = []
        for report in of_kind(o.schema, "histogram"):
            window = o.windows.get(report.name)
            if window is not None and window.count:
                found.append(_Latency(report.name.removeprefix("latency_"), window))
        return found

    def hints(self) -> Hints:
        hints = [("Esc", "back")]
        if len(self.boxes) > 1:
            hints.append(("Tab", "box"))
        if self.object.settings:
            hints.append(("e", "change a setting"))
        return hints

    def key(self, key: str) -> bool:
        if key == "e" and self.object.settings and self.box is not self._settings:
            self.focus = self.boxes.index(self._settings)
            return True
        if key == "e" and self.box is self._settings:
            row = self._settings.current()
            if row is not None:
                self.app.edit(row)
            return True
        return super().key(key)

    def draw(self, grid: Grid, rect: Rect) -> None:
        used = self._head(grid, rect) if rect.height > 6 else 0
        rect = Rect(rect.y + used, rect.x, rect.height - used, rect.width)
        right = [b for b in self.boxes if b is not self._measured]
        if rect.width < _WIDE or not right or rect.height < 8:
            self.stack(grid, rect, self.boxes)
            return
        half = rect.width * 45 // 100
        self.stack(grid, Rect(rect.y, rect.x, rect.height, half), [self._measured])
        self.stack(grid, Rect(rect.y, rect.x + half, rect.height, rect.width - half), right)

    def _head(self, grid: Grid, rect: Rect) -> int:
        """Draw the object's name and its state. Return the number of lines used."""
        o = self.object
        app = self.app
        x = grid.put(rect.y, rect.x + 1, o.path, "strong")
        x = grid.put(rect.y, x, f"  {o.process.program} {o.process.pid}", "dim")
        if o.schema.help:
            grid.put(rect.y, x + 2, o.schema.help, "note")
        line = rect.y + 1
        shares = load(o) if o.component == "reactor" else None
        trouble = o.trouble() or o.process.state()
        if trouble:
            grid.put(line, rect.x + 1, f"{app.glyphs.bell} {trouble}", "bad")
        elif shares is not None:
            width = max(min(rect.width - 44, 60), 8)
            x = grid.parts(line, rect.x + 1, load_bar(*shares, width, app.glyphs))
            for share, name, role in zip(
                shares, ("busy", "idle", "asleep"), ("good", "idle", "dim")
            ):
                text = f"{percent(share)} {name}"
                x = grid.put(line, x + 2, text, role)
        elif o.report.get("running"):
            grid.put(line, rect.x + 1, str(o.report["running"]), "accent")
        else:
            return 1
        return 2


def _order_column() -> Column:
    """Return an invisible column that sorts measurements in the order of their description."""

    def value(m: _Measured) -> int:
        return list(m.object.schema.reports).index(m.name)

    return Column(
        "order", "", 0, value, lambda m, width, glyphs: ("", "text"), keep=100, most_first=False
    )
