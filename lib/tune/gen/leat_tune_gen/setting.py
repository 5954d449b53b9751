# SPDX-License-Identifier: BSD-3-Clause
"""Check a table [[setting]] of a description."""

from __future__ import annotations

import math
from typing import Any

from . import names
from .common import help_text, name, string_size, unit, values
from .keys import Key, Table
from .model import Number, Setting

TYPES = ("bool", "integer", "real", "enum", "string")
NUMBERS = ("integer", "real")
WHEN = ("now", "next", "start")
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

SETTING = {
    "name": Key(required=True),
    "type": Key(required=True),
    "unit": Key(only=NUMBERS),
    "values": Key(list, only=("enum",)),
    "size": Key(int, only=("string",)),
    "range": Key(list, required=True, only=NUMBERS),
    "special": Key(dict, only=NUMBERS),
    "default": Key(Any, required=True),
    "when": Key(required=True),
    "aliases": Key(list),
    "log": Key(bool, only=NUMBERS),
    "quantum": Key((int, float), only=NUMBERS),
    "values_hint": Key(list, only=NUMBERS),
    "help": Key(required=True),
}


def setting(t: Table) -> Setting:
    """Return the model of a setting. Report wrong values, and replace them by valid ones."""
    s = _setting(t)
    s.right = t.right
    return s


def _setting(t: Table) -> Setting:
    type_ = t.values.get("type")
    if type_ not in TYPES:
        if isinstance(type_, str):
            t.say("type", f"type {type_!r}; there are {', '.join(TYPES)}")
        type_ = None
    t.check(SETTING, type_ or "")
    help_text(t, "help")
    s = Setting(name(t), type_ or "bool", t.get("help", ""), t.where.line)
    s.when = t.get("when", "now")
    if s.when not in WHEN:
        t.say("when", f"when {s.when!r}; there are {', '.join(WHEN)}")
    _aliases(t, s)
    if type_ is None:
        return s
    s.unit = unit(t, t.get("unit"))
    s.values = values(t, s.type)
    s.size = string_size(t, s.type)
    if s.type in NUMBERS:
        _numbers(t, s)
    _default(t, s)
    return s


def _aliases(t: Table, s: Setting) -> None:
    s.aliases = t.get("aliases", [])
    for alias in s.aliases:
        reason = names.mistake(alias, "alias")
        if reason:
            t.say("aliases", reason)


def _is_number(s: Setting, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if s.type == "integer":
        return isinstance(value, int) and INT_MIN <= value <= INT_MAX
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(s: Setting, value: Number) -> Number:
    return value if s.type == "integer" else float(value)


def _numbers(t: Table, s: Setting) -> None:
    numbers = "integers of 64 bits" if s.type == "integer" else "finite numbers"
    bounds = t.get("range")
    if bounds is not None:
        if len(bounds) != 2 or not all(_is_number(s, v) for v in bounds):
            t.say("range", f"'range' is [least, greatest], both {numbers}")
        elif not bounds[0] < bounds[1]:
            t.say("range", f"range [{bounds[0]}, {bounds[1]}] is empty, or of one value")
        else:
            s.min, s.max = (_number(s, v) for v in bounds)
    for word, value in t.get("special", {}).items():
        reason = names.mistake(word, "special value")
        if reason:
            t.say("special", reason)
        elif not _is_number(s, value):
            t.say("special", f"special value {word!r} is {value!r}, not of the {numbers}")
        elif s.min is not None and s.max is not None and s.min <= value <= s.max:
            t.say("special", f"special value {word!r}, {value}, is inside the range "
                  f"[{s.min}, {s.max}]")
        elif value in s.special.values():
            t.say("special", f"special value {word!r}, {value}, is there twice")
        else:
            s.special[word] = _number(s, value)
    s.log = t.get("log", False)
    if s.log and s.min is not None and s.min <= 0:
        t.say("log", f"a logarithmic scale begins above 0, the range with {s.min}")
    s.quantum = t.get("quantum")
    if s.quantum is not None and (not _is_number(s, s.quantum) or s.quantum <= 0):
        t.say("quantum", f"quantum {s.quantum!r} is not above 0, or not of the {numbers}")
    elif s.quantum is not None and s.min is not None and s.max is not None:
        if s.quantum > s.max - s.min:
            t.say("quantum", f"quantum {s.quantum} is more than the range has")
    s.values_hint = t.get("values_hint", [])
    for value in s.values_hint:
        if not _is_number(s, value):
            t.say("values_hint", f"{value!r} is not of the {numbers}")
        elif s.min is not None and s.max is not None and not s.min <= value <= s.max:
            t.say("values_hint", f"{value} is outside the range [{s.min}, {s.max}]")


def _default(t: Table, s: Setting) -> None:
    value = t.get("default")
    if value is None:
        return
    if s.type == "bool":
        if not isinstance(value, bool):
            t.say("default", f"default {value!r} is neither true nor false")
    elif s.type == "enum":
        if s.values and value not in s.values:
            t.say("default", f"default {value!r} is not among the values: {', '.join(s.values)}")
    elif s.type == "string":
        if not isinstance(value, str):
            t.say("default", f"default {value!r} is not a string")
        elif any(ord(ch) < 32 or 127 <= ord(ch) < 160 for ch in value):
            t.say("default", "default has a control character")
        elif len(value.encode()) >= s.size and t.get("size") is not None:
            t.say("default", f"default has {len(value.encode())} bytes, and size is {s.size} "
                  "with the terminator")
    else:
        if isinstance(value, str) and value in s.special:
            value = s.special[value]
        if isinstance(value, str) and value in t.get("special", {}):
            value = s.min if s.min is not None else 0  # the wrong special value was reported
        elif not _is_number(s, value):
            t.say("default", f"default {value!r} is neither a number of its type nor the name of a "
                  "special value")
            value = s.min if s.min is not None else 0
        elif s.min is not None and s.max is not None:
            if not s.min <= value <= s.max and value not in s.special.values():
                t.say("default", f"default {value} is outside the range [{s.min}, {s.max}], "
                      "and no special value")
        value = _number(s, value)
    s.default = value
