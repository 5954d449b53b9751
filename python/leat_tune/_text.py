# SPDX-License-Identifier: BSD-3-Clause
"""Text that comes from a process."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text of a process, without what would do something to a terminal."""
    return "".join(c if c.isprintable() else "_" for c in text)


def text_of(data: bytes) -> str:
    """A string with terminator."""
    return plain(data.split(b"\0", 1)[0].decode(errors="replace"))
