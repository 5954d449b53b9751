# SPDX-License-Identifier: BSD-3-Clause
"""Tables: sorted and filtered rows, columns that fit the width, a cursor that follows its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .format import Glyphs, Parts, fit, width_of
from .grid import Grid, Rect

# A drawn cell: text and role, or several parts for a bar.
Cell = tuple[str, str] | Parts

# Columns shown for a row with trouble; the message about the trouble fills the rest of the line.
_NAMES = ("pid", "name", "program", "up")


@dataclass(frozen=True)
class Column:
    name: str  # for --sort
    title: str
    width: int
    value: Callable  # (row) -> value to sort by; None sorts last
    draw: Callable  # (row, width, glyphs) -> Cell
    right: bool = True
    grow: int = 0  # its share of the spare width
    keep: int = 5  # a narrow terminal drops the columns with the lowest value first
    most_first: bool = True  # default order: largest first


class Table:
    """The state of a table: its sort column, its filter, its cursor."""

    def __init__(
        self, columns: list[Column], sort: str | None = None, reverse: bool = False
    ) -> None:
        self.columns = columns
        self.sort = sort if any(c.name == sort for c in columns) else columns[0].name
        self.reverse = reverse
        self.filter = ""
        self.cursor = 0
        self.key = None  # key of the row with the cursor
        self.top = 0
        self.page = 1  # rows of the last drawing

    def set_columns(self, columns: list[Column]) -> None:
        self.columns = columns
        if all(c.name != self.sort for c in columns):
            self.sort = columns[0].name

    def choose(self, step: int) -> None:
        """Sort by the next column (step 1) or the previous one (-1)."""
        names = [c.name for c in self.columns]
        self.sort = names[(names.index(self.sort) + step) % len(names)]
        self.reverse = False

    def arrange(self, rows: list, text_of: Callable) -> list:
        """Return the rows whose text_of(row) matches the filter, sorted."""
        wanted = self.filter.casefold()
        if wanted:
            rows = [r for r in rows if wanted in text_of(r).casefold()]
        column = next(c for c in self.columns if c.name == self.sort)
        known = [r for r in rows if column.value(r) is not None]
        known.sort(key=column.value, reverse=column.most_first != self.reverse)
        return known + [r for r in rows if column.value(r) is None]

    def place(self, rows: list, key_of: Callable):
        """Move the cursor to its row, which may have moved. Return that row, or None."""
        if not rows:
            self.cursor = self.top = 0
            return None
        if self.key is not None:
            for i, row in enumerate(rows):
                if key_of(row) == self.key:
                    self.cursor = i
                    break
        self.cursor = min(max(self.cursor, 0), len(rows) - 1)
        return rows[self.cursor]

    def move(self, rows: list, key_of: Callable, step: int) -> None:
        self.place(rows, key_of)
        if rows:
            self.cursor = min(max(self.cursor + step, 0), len(rows) - 1)
            self.key = key_of(rows[self.cursor])

    def fitting(self, width: int) -> list[tuple[Column, int]]:
        """Return the columns that fit, with their widths."""
        shown = list(self.columns)
        while len(shown) > 1 and sum(c.width + 1 for c in shown) - 1 > width:
            least = min(c.keep for c in shown)
            # Drop the rightmost of the least important columns.
            shown.remove([c for c in shown if c.keep == least][-1])
        left = max(width - sum(c.width + 1 for c in shown) + 1, 0)
        parts = sum(c.grow for c in shown)
        widths = []
        for column in shown:
            more = left * column.grow // parts if parts else 0
            widths.append((column, min(column.width + more, width)))
        return widths

    def draw(
        self,
        grid: Grid,
        rect: Rect,
        rows: list,
        glyphs: Glyphs,
        key_of: Callable,
        *,
        focus: bool = True,
        role_of: Callable | None = None,
        trouble_of: Callable | None = None,
        empty: str = "none",
    ) -> None:
        """Draw rows that arrange() returned.

        role_of(row) returns a role for the whole line, or None. trouble_of(row) describes what is
        wrong with the row, which is shown in place of its numbers, or returns an empty text.
        """
        if rect.height < 1 or rect.width < 1:
            return
        fitting = self.fitting(rect.width)
        self._heads(grid, rect, fitting, glyphs)
        room = rect.height - 1
        self.page = max(room, 1)
        current = self.place(rows, key_of)
        if not rows and room > 0:
            text = f"nothing matches '{self.filter}'" if self.filter else empty
            grid.put(rect.y + 1, rect.x, fit(text, rect.width, cut=glyphs.cut), "dim")
        self.top = min(self.top, max(len(rows) - room, 0), self.cursor)
        self.top = max(self.top, self.cursor - room + 1, 0)
        for line, row in enumerate(rows[self.top : self.top + max(room, 0)]):
            selected = focus and row is current
            y = rect.y + 1 + line
            if selected:
                grid.put(y, rect.x, " " * rect.width, "text", True)
            whole = role_of(row) if role_of else None
            trouble = trouble_of(row) if trouble_of else ""
            x = rect.x
            if trouble:
                names = [f for f in fitting if f[0].name in _NAMES]
                x = self._row(grid, y, x, names, row, glyphs, selected, whole)
                room = max(rect.x + rect.width - x, 0)
                grid.put(
                    y, x, fit(f"{glyphs.bell} {trouble}", room, cut=glyphs.cut), "bad", selected
                )
            else:
                self._row(grid, y, x, fitting, row, glyphs, selected, whole)

    def _heads(self, grid: Grid, rect: Rect, fitting, glyphs: Glyphs) -> None:
        x = rect.x
        for column, width in fitting:
            chosen = column.name == self.sort
            title = column.title
            if chosen:
                mark = glyphs.down if column.most_first != self.reverse else glyphs.up
                title = f"{mark}{title}" if column.right else f"{title}{mark}"
            role = "head_sort" if chosen else "head"
            grid.put(rect.y, x, fit(title, width, right=column.right, cut=glyphs.cut), role)
            x += width + 1

    @staticmethod
    def _row(grid, y, x, fitting, row, glyphs, selected, whole) -> int:
        for column, width in fitting:
            cell = column.draw(row, width, glyphs)
            if isinstance(cell, tuple):
                text = fit(cell[0], width, right=column.right, cut=glyphs.cut)
                grid.put(y, x, text, whole or cell[1], selected)
            else:
                have = sum(width_of(text) for text, _ in cell)
                begin = x + (max(width - have, 0) if column.right else 0)
                grid.parts(y, begin, [(t, whole or r) for t, r in cell], selected)
            x += width + 1
        return x
