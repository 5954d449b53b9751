# SPDX-License-Identifier: BSD-3-Clause
"""Schemas: a component's description of its settings and measurements, and their messages.

Each process describes itself: its block holds the JSON text of its schemas. This module checks that
text before it uses it. lib/tune/leat_tune_schema.h describes the layout of messages.
"""

from __future__ import annotations

import builtins
import errno
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ._errors import Corrupt, Refused, Unknown, nearest
from ._histogram import BYTES as HISTOGRAM_BYTES
from ._histogram import Histogram
from ._text import plain, text_of

FIELDS_MAX = 64
MESSAGE_MAX = 16384
TEXT_MAX = 1 << 18  # of a schema, bytes

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}\Z")
_TYPES = ("bool", "integer", "real", "enum", "string")
_WHEN = ("now", "next", "start")
_KINDS = ("counter", "gauge", "text", "histogram")
_AGGREGATES = ("sum", "max", "last")
_I64 = struct.Struct("<q")
_U64 = struct.Struct("<Q")
_REAL = struct.Struct("<d")

Value = Union[bool, int, float, str]


@dataclass(frozen=True)
class Field:
    """A value in a message: base of Setting and Report."""

    name: str
    type: str  # bool, integer, real, enum, string; histogram
    unit: str
    help: str
    values: tuple[str, ...]  # names of an enum
    offset: int  # in the message, bytes
    bytes: int  # in the message

    def unpack(self, message: builtins.bytes) -> Value | Histogram:
        """Return the value in a message; an enum's value is its name."""
        if self.type == "histogram":
            return Histogram.unpack(message, self.offset)
        if self.type == "real":
            return _REAL.unpack_from(message, self.offset)[0]
        if self.type == "string":
            return text_of(message[self.offset : self.offset + self.bytes])
        (number,) = self._number.unpack_from(message, self.offset)
        if self.type == "bool":
            if number not in (0, 1):
                raise Corrupt(f"{self.name}: {number} is not a bool")
            return number == 1
        if self.type == "enum":
            if not 0 <= number < len(self.values):
                raise Corrupt(f"{self.name}: there is no name for {number}")
            return self.values[number]
        return number

    @property
    def _number(self) -> struct.Struct:
        return _I64

    def format(self, value: object) -> str:
        """Return a value as text, as in settings files."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return f"{value:.12g}"
        return str(value)


@dataclass(frozen=True)
class Setting(Field):
    """A setting.

    min and max are the range of integers and reals; special names values outside of it.
    """

    default: Value
    when: str  # when a change takes effect: now, next, start
    min: int | float | None
    max: int | float | None
    special: dict[str, int | float]
    size: int | None  # of a string, bytes with its terminator
    aliases: tuple[str, ...]
    group: str | None
    log: bool  # ranges are better searched on a logarithmic scale
    quantum: int | float | None
    index: int  # its bit in masks

    def format(self, value: object) -> str:
        """Return a value as text, as in settings files; a special value by its name."""
        if self.type in ("integer", "real"):
            for name, special in self.special.items():
                if value == special:
                    return name
        return super().format(value)

    def parse(self, given: Value) -> Value:
        """Return a value of the setting's type, from one or from text; otherwise raise Refused.

        The range is not checked here: the process does it.
        """
        try:
            value = self._parse(given)
        except (TypeError, ValueError, OverflowError):
            value = None
        if value is None:
            raise Refused(
                errno.EINVAL, f"{self.name}: {plain(str(given))!r} is not {self.wanted()}"
            )
        return value

    def _parse(self, given: Value) -> Value | None:
        text = given.strip() if isinstance(given, str) else None
        if self.type == "string":
            if text is None or "\0" in given or len(given.encode()) >= self.size:
                return None
            return given
        if self.type == "bool":
            if text is not None:
                return {"true": True, "on": True, "yes": True, "1": True, "false": False,
                        "off": False, "no": False, "0": False}.get(text.lower())
            return bool(given) if given in (0, 1) else None
        if self.type == "enum":
            return text if text in self.values else None
        if text in self.special:
            return self.special[text]
        if isinstance(given, bool):
            return None
        if self.type == "integer":
            if text is not None:
                value = int(text, 0) if re.match(r"[-+]?0[xX]", text) else int(text)
            else:
                value = int(given)
                if value != given:
                    return None
            return value if -(1 << 63) <= value < 1 << 63 else None
        value = float(given)
        return value if math.isfinite(value) else None

    def wanted(self) -> str:
        """Describe the values that it accepts, for messages."""
        if self.type == "bool":
            return "true or false"
        if self.type == "enum":
            return "one of " + ", ".join(self.values)
        if self.type == "string":
            return f"text of at most {self.size - 1} bytes"
        words = (
            f"{'an integer' if self.type == 'integer' else 'a number'} "
            f"from {self.min} to {self.max}"
        )
        return words + "".join(f" or {name}" for name in self.special)

    def pack(self, value: Value, message: bytearray) -> None:
        """Write a value, as parse() returned it, into a message."""
        if self.type == "string":
            data = value.encode()
            message[self.offset : self.offset + self.bytes] = data.ljust(self.bytes, b"\0")
        elif self.type == "real":
            _REAL.pack_into(message, self.offset, value)
        else:
            number = self.values.index(value) if self.type == "enum" else int(value)
            _I64.pack_into(message, self.offset, number)


@dataclass(frozen=True)
class Report(Field):
    """A measurement."""

    kind: str  # counter, gauge, text, histogram
    aggregate: str  # how to combine several: sum, max, last

    @property
    def _number(self) -> struct.Struct:
        return _U64 if self.kind == "counter" else _I64


@dataclass(frozen=True)
class Group:
    """Settings that are changed together: a change of one must name all."""

    name: str
    settings: tuple[str, ...]
    rule: str | None
    help: str


@dataclass(frozen=True)
class Schema:
    """The description of a component.

    settings, reports and groups are by name, in the order of the description.
    """

    component: str
    title: str
    help: str
    hash: int
    settings: dict[str, Setting]
    reports: dict[str, Report]
    groups: dict[str, Group]
    json: dict[str, Any] = field(repr=False)
    settings_size: int  # of a message of settings, bytes
    report_size: int  # of a message of measurements, bytes

    def setting(self, name: str) -> Setting:
        """Return a setting by its name or a former name (alias); otherwise raise Unknown."""
        found = self.settings.get(name)
        if found is not None:
            return found
        for setting in self.settings.values():
            if name in setting.aliases:
                return setting
        raise Unknown(
            f"{self.component} has no setting '{plain(name)}'", nearest(name, self.settings)
        )

    def pack(self, values: Mapping[str, Value]) -> tuple[bytes, int]:
        """Return a message with these settings, and the mask that selects them."""
        message = bytearray(self.settings_size)
        mask = 0
        for name, value in values.items():
            setting = self.setting(name)
            setting.pack(setting.parse(value), message)
            mask |= 1 << setting.index
        return bytes(message), mask

    def unpack_settings(self, message: bytes) -> dict[str, Value]:
        """Return all settings of a message; raise Corrupt if it is not of this schema."""
        if len(message) != self.settings_size:
            raise Corrupt(
                f"{self.component}: {len(message)} bytes of settings "
                f"instead of {self.settings_size}"
            )
        return {name: setting.unpack(message) for name, setting in self.settings.items()}

    def unpack_report(self, message: bytes) -> dict[str, Value | Histogram]:
        """Return all measurements of a message; raise Corrupt if it is not of this schema."""
        if len(message) != self.report_size:
            raise Corrupt(
                f"{self.component}: {len(message)} bytes of report instead of {self.report_size}"
            )
        return {name: report.unpack(message) for name, report in self.reports.items()}

    @classmethod
    def parse(cls, text: bytes, hash: int | None = None) -> Schema:
        """Parse JSON text from an untrusted source.

        Raise Corrupt if it is not a valid schema, or, with hash, not the schema with that hash.
        """
        if len(text) > TEXT_MAX:
            raise Corrupt(f"a schema of {len(text)} bytes")
        try:
            tree = json.loads(text.decode(), parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError):
            raise Corrupt("a schema that is not JSON") from None
        try:
            schema = cls._of(tree)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
            raise Corrupt(f"a schema that is wrong: {plain(str(e))[:200]}") from None
        if hash is not None and schema.hash != hash:
            raise Corrupt(f"{schema.component}: the schema of another record")
        return schema

    @classmethod
    def _of(cls, tree: dict[str, Any]) -> Schema:
        component = _name(tree["component"])
        settings = [_setting(one, i) for i, one in enumerate(_many(tree, "settings"))]
        reports = [_report(one) for one in _many(tree, "reports")]
        groups = [
            Group(_name(one["name"]), tuple(_name(n) for n in one["settings"]),
                  _words(one, "rule") or None, _words(one, "help"))
            for one in _many(tree, "groups")
        ]
        by_name = {one.name: one for one in settings}
        if any(name not in by_name for group in groups for name in group.settings):
            raise ValueError("a group of a setting that is not there")
        return cls(
            component, _words(tree, "title"), _words(tree, "help"), int(tree["hash"], 16), by_name,
            {one.name: one for one in reports}, {one.name: one for one in groups}, tree,
            _size(settings), _size(reports),
        )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise ValueError(f"name {value!r}")
    return value


def _many(tree: dict[str, Any], key: str) -> list[Any]:
    value = tree.get(key, [])
    if not isinstance(value, list) or len(value) > FIELDS_MAX:
        raise ValueError(key)
    names = [one["name"] for one in value]
    if len(set(names)) != len(names):
        raise ValueError(f"{key}: a name twice")
    return value


def _words(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(key)
    return plain(value)


def _one_of(value: Any, those: tuple[str, ...]) -> str:
    if value not in those:
        raise ValueError(f"{value!r} is none of {', '.join(those)}")
    return value


def _number(value: Any, integer: bool) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value if integer else float(value)


def _size(fields: Sequence[Field]) -> int:
    """Return the size of a message, bytes; raise ValueError if its fields are not contiguous."""
    at = 0
    for one in fields:
        if one.offset != at:
            raise ValueError(f"{one.name}: offset {one.offset} instead of {at}")
        at += one.bytes
    if at > MESSAGE_MAX:
        raise ValueError(f"a message of {at} bytes")
    return at


def _field(tree: dict[str, Any], type: str) -> dict[str, Any]:
    size = tree.get("size")
    if type == "string":
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MESSAGE_MAX:
            raise ValueError(f"{tree['name']}: size {size!r}")
        wanted = (size + 7) // 8 * 8
    else:
        wanted = HISTOGRAM_BYTES if type == "histogram" else 8
    if tree["bytes"] != wanted:
        raise ValueError(f"{tree['name']}: {tree['bytes']!r} bytes instead of {wanted}")
    values = tree.get("values") or []
    if type == "enum" and not values:
        raise ValueError(f"{tree['name']}: an enum without names")
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise TypeError(f"{tree['name']}: values")
    return {
        "name": _name(tree["name"]),
        "type": type,
        "unit": _words(tree, "unit"),
        "help": _words(tree, "help"),
        "values": tuple(plain(v) for v in values),
        "offset": _number(tree["offset"], True),
        "bytes": wanted,
    }


def _setting(tree: dict[str, Any], index: int) -> Setting:
    type = _one_of(tree["type"], _TYPES)
    common = _field(tree, type)
    ranged = type in ("integer", "real")
    integer = type == "integer"
    special = tree.get("special") or {}
    default = tree["default"]
    if ranged:
        default = _number(
            special.get(default, default) if isinstance(default, str) else default, integer
        )
    elif not isinstance(default, bool if type == "bool" else str):
        raise TypeError(f"{common['name']}: default")
    elif type == "enum":
        _one_of(default, common["values"])
    quantum = tree.get("quantum")
    group = tree.get("group")
    return Setting(
        **common,
        default=default,
        when=_one_of(tree["when"], _WHEN),
        min=_number(tree["min"], integer) if ranged else None,
        max=_number(tree["max"], integer) if ranged else None,
        special={plain(name): _number(value, integer) for name, value in special.items()}
        if ranged else {},
        size=tree["size"] if type == "string" else None,
        aliases=tuple(_name(a) for a in tree.get("aliases") or []),
        group=None if group is None else _name(group),
        log=bool(tree.get("log")),
        quantum=None if quantum is None else _number(quantum, integer),
        index=index,
    )


def _report(tree: dict[str, Any]) -> Report:
    kind = _one_of(tree["kind"], _KINDS)
    if kind == "histogram":
        type = "histogram"
    elif kind == "text":
        type = "string"
    else:
        type = _one_of(tree.get("type", "integer"), ("bool", "integer", "real", "enum"))
        if kind == "counter" and type != "integer":
            raise ValueError(f"{tree['name']}: a counter of type {type}")
    aggregate = tree.get("aggregate")
    if aggregate is None:
        aggregate = "sum" if kind in ("counter", "histogram") else "last"
    return Report(**_field(tree, type), kind=kind, aggregate=_one_of(aggregate, _AGGREGATES))
