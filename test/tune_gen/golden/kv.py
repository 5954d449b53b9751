"""Settings and reports of kv. Made by leat-tune-gen: change the description."""

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
    setting: bool = False  # a string of which the process refuses what is not UTF-8


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
        return MessageError(f"{self.name}.{name}: {why}")

    def _check(self, name: str, value: Any) -> Any:
        kind, rule = self.types[name], self.rules.get(name, Rule())
        if kind == "bool":
            if value not in (0, 1):
                raise self._bad(name, f"{value!r} is neither true nor false")
            return bool(value)
        if kind == "real":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise self._bad(name, f"{value!r} is no number")
            value = float(value)
            if rule.min is not None and not math.isfinite(value):
                raise self._bad(name, f"{value} is not finite")
        elif isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(name, f"{value!r} is no integer")
        if kind == "enum" and not 0 <= value < rule.values:
            raise self._bad(name, f"{value} is not from 0 to {rule.values - 1}")
        if rule.min is not None and rule.max is not None:
            if not rule.min <= value <= rule.max and value not in rule.special:
                raise self._bad(name, f"{value} is not from {rule.min} to {rule.max}")
        return value

    def pack(self, message: Any) -> bytes:
        values: list[Any] = []
        for name, kind in self.types.items():
            value = getattr(message, name)
            if kind == "string":
                if not isinstance(value, str):
                    raise self._bad(name, f"{value!r} is no string")
                data = value.encode()
                if len(data) >= self.rules[name].size or 0 in data:
                    raise self._bad(name, f"{value!r} is longer than {self.rules[name].size - 1} "
                                    "bytes, or has a NUL")
                values.append(data)
            elif kind == "histogram":
                values += [value.count, value.sum, *value.buckets]
            else:
                values.append(self._check(name, value))
        try:
            return self.struct.pack(*values)
        except struct.error as e:
            raise MessageError(f"{self.name}: {e}") from None

    def unpack(self, data: bytes | memoryview) -> dict[str, Any]:
        if len(data) != self.struct.size:
            raise MessageError(f"{self.name}: {len(data)} bytes, not {self.struct.size}")
        values = list(self.struct.unpack(data))
        result: dict[str, Any] = {}
        for name, kind in self.types.items():
            if kind == "histogram":
                result[name] = Histogram(values[0], values[1], tuple(values[2:114]))
                del values[:114]
                continue
            value = values.pop(0)
            if kind == "string":
                text, end, rest = value.partition(b"\0")
                if not end or len(text) >= self.rules[name].size or rest.strip(b"\0"):
                    raise self._bad(name, "a string without end")
                # What a process says is shown, even where it cut a character in two.
                strict = self.rules[name].setting
                try:
                    result[name] = text.decode(errors="strict" if strict else "replace")
                except UnicodeDecodeError:
                    raise self._bad(name, "a string that is not UTF-8") from None
            else:
                result[name] = self._check(name, value)
        return result


class KvEviction(IntEnum):
    """Values of eviction."""

    LRU = 0
    RANDOM = 1
    NONE = 2


@dataclass
class KvSettings:
    """Tables: settings."""

    batch: int = 0  # Calls that are looked up together. (calls)
    eviction: int = 0  # Which key makes room for a new one.
    low_percent: float = 80.0  # Eviction ends when the table is filled so far. (percent)
    high_percent: float = 90.0  # Eviction begins when the table is filled so far. (percent)
    entries: int = 65536  # Keys for which there is room.

    COMPONENT: ClassVar[str] = 'kv'
    HASH: ClassVar[int] = 0x64d7c5154a1a7653
    SIZE: ClassVar[int] = 40

    @classmethod
    def mask(cls, *names: str) -> int:
        """The bits of settings, for a message "set"."""
        every = [f.name for f in fields(cls)]
        return sum(1 << every.index(name) for name in set(names))

    _layout: ClassVar[_Layout] = _Layout(
        'KvSettings', 'qQddq', {
            'batch': Rule(min=1, max=256, special=(0,)),
            'eviction': Rule(values=3),
            'low_percent': Rule(min=0.0, max=100.0),
            'high_percent': Rule(min=0.0, max=100.0),
            'entries': Rule(min=1024, max=1073741824),
        }, {
            'batch': 'integer',
            'eviction': 'enum',
            'low_percent': 'real',
            'high_percent': 'real',
            'entries': 'integer',
        })

    def pack(self) -> bytes:
        return self._layout.pack(self)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> KvSettings:
        return cls(**cls._layout.unpack(data))


@dataclass
class KvReport:
    """Tables: report."""

    hits: int = 0  # Calls whose key was found. (calls)
    used: int = 0  # Keys in the table. (entries)
    lookup: Histogram = field(default_factory=Histogram)  # Time from a call to its answer. (ns)

    COMPONENT: ClassVar[str] = 'kv'
    HASH: ClassVar[int] = 0x64d7c5154a1a7653
    SIZE: ClassVar[int] = 928
    _layout: ClassVar[_Layout] = _Layout(
        'KvReport', 'Qq114Q', {
        }, {
            'hits': 'integer',
            'used': 'integer',
            'lookup': 'histogram',
        })

    def pack(self) -> bytes:
        return self._layout.pack(self)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> KvReport:
        return cls(**cls._layout.unpack(data))


HASHES = {
    'kv': 0x64d7c5154a1a7653,
}
