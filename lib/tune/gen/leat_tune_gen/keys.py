# SPDX-License-Identifier: BSD-3-Clause
"""The keys that a table may have, and their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .source import Source, Where

WORDS = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    list: "an array",
    dict: "a table",
    (int, float): "a number",
}


@dataclass(frozen=True)
class Key:
    type: Any = str
    required: bool = False
    # Types of settings, or kinds of reports, that may have this key; empty: all.
    only: tuple[str, ...] = ()


class Table:
    """A table of a description, while it is checked."""

    def __init__(self, source: Source, values: Any, where: Where, what: str):
        self.source, self.where, self.what = source, where, what
        self.values: dict[str, Any] = values if isinstance(values, dict) else {}
        self.right = isinstance(values, dict)
        if not self.right:
            self.say(None, "is not a table")

    def say(self, key: str | None, reason: str) -> None:
        """Note a mistake of a key, or, with None, of the table."""
        self.right = False
        line = self.where.keys.get(key, self.where.line) if key else self.where.line
        self.source.say(line, f"{self.what}: {reason}")

    def check(self, keys: dict[str, Key], kind: str = "") -> bool:
        """Check all keys, and drop wrong ones. Return whether all are right and none is missing."""
        right = True
        there = set(self.values)
        for name in list(self.values):
            key = keys.get(name)
            if key is None:
                self.say(name, f"unknown key {name!r}; there are {', '.join(keys)}")
            elif key.only and kind and kind not in key.only:
                self.say(name, f"{name!r} is not for {kind}, but for {', '.join(key.only)}")
            elif not _is(self.values[name], key.type):
                wanted = WORDS.get(key.type, str(key.type))
                self.say(name, f"{name!r} must be {wanted}, not {self.values[name]!r}")
            else:
                continue
            del self.values[name]
            right = False
        for name, key in keys.items():
            if key.required and name not in there and (not key.only or kind in key.only):
                self.say(None, f"key {name!r} is missing")
                right = False
        return right

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)


def _is(value: Any, type_: Any) -> bool:
    if type_ is Any:
        return True
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, type_)


def tables(source: Source, values: dict[str, Any], name: str) -> list[tuple[Table, int]]:
    """Return the tables of an array [[name]], each with its index."""
    array = values.get(name, [])
    if not isinstance(array, list):
        source.say(source.where(name).line, f"[{name}] must be written [[{name}]]")
        return []
    result = []
    for i, one in enumerate(array):
        label = one.get("name") if isinstance(one, dict) else None
        what = f"{name} {label!r}" if isinstance(label, str) else f"{name} number {i + 1}"
        result.append((Table(source, one, source.where(name, i), what), i))
    return result
