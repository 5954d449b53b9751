# SPDX-License-Identifier: BSD-3-Clause
"""Questions to the descriptions of components (leat_tune.Schema)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leat_tune import Schema

# Tabs and boxes in this order; an application's own components follow.
_ORDER = ("reactor", "endpoint", "rpc", "msg", "stream", "task", "perf", "rpc_bench", "memory", "log")


def order(component: str) -> tuple[int, str]:
    """To sort components by."""
    place = _ORDER.index(component) if component in _ORDER else len(_ORDER)
    return place, component


def of_kind(schema: Schema, kind: str) -> list:
    return [r for r in schema.reports.values() if r.kind == kind]


def together(schema: Schema, setting: str) -> list[str]:
    """The settings that a change of this one has to name."""
    for group in schema.groups.values():
        if setting in group.settings:
            return list(group.settings)
    return [setting]


def rule_of(schema: Schema, setting: str) -> str:
    """What has to hold between the settings of a group; empty: nothing."""
    for group in schema.groups.values():
        if setting in group.settings:
            return group.rule or ""
    return ""


def allowed(setting) -> str:
    """What a setting takes, in words."""
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
    """What the arrow keys go through; empty: it is typed."""
    if setting.type == "bool":
        return ["true", "false"]
    return list(setting.values) if setting.type == "enum" else []
