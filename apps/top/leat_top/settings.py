# SPDX-License-Identifier: BSD-3-Clause
"""Settings as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from .columns import amount_pid, words
from .format import Glyphs
from .model import Object
from .schema import allowed
from .table import Cell, Column


@dataclass(frozen=True)
class SettingRow:
    object: Object
    setting: object  # leat_tune.Setting

    @property
    def process(self):
        return self.object.process

    @property
    def key(self) -> tuple:
        return (*self.object.key, self.setting.name)

    @property
    def name(self) -> str:
        return f"{self.object.path}.{self.setting.name}"

    def value(self) -> str:
        return self.setting.format(self.object.settings[self.setting.name])

    def default(self) -> str:
        return self.setting.format(self.setting.default)

    def holder(self) -> str | None:
        """Return the holder of its lease, or None."""
        for lease in self.process.leases:
            if lease.id == self.object.id and self.setting.name in lease.settings:
                return lease.who
        return None

    def text(self) -> str:
        return (
            f"{self.name} {self.value()} {self.process.program} {self.process.pid} "
            f"{self.setting.help}"
        )


def settings_of(objects: list[Object]) -> list[SettingRow]:
    return [
        SettingRow(o, setting)
        for o in objects
        for name, setting in o.schema.settings.items()
        if name in o.settings
    ]


def _value_column() -> Column:
    def draw(row: SettingRow, width: int, glyphs: Glyphs) -> Cell:
        return row.value(), "text" if row.value() == row.default() else "accent"

    return Column("value", "VALUE", 10, SettingRow.value, draw, keep=95, most_first=False)


def setting_columns(short: bool = False) -> list[Column]:
    """Return the columns of settings; short: all are of the same object."""
    name = words("name", "SETTING", 18, lambda r: r.setting.name, role="name", keep=99, grow=1)
    if not short:
        name = words("name", "SETTING", 26, lambda r: r.name, role="name", keep=99, grow=2)
    columns = [
        name,
        _value_column(),
        words("unit", "UNIT", 8, lambda r: r.setting.unit or "", role="dim", keep=30),
        words("allowed", "FROM TO", 18, lambda r: allowed(r.setting), role="dim", keep=20, grow=2),
        words("default", "DEFAULT", 8, SettingRow.default, role="dim", keep=15),
        words("when", "WHEN", 5, lambda r: r.setting.when, role="dim", keep=25),
        words("holder", "HELD BY", 14, SettingRow.holder, role="warn", keep=10),
    ]
    if not short:
        columns[1:1] = [
            words("program", "PROGRAM", 12, lambda r: r.process.program, role="dim", keep=12),
            amount_pid(),
        ]
    return columns
