# SPDX-License-Identifier: BSD-3-Clause
"""Checks that settings and reports have in common."""

from __future__ import annotations

from . import names
from .keys import Table


# Names that the generated Python classes define or call.
FUNCTIONS = ("pack", "unpack", "mask", "field")


def name(t: Table) -> str:
    """Check the name of a setting or a report."""
    result = t.get("name", "x")
    reason = names.mistake(result)
    if not reason and result in FUNCTIONS:
        reason = f"name {result!r} is a function of the class that is made of it in Python"
    if reason:
        t.say("name", reason)
    return t.get("name", "?")


def help_text(table: Table, key: str) -> None:
    text = table.get(key)
    if text is None:
        return
    reason = names.text_mistake(text, f"{key!r}")
    if not reason and key == "help" and not text.endswith("."):
        reason = "'help' is a sentence, with a full stop"
    if reason:
        table.say(key, reason)


def unit(t: Table, text: str | None) -> str | None:
    if text is not None and names.mistake(text, "unit") and text != "ns":
        t.say("unit", names.mistake(text, "unit") or "")
        return None
    return text


def values(t: Table, type_: str) -> list[str]:
    """Check the names of an enum."""
    result = t.get("values")
    if type_ != "enum":
        if result is not None:
            t.say("values", f"'values' is not for {type_}, but for enum")
        return []
    if result is None:
        if t.where.keys.get("values") is None:
            t.say(None, "key 'values' is missing")
        return []
    if not result or len(result) > 256:
        t.say("values", "an enum has from 1 to 256 values")
    seen: dict[str, str] = {}  # by their C spelling
    for v in result:
        if not isinstance(v, str) or not names.VALUE.fullmatch(v) or len(v) > 31:
            t.say("values", f"value {v!r}: lower case letters, digits, '_' and '-', at most 31")
        elif names.upper(v) in seen:
            t.say("values", f"value {v!r} is there twice")
        else:
            seen[names.upper(v)] = v
    return list(seen.values())


def string_size(t: Table, type_: str) -> int:
    size = t.get("size")
    if type_ != "string":
        if size is not None:
            t.say("size", f"'size' is not for {type_}, but for string")
        return 0
    if size is None:
        if t.where.keys.get("size") is None:
            t.say(None, "key 'size' is missing")
        return 8
    if not 2 <= size <= 4096:
        t.say("size", f"size {size} is not from 2 to 4096 bytes")
        return 8
    return size
