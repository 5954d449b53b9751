# SPDX-License-Identifier: BSD-3-Clause
"""Emit Python modules without dependencies: messages of a protocol, settings and reports."""

from __future__ import annotations

from .model import Component, Field, Message, Number, Protocol, Report, Setting

FORMATS = {"bool": "Q", "integer": "q", "mask": "Q", "real": "d", "enum": "Q", "histogram": "114Q"}
TYPES = {"bool": "bool", "integer": "int", "mask": "int", "real": "float", "enum": "int",
         "string": "str", "histogram": "Histogram"}
EMPTY = {"bool": "False", "integer": "0", "mask": "0", "real": "0.0", "enum": "0", "string": '""',
         "histogram": "field(default_factory=Histogram)"}

HEAD = '''"""{about} Made by leat-tune-gen: change the description."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar


class MessageError(ValueError):
    """A value that a message can't have, or bytes that are no message."""


@dataclass(frozen=True)
class Rule:
    """What the values of a field may be, beyond its type."""

    size: int = 0  # of a string, with its terminator
    min: float | None = None
    max: float | None = None
    special: tuple[float, ...] = ()
    values: int = 0  # of an enum
    setting: bool = False  # a string of which the process refuses what is not a text


@dataclass(frozen=True)
class Histogram:
    """Nanoseconds: count, sum, and buckets, four for each power of two from 32 ns."""

    count: int = 0
    sum: int = 0
    buckets: tuple[int, ...] = (0,) * 112


class _Layout:
    """Fields of a message, each of a multiple of 8 bytes, little endian."""

    def __init__(self, name: str, formats: str, rules: dict[str, Rule], types: dict[str, str]):
        self.name, self.rules, self.types = name, rules, types
        self.struct = struct.Struct("<" + formats)

    def _bad(self, name: str, why: str) -> MessageError:
        return MessageError(f"{{self.name}}.{{name}}: {{why}}")

    def _check(self, name: str, value: Any) -> Any:
        kind, rule = self.types[name], self.rules.get(name, Rule())
        if kind == "bool":
            if value not in (0, 1):
                raise self._bad(name, f"{{value!r}} is neither true nor false")
            return bool(value)
        if kind == "real":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise self._bad(name, f"{{value!r}} is no number")
            value = float(value)
            if rule.min is not None and not math.isfinite(value):
                raise self._bad(name, f"{{value}} is not finite")
        elif isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(name, f"{{value!r}} is no integer")
        if kind == "enum" and not 0 <= value < rule.values:
            raise self._bad(name, f"{{value}} is not from 0 to {{rule.values - 1}}")
        if rule.min is not None and rule.max is not None:
            if not rule.min <= value <= rule.max and value not in rule.special:
                raise self._bad(name, f"{{value}} is not from {{rule.min}} to {{rule.max}}")
        return value

    def _check_text(self, name: str, value: str) -> None:
        if self.rules[name].setting and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
            raise self._bad(name, f"{{value!r}} has control characters")

    def pack(self, message: Any) -> bytes:
        values: list[Any] = []
        for name, kind in self.types.items():
            value = getattr(message, name)
            if kind == "string":
                if not isinstance(value, str):
                    raise self._bad(name, f"{{value!r}} is no string")
                data = value.encode()
                if len(data) >= self.rules[name].size or 0 in data:
                    raise self._bad(name, f"{{value!r}} is longer than \
{{self.rules[name].size - 1}} "
                                    "bytes, or has a NUL")
                self._check_text(name, value)
                values.append(data)
            elif kind == "histogram":
                values += [value.count, value.sum, *value.buckets]
            else:
                values.append(self._check(name, value))
        try:
            return self.struct.pack(*values)
        except struct.error as e:
            raise MessageError(f"{{self.name}}: {{e}}") from None

    def unpack(self, data: bytes | memoryview) -> dict[str, Any]:
        if len(data) != self.struct.size:
            raise MessageError(f"{{self.name}}: {{len(data)}} bytes, not {{self.struct.size}}")
        values = list(self.struct.unpack(data))
        result: dict[str, Any] = {{}}
        for name, kind in self.types.items():
            if kind == "histogram":
                result[name] = Histogram(values[0], values[1], tuple(values[2:114]))
                del values[:114]
                continue
            value = values.pop(0)
            if kind == "string":
                text, end, rest = value.partition(b"\\0")
                if not end or len(text) >= self.rules[name].size or rest.strip(b"\\0"):
                    raise self._bad(name, "a string without end")
                # What a process says is shown, even where it cut a character in two.
                strict = self.rules[name].setting
                try:
                    result[name] = text.decode(errors="strict" if strict else "replace")
                except UnicodeDecodeError:
                    raise self._bad(name, "a string that is not UTF-8") from None
                self._check_text(name, result[name])
            else:
                result[name] = self._check(name, value)
        return result

'''


def _format(f: Field) -> str:
    if f.type == "string":
        return f"{f.bytes}s"
    if f.type == "integer" and isinstance(f, Report) and f.kind == "counter":
        return "Q"
    return FORMATS[f.type]


def _rule(f: Field) -> str | None:
    parts = []
    if f.type == "string":
        parts.append(f"size={f.size}")
        if isinstance(f, Setting):
            parts.append("setting=True")
    if f.type == "enum":
        parts.append(f"values={len(f.values)}")
    if isinstance(f, Setting) and f.min is not None:
        parts += [f"min={f.min!r}", f"max={f.max!r}"]
        if f.special:
            parts.append(f"special={tuple(f.special.values())!r}")
    return f"Rule({', '.join(parts)})" if parts else None


