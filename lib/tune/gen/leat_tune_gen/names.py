# SPDX-License-Identifier: BSD-3-Clause
"""Check names for C, C++ and Python."""

from __future__ import annotations

import keyword
import re

from .model import NAME_MAX

NAME = re.compile(r"[a-z][a-z0-9_]*")
VALUE = re.compile(r"[a-z0-9][a-z0-9_-]*")

C_WORDS = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof bool true false
    alignas alignof and and_eq bitand bitor catch class compl concept const_cast consteval constexpr
    constinit co_await co_return co_yield decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    reinterpret_cast requires static_assert static_cast template this thread_local throw try typeid
    typename using virtual wchar_t char8_t char16_t char32_t xor xor_eq
    linux unix errno assert stdin stdout stderr
""".split())  # the last line: macros


def mistake(name: object, what: str = "name") -> str | None:
    """Return what is wrong with a name, or None."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return f"{what} {name!r}: a name is lower case letters, digits and '_', after a letter"
    if len(name) > NAME_MAX:
        return f"{what} {name!r}: a name has at most {NAME_MAX} characters"
    if name in C_WORDS:
        return f"{what} {name!r} is a word of C or C++"
    if keyword.iskeyword(name):
        return f"{what} {name!r} is a word of Python"
    return None


def text_mistake(text: str, what: str) -> str | None:
    """Return what is wrong with a text, or None."""
    if not text.strip() or text != text.strip():
        return f"{what} is empty, or has space around it"
    if any(ord(ch) < 32 or 0x7f <= ord(ch) < 0xa0 for ch in text):
        return f"{what} has a control character, or more than one line"
    return None


def upper(*parts: str) -> str:
    return "_".join(parts).upper().replace("-", "_")
