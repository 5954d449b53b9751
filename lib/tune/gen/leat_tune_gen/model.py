# SPDX-License-Identifier: BSD-3-Clause
"""The model of a checked description."""

from __future__ import annotations

from dataclasses import dataclass, field

Number = int | float

FIELDS_MAX = 64  # as in leat_tune_schema.h
MESSAGE_MAX = 16384
NAME_MAX = 31
CACHE_LINE = 64
BUCKETS = 112
HISTOGRAM_BYTES = (2 + BUCKETS) * 8


@dataclass
class Field:
    """A setting or a report. offset and bytes are those in the message."""

    name: str
    type: str  # bool, integer, real, enum, string, histogram
    help: str
    line: int
    unit: str | None = None
    values: list[str] = field(default_factory=list)
    size: int = 0  # of a string, with its terminator
    offset: int = 0
    bytes: int = 0

    @property
    def c_kind(self) -> str:
        """The C type of an integer."""
        return "I64"


@dataclass
class Setting(Field):
    default: bool | Number | str = 0
    when: str = "now"
    min: Number | None = None
    max: Number | None = None
    special: dict[str, Number] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    log: bool = False
    quantum: Number | None = None
    values_hint: list[Number] = field(default_factory=list)
    group: int = 0  # number of its group, from 1
    right: bool = True  # False: has a mistake, so don't report mistakes that follow from it

    @property
    def c_kind(self) -> str:
        if self.type != "integer":
            return "I64"
        every = [self.min, self.max, *self.special.values()]
        return "U32" if all(v is not None and 0 <= v < 1 << 32 for v in every) else "I64"


@dataclass
class Report(Field):
    kind: str = "gauge"  # counter, gauge, text, histogram
    aggregate: str = "last"  # over objects: sum, max, last

    @property
    def c_kind(self) -> str:
        return "U64" if self.kind == "counter" else "I64"


@dataclass
class Rule:
    text: str
    left: int  # both sides: numbers of settings
    compare: str
    right: int

    def holds(self, left: Number, right: Number) -> bool:
        return {"<": left < right, "<=": left <= right, ">": left > right,
                ">=": left >= right, "==": left == right, "!=": left != right}[self.compare]


@dataclass
class Group:
    name: str
    settings: list[int]  # their numbers
    help: str
    rule: Rule | None = None


@dataclass
class Component:
    name: str
    title: str
    help: str
    one_cache_line: bool = False
    settings: list[Setting] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    settings_size: int = 0
    reports_size: int = 0
    hash: int = 0


@dataclass
class Message:
    name: str
    number: int
    direction: str  # feedback, telemetry
    help: str
    payload: str | None  # "settings" or "report": the message that follows it
    fields: list[Field] = field(default_factory=list)
    size: int = 0


@dataclass
class Protocol:
    name: str
    help: str
    messages: list[Message] = field(default_factory=list)
    hash: int = 0
