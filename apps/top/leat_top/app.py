# SPDX-License-Identifier: BSD-3-Clause
"""The program without its terminal: screens, keys, drawing.

    key('down'), update()   --->   App   --->   draw(grid)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .edit import Edit, Field
from .format import Glyphs, Parts, fit, width_of
from .grid import Grid, Rect
from .link import Change, Outcome
from .model import Model, Object, Seen
from .screens.base import View
from .screens.component import ComponentView
from .screens.detail import Detail
from .screens.help import HelpView
from .screens.history import HistoryView
from .screens.overview import Overview
from .screens.settings import SettingsView
from .settings import SettingRow

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_MESSAGE_TIME = 8.0  # seconds
_STACK_MAX = 16


@dataclass(frozen=True)
class _Message:
    text: str
    role: str
    until: float


class App:
    def __init__(
        self,
        glyphs: Glyphs,
        interval: float,
        change: Callable[[Change], str],
        sort: tuple[str, bool] | None = None,
    ) -> None:
        self.model = Model()
        self.glyphs = glyphs
        self.interval = interval
        self.change = change
        self.paused = False
        self.quit = False
        self.refreshed = False  # the interval changed: read the processes again at once
        self._sort = sort
        self._message: _Message | None = None
        self._edit: Edit | None = None
        self._filter: Field | None = None
        self._filter_before = ""
        self._tabs: dict[str, View] = {}
        self._stack: list[View] = [self._tab("overview")]

    # ---- snapshots, answers, keys ----

    def update(self, seen: list[Seen], problems: list[str]) -> None:
        self.model.update(seen)
        while len(self._stack) > 1 and not self.view.alive():
            self.say(f"{self.view.title} is gone", "warn")
            self._stack.pop()
        if not self.view.alive():
            self._stack = [self._tab("overview")]
        self.view.refresh()
        if problems and self._message is None:
            self.say(problems[0], "warn")

    def answered(self, outcome: Outcome) -> None:
        change = outcome.change
        edit = self._edit
        mine = edit is not None and edit.waiting and edit.object.key == change.key
        if mine and edit.done(outcome):
            self._edit = None
        if outcome.refused:
            self.say(f"{change.path}: refused: {outcome.refused}", "bad")
            return
        values = ", ".join(f"{n} = {_text(v)}" for n, v in outcome.effective.items())
        asked = [
            f"{n} asked for {change.values[n]}"
            for n, v in outcome.effective.items()
            if n in change.values and _text(v) != change.values[n]
        ]
        more = f" ({', '.join(asked)})" if asked else ""
        self.say(f"{change.path}: {values}{more}", "good")

    def key(self, key: str) -> None:
        if self._edit is not None:
            self._edit_key(key)
        elif self._filter is not None:
            self._filter_key(key)
        elif not self.view.key(key):
            self._common_key(key)

    def say(self, text: str, role: str = "text") -> None:
        self._message = _Message(text, role, time.monotonic() + _MESSAGE_TIME)

    # ---- screens ----

    @property
    def view(self) -> View:
        return self._stack[-1]

    def push(self, view: View) -> None:
        if len(self._stack) < _STACK_MAX:
            self._stack.append(view)

    def open(self, o: Object) -> None:
        self.push(Detail(self, o))

    def edit(self, row: SettingRow) -> None:
        if row.setting.when == "start":
            self.say(f"{row.name} takes effect only at start: give it with --settings FILE", "warn")
            return
        self._edit = Edit(row)

    def tabs(self) -> list[str]:
        names = [schema.component for schema in self.model.components()]
        return ["overview", *names, "settings", "history"]

    def _tab(self, name: str) -> View:
        view = self._tabs.get(name)
        if view is None or not view.alive():
            made = {"overview": Overview, "settings": SettingsView, "history": HistoryView}.get(
                name
            )
            view = made(self) if made else ComponentView(self, name)
            self._tabs[name] = view
            if self._sort is not None:
                for box in view.boxes:
                    if any(c.name == self._sort[0] for c in box.table.columns):
                        box.table.sort, box.table.reverse = self._sort
        return view

    def _current_tab(self) -> str:
        return next((n for n, v in self._tabs.items() if v is self._stack[0]), "overview")

    def _go(self, name: str) -> None:
        view = self._tab(name)
        self._stack = [view]
        view.refresh()

    # ---- keys ----

    def _common_key(self, key: str) -> None:
        tabs = self.tabs()
        if key in ("q", "Q"):
            self.quit = True
        elif key in ("esc", "backspace"):
            self._back()
        elif key in ("?", "h", "f1"):
            if not isinstance(self.view, HelpView):
                self.push(HelpView(self))
        elif key in ("left", "right"):
            at = tabs.index(self._current_tab()) if self._current_tab() in tabs else 0
            self._go(tabs[(at + (1 if key == "right" else -1)) % len(tabs)])
        elif key.isascii() and key.isdigit():
            at = (int(key) - 1) % 10
            if at < len(tabs):
                self._go(tabs[at])
        elif key in ("p", " "):
            self.paused = not self.paused
            self.refreshed = not self.paused
        elif key in ("+", "=", "-", "_"):
            self._step(-1 if key in "+=" else 1)
        elif key == "/" and self.view.box is not None:
            self._filter_before = self.view.box.table.filter
            self._filter = Field("filter", self._filter_before, [], "")
            self._filter.fresh = False

    def _back(self) -> None:
        if len(self._stack) > 1:
            self._stack.pop()
        elif self.view.box is not None and self.view.box.table.filter:
            self.view.box.table.filter = ""
        elif self._current_tab() != "overview":
            self._go("overview")
        self.view.refresh()

    def _step(self, step: int) -> None:
        """Change the interval by a step of INTERVALS; a negative step shortens it."""
        nearest = min(range(len(INTERVALS)), key=lambda i: abs(INTERVALS[i] - self.interval))
        self.interval = INTERVALS[min(max(nearest + step, 0), len(INTERVALS) - 1)]
        self.refreshed = True

    def _filter_key(self, key: str) -> None:
        box = self.view.box
        if key == "enter" or box is None:
            self._filter = None
            return
        if key == "esc":
            box.table.filter = self._filter_before
            self._filter = None
            return
        self._filter.key(key)
        box.table.filter = self._filter.text

    def _edit_key(self, key: str) -> None:
        edit = self._edit
        if key == "esc":
            self._edit = None
        elif edit.waiting:
            return
        elif key == "enter":
            why = self.change(edit.change())
            if why:
                edit.waiting = False
                edit.refused = why
        else:
            edit.key(key)

    # ---- drawing ----

    def draw(self, grid: Grid) -> None:
        height, width = grid.height, grid.width
        if height < 1 or width < 1:
            return
        self._head(grid)
        top = 1
        if height >= 8:
            self._draw_tabs(grid)
            top = 2
        body = Rect(top, 0, max(height - top - 1, 0), width)
        if body.height > 0:
            self.view.draw(grid, body)
            if self._edit is not None:
                self._edit.draw(grid, body, self.glyphs)
        if height >= 3:
            self._foot(grid)

    def _head(self, grid: Grid) -> None:
        processes = self.model.processes
        lcores = len(self.model.objects("reactor"))
        troubles = sum(1 for p in processes if p.state())
        facts: Parts = [(_count(len(processes), "process", "processes"), "text")]
        if troubles:
            facts.append((f"{self.glyphs.bell} {troubles} in trouble", "bad"))
        if lcores:
            facts.append((_count(lcores, "lcore", "lcores"), "text"))
        right: Parts = [("PAUSED  ", "warn")] if self.paused else []
        right.append((f"every {self.interval:g} s  {time.strftime('%H:%M:%S')} ", "dim"))
        begin = grid.width - sum(width_of(text) for text, _ in right)
        x = grid.put(0, 1, "leat-top", "title") + 2
        for i, (text, role) in enumerate(facts):
            dot = f" {self.glyphs.dot} " if i else ""
            if x + width_of(dot + text) < begin or i == 0:
                x = grid.put(0, x, dot, "faint")
                x = grid.put(0, x, text, role)
        if begin > x:
            grid.parts(0, begin, right)
        elif self.paused:
            grid.put(0, max(grid.width - 7, 0), " PAUSED", "warn")

    def _draw_tabs(self, grid: Grid) -> None:
        tabs = self.tabs()
        current = self._current_tab()
        # If the tabs do not all fit, scroll so that the current one does.
        labels = [
            f"{(i + 1) % 10}{' ' + name}" if i < 10 else f"  {name}" for i, name in enumerate(tabs)
        ]
        first = 0
        at = tabs.index(current) if current in tabs else 0
        while first < at and sum(len(text) + 3 for text in labels[first : at + 1]) > grid.width:
            first += 1
        x = 1
        for i in range(first, len(tabs)):
            number, name = labels[i][:1], labels[i][1:]
            x = grid.put(1, x, number, "key")
            x = grid.put(1, x, name, "tab_on" if i == at else "tab") + 2
        if len(self._stack) > 1 and x + 6 < grid.width:
            path = f" {self.glyphs.right} ".join(v.title for v in self._stack[1:])
            text = fit(f"{self.glyphs.right} {path}", grid.width - x - 1, cut=self.glyphs.cut)
            grid.put(1, x, text, "accent")

    def _foot(self, grid: Grid) -> None:
        y = grid.height - 1
        if self._filter is not None:
            text = self._filter.text
            at = self._filter.caret
            shown = f" /{text[:at]}{self.glyphs.cursor}{text[at:]}"
            grid.put(y, 0, shown[-grid.width :], "edit")
            return
        if self._message is not None and time.monotonic() > self._message.until:
            self._message = None
        if self._message is not None:
            grid.put(
                y,
                1,
                fit(self._message.text, grid.width - 2, cut=self.glyphs.cut),
                self._message.role,
            )
            return
        view = self.view
        hints = [("q", "quit"), ("?", "help"), *view.hints()]
        if view.box is not None:
            hints += [("/", "filter"), ("s", "sort"), ("r", "reverse")]
        hints += [("p", "go on" if self.paused else "pause"), ("+-", "interval")]
        x = 1
        for key, what in hints:
            if x + len(key) + len(what) + 1 > grid.width:
                break
            x = grid.put(y, x, key, "key") + 1
            x = grid.put(y, x, what, "dim") + 2


def _text(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
