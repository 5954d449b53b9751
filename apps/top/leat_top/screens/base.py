# SPDX-License-Identifier: BSD-3-Clause
"""Base of screens: boxes with tables, one of which has the focus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..format import Parts
from ..grid import Grid, Rect
from ..table import Column, Table

if TYPE_CHECKING:
    from ..app import App

Hints = list[tuple[str, str]]
_MIN_HEIGHT = 4  # of a box with one row


@dataclass
class Box:
    """A table with a frame."""

    title: str
    table: Table
    rows: Callable[[], list]  # all rows
    key_of: Callable
    text_of: Callable
    role_of: Callable | None = None
    trouble_of: Callable | None = None
    enter: Callable | None = None  # Enter: called with the row under the cursor
    empty: str = "none"
    weight: int = 1  # the box with the largest weight gets the spare lines

    @classmethod
    def of(cls, title: str, columns: list[Column], sort: str | None = None, **more) -> Box:
        return cls(title, Table(columns, sort), **more)

    def arrange(self) -> list:
        """Return the filtered and sorted rows, those with trouble first."""
        rows = self.table.arrange(self.rows(), self.text_of)
        if self.role_of is not None:
            rows.sort(key=lambda row: self.role_of(row) != "bad")
        return rows

    def current(self):
        """Return the row with the cursor."""
        return self.table.place(self.arrange(), self.key_of)

    def draw(self, grid: Grid, rect: Rect, app: App, focus: bool) -> None:
        rows = self.arrange()
        if rect.height < _MIN_HEIGHT:
            # No room for a frame: draw the table alone.
            self._draw_table(grid, rect, rows, app, focus)
            return
        title: Parts = [(self.title, "title")]
        if self.table.filter:
            title += [
                (f" {len(rows)} of {len(self.rows())} with ", "note"),
                (self.table.filter, "key"),
            ]
        else:
            title.append((f" {len(rows)}", "note"))
        note = ""
        if focus and rows:
            note = f"{self.table.cursor + 1}/{len(rows)}"
        grid.box(rect, title, app.glyphs.box, focus=focus, note=note)
        inner = rect.inner()
        place = Rect(inner.y, inner.x + 1, inner.height, max(inner.width - 2, 0))
        self._draw_table(grid, place, rows, app, focus)

    def _draw_table(self, grid: Grid, place: Rect, rows: list, app: App, focus: bool) -> None:
        self.table.draw(
            grid,
            place,
            rows,
            app.glyphs,
            self.key_of,
            focus=focus,
            role_of=self.role_of,
            trouble_of=self.trouble_of,
            empty=self.empty,
        )

    def move(self, step: int) -> None:
        self.table.move(self.arrange(), self.key_of, step)


class View:
    """A screen. Its boxes are stacked, unless it draws them differently."""

    title = ""

    def __init__(self, app: App) -> None:
        self.app = app
        self.boxes: list[Box] = []
        self.focus = 0

    @property
    def box(self) -> Box | None:
        if not self.boxes:
            return None
        self.focus = min(self.focus, len(self.boxes) - 1)
        return self.boxes[self.focus]

    def refresh(self) -> None:
        """React to a change of the model."""

    def alive(self) -> bool:
        """Return whether the object or process that the screen shows still exists."""
        return True

    def draw(self, grid: Grid, rect: Rect) -> None:
        self.stack(grid, rect, self.boxes)

    def stack(self, grid: Grid, rect: Rect, boxes: list[Box]) -> None:
        """Stack boxes, each as high as its rows need and the room allows."""
        if not boxes or rect.height < 1:
            return
        focused = self.box
        if focused in boxes and rect.height < _MIN_HEIGHT * len(boxes):
            # Too small for all boxes: draw the focused one alone.
            boxes = [focused]
        y = rect.y
        for box, height in zip(boxes, heights(boxes, rect.height, focused)):
            place = Rect(y, rect.x, min(height, rect.y + rect.height - y), rect.width)
            box.draw(grid, place, self.app, box is focused)
            y += height

    def hints(self) -> Hints:
        return []

    def key(self, key: str) -> bool:
        """Handle a key. Return whether the screen used it."""
        box = self.box
        if box is None:
            return False
        if key in ("tab", "btab"):
            self.focus = (self.focus + (1 if key == "tab" else -1)) % len(self.boxes)
            return True
        step = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "pgup": -box.table.page,
            "pgdn": box.table.page,
            "home": -(10**9),
            "end": 10**9,
        }.get(key)
        if step is not None:
            box.move(step)
        elif key in ("s", ">", "S", "<"):
            box.table.choose(1 if key in ("s", ">") else -1)
        elif key == "r":
            box.table.reverse = not box.table.reverse
        elif key == "enter" and box.enter is not None:
            row = box.current()
            if row is not None:
                box.enter(row)
        else:
            return False
        return True


def needed(boxes: list[Box]) -> int:
    """Return the lines that boxes need for all of their rows."""
    return sum(max(len(box.rows()) + 3, _MIN_HEIGHT) for box in boxes)


def heights(boxes: list[Box], room: int, focused: Box | None) -> list[int]:
    """Return the heights of boxes: one row each, then the focused box's rows, then the others'."""
    given = [_MIN_HEIGHT] * len(boxes)
    left = room - sum(given)
    for i in sorted(range(len(boxes)), key=lambda i: boxes[i] is not focused):
        more = min(max(needed([boxes[i]]) - given[i], 0), max(left, 0))
        given[i] += more
        left -= more
    if left > 0:
        given[max(range(len(boxes)), key=lambda i: (boxes[i].weight, i))] += left
    return given
