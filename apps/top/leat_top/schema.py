# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for descriptions of components (leat_tune.Schema)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leat_tune import Schema

# The order of tabs and boxes; components of applications follow.
_ORDER = (
    "reactor",
    "endpoint",
    "rpc",
    "msg",
    "stream",
    "task",
    "perf",
    "rpc_bench",
    "memory",
    "log",
)


def order(component: str) -> tuple[int, str]:
    """Return the sort key of a component."""
    place = _ORDER.index(component) if component in _ORDER else len(_ORDER)
    return place, component


def of_kind(schema: Schema, kind: str) -> list:
    return [r for r in schema.reports.values() if r.kind == kind]


def together(schema: Schema, setting: str) -> list[str]:
    """Return the settings that a change of this setting must include."""
    for group in schema.groups.values():
        if setting in group.settings:
            return list(group.settings)
    return [setting]


def rule_of(schema: Schema, setting: str) -> str:
    """Return the rule between the settings of a setting's group; empty: none."""
    for group in schema.groups.values():
        if setting in group.settings:
            return group.rule or ""
    return ""


def allowed(setting) -> str:
    """Describe the values that a setting accepts."""
    if setting.type == "bool":
        return "true or false"
    if setting.type == "enum":
        return ", ".join(setting.values)
    if setting.type == "string":
        return f"text of at most {setting.size - 1} bytes"
    unit = f" {setting.unit}" if setting.unit else ""
    text = f"{setting.min} to {setting.max}{unit}"
    return text + "".join(f", {name}" for name in setting.special)


def choices(setting) -> list[str]:
    """Return the values to choose from with the arrow keys; empty: the value is typed."""
    if setting.type == "bool":
        return ["true", "false"]
    return list(setting.values) if setting.type == "enum" else []
