# SPDX-License-Identifier: BSD-3-Clause
"""The help screen: keys, and the meaning of signs."""

from __future__ import annotations

from ..format import load_bar
from ..grid import Grid, Rect
from .base import Hints, View

_KEYS: tuple[tuple[str, str], ...] = (
    ("", "Screens"),
    ("1 to 9, 0", "the screen of this number, as they stand above"),
    ("Left Right", "the screen before, the next one"),
    ("Enter", "open what the cursor is on; change a setting"),
    ("Esc Backspace", "back"),
    ("? F1", "this help"),
    ("q Ctrl-C", "quit"),
    ("", "Tables"),
    ("Up Down k j", "move the cursor; also PgUp PgDn Home End"),
    ("Tab Shift-Tab", "the next box of the screen"),
    ("s S", "sort by the next column, the one before (also > <)"),
    ("r", "the other way round"),
    ("/", "only rows that contain a text; Esc drops it"),
    ("", "Settings"),
    ("e", "change the setting that the cursor is on"),
    ("Up Down", "there: settings of its group, and how long it lasts"),
    ("Left Right", "there: the values of an enum or a bool"),
    ("", "Time"),
    ("p Space", "pause, go on"),
    ("+ -", "look more often, less often"),
)


class HelpView(View):
    title = "help"

    def __init__(self, app) -> None:
        super().__init__(app)
        self.top = 0

    def _lines(self) -> list[tuple[str, str]]:
        return [*_KEYS, ("", "Signs")]

    def draw(self, grid: Grid, rect: Rect) -> None:
        glyphs = self.app.glyphs
        grid.box(rect, [("Help", "title")], glyphs.box, focus=True)
        inner = rect.inner()
        lines = self._lines()
        legend = 4
        room = inner.height
        self.top = max(0, min(self.top, len(lines) + legend - room))
        y = inner.y
        for key, text in lines[self.top : self.top + room]:
            if key:
                grid.put(y, inner.x + 3, key, "key")
                grid.put(y, inner.x + 19, text[: max(inner.width - 20, 0)], "text")
            else:
                grid.put(y, inner.x + 1, text, "title")
            y += 1
        for parts in (
            [
                *load_bar(0.4, 0.35, 0.25, 16, glyphs),
                ("  busy, idle, asleep; empty: not on a CPU", "text"),
            ],
            [("stands still", "bad"), ("      a loop that does not turn, and where it is", "text")],
            [("HELD", "head"), ("              ops done that wait for one posted before", "text")],
            [("p50 p99 p99.9", "head"), ("     of the last interval, post to poll", "text")],
        ):
            if y < inner.y + room:
                grid.parts(y, inner.x + 3, _cut(parts, inner.width - 4))
            y += 1

    def key(self, key: str) -> bool:
        step = {"up": -1, "down": 1, "k": -1, "j": 1, "pgup": -10, "pgdn": 10, "home": -99}.get(key)
        if step is None:
            return False
        self.top = max(0, self.top + step)
        return True

    def hints(self) -> Hints:
        return [("Esc", "back")]


def _cut(parts, width: int):
    kept = []
    for text, role in parts:
        kept.append((text[: max(width, 0)], role))
        width -= len(text)
    return kept