def _docstring(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'


def _layout(title: str, fields: list[Field]) -> str:
    rules = "".join(f"            {f.name!r}: {_rule(f)},\n" for f in fields if _rule(f))
    types = "".join(f"            {f.name!r}: {f.type!r},\n" for f in fields)
    formats = "".join(_format(f) for f in fields)
    return (
        f"    _layout: ClassVar[_Layout] = _Layout(\n        {title!r}, {formats!r}, {{\n{rules}"
        f"        }}, {{\n{types}        }})\n"
    )


def _default(f: Field) -> str:
    if not isinstance(f, Setting):
        return EMPTY[f.type]
    value: bool | Number | str = f.default
    return repr(f.values.index(str(value)) if f.type == "enum" else value)


def _attributes(fields: list[Field]) -> str:
    out = ""
    for f in fields:
        unit = f" ({f.unit})" if f.unit else ""
        out += f"    {f.name}: {TYPES[f.type]} = {_default(f)}  # {f.help}{unit}\n"
    return out


METHODS = '''
    def pack(self) -> bytes:
        return self._layout.pack(self)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> {name}:
        return cls(**cls._layout.unpack(data))
'''
METHODS_PAYLOAD = '''
    def pack(self) -> bytes:
        return self._layout.pack(self) + self.payload

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> {name}:
        if len(data) < cls.SIZE:
            raise MessageError(f"{name}: {{len(data)}} bytes, less than {{cls.SIZE}}")
        return cls(**cls._layout.unpack(data[:cls.SIZE]), payload=bytes(data[cls.SIZE:]))
'''


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _message(m: Message) -> str:
    name = _camel(m.name)
    out = f"\n@dataclass\nclass {name}:\n    {_docstring(m.help)}\n\n"
    out += _attributes(m.fields)
    if m.payload:
        out += f"    payload: bytes = b\"\"  # the component's {m.payload}, as a message\n"
    out += (f"\n    NUMBER: ClassVar[int] = {m.number}\n    SIZE: ClassVar[int] = {m.size}\n"
            f"    DIRECTION: ClassVar[str] = {m.direction!r}\n"
            f"    PAYLOAD: ClassVar[str | None] = {m.payload!r}\n")
    out += _layout(name, m.fields)
    return out + (METHODS_PAYLOAD if m.payload else METHODS).format(name=name)


def protocol(p: Protocol) -> str:
    """Return the module of a protocol: _protocol.py."""
    out = HEAD.format(about=p.help) + f"\nHASH = {p.hash:#018x}\n\n"
    out += "\n".join(_message(m) for m in p.messages)
    out += "\n\nMESSAGES: dict[int, Any] = {\n"
    out += "".join(f"    {m.number}: {_camel(m.name)},\n" for m in p.messages) + "}\n"
    return _imports(out)


def _record(c: Component, what: str, fields: list[Field]) -> str:
    name = _camel(c.name) + _camel(what)
    out = f"\n@dataclass\nclass {name}:\n    {_docstring(f'{c.title}: {what}.')}\n\n"
    out += _attributes(fields)
    size = c.settings_size if what == "settings" else c.reports_size
    out += (
        f"\n    COMPONENT: ClassVar[str] = {c.name!r}\n    HASH: ClassVar[int] = {c.hash:#018x}\n"
        f"    SIZE: ClassVar[int] = {size}\n"
    )
    if what == "settings":
        out += ("\n    @classmethod\n    def mask(cls, *names: str) -> int:\n"
                "        \"\"\"The bits of settings, for a message \"set\".\"\"\"\n"
                "        every = [f.name for f in fields(cls)]\n"
                "        return sum(1 << every.index(name) for name in set(names))\n\n")
    out += _layout(name, fields)
    return out + METHODS.format(name=name)


def components(every: list[Component]) -> str:
    """Return a module with the settings and reports of components, for agents."""
    out = HEAD.format(about="Settings and reports of " + ", ".join(c.name for c in every) + ".")
    for c in every:
        seen = set()
        for f in [*c.settings, *c.reports]:
            if f.type == "enum" and f.name not in seen:
                seen.add(f.name)
                out += (
                    f"\nclass {_camel(c.name)}{_camel(f.name)}(IntEnum):\n"
                    f"    {_docstring(f'Values of {f.name}.')}\n\n"
                    + "".join(f"    {_member(v)} = {i}\n" for i, v in enumerate(f.values))
                    + "\n"
                )
        if c.settings:
            out += _record(c, "settings", list(c.settings)) + "\n"
        if c.reports:
            out += _record(c, "report", list(c.reports)) + "\n"
    out += "\nHASHES = {\n" + "".join(f"    {c.name!r}: {c.hash:#018x},\n" for c in every) + "}\n"
    return _imports(out)


def _member(value: str) -> str:
    word = value.upper().replace("-", "_")
    return word if word.isidentifier() else "N" + word


def _imports(text: str) -> str:
    """Remove unused imports from a module."""
    if "IntEnum)" not in text:
        text = text.replace("from enum import IntEnum\n", "")
    used = ["dataclass"]
    used += ["field"] if "= field(" in text else []
    used += ["fields"] if "in fields(" in text else []
    return text.replace("import dataclass, field, fields\n", f"import {', '.join(used)}\n")
