# SPDX-License-Identifier: BSD-3-Clause
"""Describe fields in words, for documents."""

from __future__ import annotations

import json

from .model import Component, Field, Number, Report, Setting

WHEN = {"now": "now", "next": "with the next object", "start": "at start"}


def number(value: bool | Number | str) -> str:
    """Return a number as text; a real with an integral value as an integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def values(f: Field) -> str:
    """Describe the values of a field: "1 to 1000 us, or automatic (0)"."""
    if isinstance(f, Setting) and f.min is not None and f.max is not None:
        text = f"{number(f.min)} to {number(f.max)}" + (f" {f.unit}" if f.unit else "")
        return text + "".join(f", or {name} ({number(value)})" for name, value in f.special.items())
    if f.type == "enum":
        return ", ".join(f.values)
    if f.type == "bool":
        return "true, false"
    if f.type == "string":
        return f"text of at most {f.size - 1} bytes"
    return ""


def default(s: Setting) -> str:
    if s.type == "bool":
        return "true" if s.default else "false"
    for name, value in s.special.items():
        if value == s.default:
            return name
    return json.dumps(s.default, ensure_ascii=False) if s.type == "string" else number(s.default)


def about(c: Component, s: Setting) -> str:
    text = s.help
    if s.group:
        group = c.groups[s.group - 1]
        others = [c.settings[i].name for i in group.settings if c.settings[i] is not s]
        text += f" Changed together with {' and '.join(others)}"
        text += f", where {group.rule.text}." if group.rule else "."
    if s.aliases:
        text += f" Formerly {', '.join(s.aliases)}."
    return text


def report_kind(r: Report) -> str:
    return r.kind if r.kind != "gauge" or r.type == "integer" else f"{r.kind}, {r.type}"
