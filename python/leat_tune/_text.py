# SPDX-License-Identifier: BSD-3-Clause
"""Text that comes from a process, which is not trusted."""

from __future__ import annotations


def plain(text: str) -> str:
    """Replace characters that a terminal would interpret."""
    return "".join(c if c.isprintable() else "_" for c in text)


def text_of(data: bytes) -> str:
    """Return the text of a zero-terminated string."""
    return plain(data.split(b"\0", 1)[0].decode(errors="replace"))
