# SPDX-License-Identifier: BSD-3-Clause
"""The settings screen: all settings of all objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..grid import Grid, Rect
from ..settings import SettingRow, setting_columns, settings_of
from .base import Box, Hints, View

if TYPE_CHECKING:
    from ..app import App


class SettingsView(View):
    title = "settings"

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.boxes = [
            Box.of(
                "Settings",
                setting_columns(),
                rows=lambda: settings_of(app.model.objects()),
                key_of=lambda row: row.key,
                text_of=SettingRow.text,
                enter=app.edit,
            )
        ]

    def draw(self, grid: Grid, rect: Rect) -> None:
        row = self.boxes[0].current()
        if row is not None and rect.height >= 8:
            grid.put(rect.y + rect.height - 1, rect.x + 2, row.setting.help, "note")
            rect = Rect(rect.y, rect.x, rect.height - 1, rect.width)
        super().draw(grid, rect)

    def key(self, key: str) -> bool:
        if key == "e":
            row = self.boxes[0].current()
            if row is not None:
                self.app.edit(row)
            return True
        return super().key(key)

    def hints(self) -> Hints:
        return [("e", "change")]
