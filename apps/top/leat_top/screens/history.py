# SPDX-License-Identifier: BSD-3-Clause
"""The history screen: changes of settings, with time, author and reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..columns import amount_pid, words
from ..format import Glyphs, clean
from ..model import Process
from ..table import Cell, Column
from .base import Box, View

if TYPE_CHECKING:
    from ..app import App


@dataclass(frozen=True)
class _Row:
    process: Process
    change: object  # leat_tune.Change

    @property
    def key(self) -> tuple:
        return (*self.process.key, self.change.number)

    def when(self) -> str:
        try:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.change.real_ns / 1e9))
        except (OverflowError, ValueError, OSError):
            return "-"  # not a valid time

    def setting(self) -> str:
        return clean(f"{self.change.object}.{self.change.name}")

    def text(self) -> str:
        c = self.change
        return clean(f"{self.setting()} {self.process.program} {self.process.pid} {c.who} {c.why}")


def _columns() -> list[Column]:
    def when(row: _Row, width: int, glyphs: Glyphs) -> Cell:
        return row.when()[-width:], "dim"

    return [
        Column("when", "WHEN", 19, lambda r: r.change.real_ns, when, right=False, keep=80),
        words("program", "PROGRAM", 11, lambda r: r.process.program, role="dim", keep=10),
        amount_pid(),
        words("setting", "SETTING", 24, _Row.setting, role="name", keep=99, grow=2),
        words("old", "FROM", 10, lambda r: clean(r.change.old), role="dim", keep=60, grow=1),
        words("new", "TO", 10, lambda r: clean(r.change.new), role="accent", keep=90, grow=1),
        words("who", "WHO", 18, lambda r: clean(r.change.who), keep=50, grow=1),
        words("why", "WHY", 12, lambda r: clean(r.change.why), role="dim", keep=40),
    ]


class HistoryView(View):
    title = "history"

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.boxes = [
            Box.of(
                "Changes of settings",
                _columns(),
                rows=lambda: [_Row(p, c) for p in app.model.processes for c in p.changes],
                key_of=lambda row: row.key,
                text_of=_Row.text,
                empty="no setting was changed",
            )
        ]
