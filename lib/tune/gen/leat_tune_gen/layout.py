# SPDX-License-Identifier: BSD-3-Clause
"""Lay out fields, and compute the hash of a layout."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from .model import HISTOGRAM_BYTES, Component, Field, Protocol

C_SIZES = {"bool": 1, "integer": 8, "real": 8, "enum": 4, "mask": 8, "histogram": HISTOGRAM_BYTES}


def place(fields: Sequence[Field]) -> int:
    """Set the offsets of fields in their message. Return its size, bytes."""
    at = 0
    for f in fields:
        f.offset = at
        if f.type == "string":
            f.bytes = (f.size + 7) // 8 * 8
        else:
            f.bytes = HISTOGRAM_BYTES if f.type == "histogram" else 8
        at += f.bytes
    return at


def c_size(fields: Sequence[Field]) -> int:
    """Return the size of the C structure, the same on all 64-bit machines that leat supports."""
    at, widest = 0, 1
    for f in fields:
        size = 4 if f.c_kind == "U32" else f.size if f.type == "string" else C_SIZES[f.type]
        align = 1 if f.type in ("bool", "string") else min(size, 8)
        at = (at + align - 1) // align * align + size
        widest = max(widest, align)
    return (at + widest - 1) // widest * widest


def _hash(lines: list[str]) -> int:
    digest = hashlib.sha256("\n".join(lines).encode()).digest()
    return int.from_bytes(digest[:8], "little") or 1  # 0 means no hash


def _line(what: str, f: Field) -> str:
    # The integer of a counter is unsigned, so the hash includes the kind.
    kind = getattr(f, "kind", "-")
    return " ".join([what, f.name, kind, f.type, str(f.offset), str(f.bytes), *f.values])


def place_component(c: Component) -> None:
    c.settings_size = place(c.settings)
    c.reports_size = place(c.reports)
    c.hash = _hash(["leat-tune-1", f"component {c.name}"]
                   + [_line("setting", s) for s in c.settings]
                   + [_line("report", r) for r in c.reports])


def place_protocol(p: Protocol) -> None:
    lines = ["leat-tune-1", f"protocol {p.name}"]
    for m in p.messages:
        m.size = place(m.fields)
        lines.append(f"message {m.name} {m.number} {m.direction} {m.payload or '-'}")
        lines += [_line("field", f) for f in m.fields]
    p.hash = _hash(lines)
