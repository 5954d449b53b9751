# SPDX-License-Identifier: BSD-3-Clause
"""Emit the description as JSON, as a process shows it to agents."""

from __future__ import annotations

import json
from typing import Any

from .model import Component, Report, Setting


def _field(f: Setting | Report) -> dict[str, Any]:
    result: dict[str, Any] = {"name": f.name}
    if isinstance(f, Report):
        result["kind"] = f.kind
    result["type"] = f.type
    if f.unit:
        result["unit"] = f.unit
    if f.values:
        result["values"] = f.values
    if f.type == "string":
        result["size"] = f.size
    return result


def _setting(s: Setting, c: Component) -> dict[str, Any]:
    result = _field(s)
    if s.min is not None:
        result["min"], result["max"] = s.min, s.max
    if s.special:
        result["special"] = s.special
    result |= {"default": s.default, "when": s.when, "help": s.help}
    if s.aliases:
        result["aliases"] = s.aliases
    result["group"] = c.groups[s.group - 1].name if s.group else None
    if s.log:
        result["log"] = True
    if s.quantum is not None:
        result["quantum"] = s.quantum
    if s.values_hint:
        result["values_hint"] = s.values_hint
    return result | {"offset": s.offset, "bytes": s.bytes}


def describe(c: Component) -> dict[str, Any]:
    """Return a component as a dictionary: the JSON in field json of struct leat_tune_schema."""
    groups = []
    for g in c.groups:
        group: dict[str, Any] = {
            "name": g.name,
            "settings": [c.settings[i].name for i in g.settings],
        }
        if g.rule:
            group["rule"] = g.rule.text
        groups.append(group | {"help": g.help})
    return {
        "component": c.name, "title": c.title, "help": c.help, "hash": f"0x{c.hash:016x}",
        "settings": [_setting(s, c) for s in c.settings],
        "groups": groups,
        "reports": [_field(r) | {"aggregate": r.aggregate, "help": r.help,
                                 "offset": r.offset, "bytes": r.bytes} for r in c.reports],
    }


def compact(c: Component) -> str:
    """Return JSON in ASCII, in one line."""
    return json.dumps(describe(c), separators=(",", ":"))


def emit(components: list[Component]) -> str:
    """Return one component as an object, several as an array."""
    every = [describe(c) for c in components]
    return json.dumps(every if len(every) > 1 else every[0], indent=1, ensure_ascii=False) + "\n"
