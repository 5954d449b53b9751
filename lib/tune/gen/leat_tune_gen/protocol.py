# SPDX-License-Identifier: BSD-3-Clause
"""Check the description of a protocol, and build its model."""

from __future__ import annotations

from typing import Any

from . import layout, names
from .common import help_text, string_size
from .keys import Key, Table, tables
from .model import FIELDS_MAX, MESSAGE_MAX, Field, Message, Protocol
from .source import Source, Where

TOP = {
    "protocol": Key(required=True),
    "help": Key(required=True),
    "message": Key(Any, required=True),
}
MESSAGE = {
    "name": Key(required=True),
    "number": Key(int, required=True),
    "direction": Key(required=True),
    "payload": Key(),
    "help": Key(required=True),
    "fields": Key(list, required=True),
}
FIELD = {
    "name": Key(required=True),
    "type": Key(required=True),
    "size": Key(int, only=("string",)),
    "help": Key(required=True),
}
TYPES = ("bool", "integer", "mask", "real", "string")
DIRECTIONS = ("feedback", "telemetry")
PAYLOADS = ("settings", "report")


def load(source: Source) -> Protocol:
    """Return the model of a protocol; raise Mistakes with all mistakes."""
    top = Table(source, source.values, source.where(), "description")
    top.check(TOP)
    name = top.get("protocol", "x")
    reason = names.mistake(name, "protocol")
    if reason:
        top.say("protocol", reason)
    help_text(top, "help")
    p = Protocol(name, top.get("help", ""))
    for table, _ in tables(source, top.values, "message"):
        message = _message(table, p)
        if message:
            p.messages.append(message)
    layout.place_protocol(p)
    for i, m in enumerate(p.messages):
        if m.size > MESSAGE_MAX:
            source.say(source.where("message", i).line,
                       f"message {m.name!r} has {m.size} bytes, at most {MESSAGE_MAX} are allowed")
    source.done()
    return p


def _message(t: Table, p: Protocol) -> Message | None:
    if not t.check(MESSAGE):
        return None
    reason = names.mistake(t.get("name"))
    if reason:
        t.say("name", reason)
    help_text(t, "help")
    number = t.get("number")
    if not 1 <= number < 1 << 32:
        t.say("number", f"number {number} is not from 1 to 2^32 - 1")
    for other in p.messages:
        if other.name == t.get("name"):
            t.say("name", f"there is another message {other.name!r}")
        if other.number == number:
            t.say("number", f"number {number} is that of message {other.name!r}, too")
    for key, allowed in (("direction", DIRECTIONS), ("payload", PAYLOADS)):
        if key in t.values and t.get(key) not in allowed:
            t.say(key, f"{key} {t.get(key)!r}; there are {', '.join(allowed)}")
    m = Message(t.get("name"), number, t.get("direction"), t.get("help"), t.get("payload"))
    fields = t.get("fields")
    if not 1 <= len(fields) <= FIELDS_MAX:
        t.say("fields", f"a message has from 1 to {FIELDS_MAX} fields")
    for i, values in enumerate(fields):
        lines = t.where.inline
        line = lines[i] if len(lines) == len(fields) else t.where.keys.get("fields", t.where.line)
        m.fields.append(_field(Table(t.source, values, Where(line), t.what), m, i))
    return m


def _field(t: Table, m: Message, i: int) -> Field:
    label = t.get("name")
    t.what += f", field {label!r}" if isinstance(label, str) else f", field number {i + 1}"
    type_ = t.values.get("type")
    t.check(FIELD, type_ if type_ in TYPES else "")
    if isinstance(type_, str) and type_ not in TYPES:
        t.say(None, f"type {type_!r}; there are {', '.join(TYPES)}")
    if type_ not in TYPES:
        type_ = "bool"
    name = t.get("name", f"x{i}")
    reason = names.mistake(name)
    if not reason and name in ("payload", "pack", "unpack"):
        reason = f"{name!r} is a word of what is made of it"
    if reason:
        t.say(None, reason)
    if name in [f.name for f in m.fields]:
        t.say(None, f"{name!r} is there twice")
    if "help" in t.values and names.text_mistake(t.get("help"), "'help'"):
        t.say(None, names.text_mistake(t.get("help"), "'help'") or "")
    field = Field(name, type_, t.get("help", ""), t.where.line)
    field.size = string_size(t, type_)
    return field
