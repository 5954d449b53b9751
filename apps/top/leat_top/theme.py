# SPDX-License-Identifier: BSD-3-Clause
"""The styles of roles: with 256 colours, with 16 or 8, or without colours.

No information is in colours alone: bars have different characters, and states are words.
"""

from __future__ import annotations

import curses

# By role: colour of 256, colour of 16, attribute. -1: the terminal's default.
_ROLES: dict[str, tuple[int, int, int]] = {
    "text": (-1, -1, 0),
    "strong": (255, 15, curses.A_BOLD),
    "dim": (244, 8, 0),
    "faint": (239, 8, 0),
    "name": (117, 14, 0),
    "head": (109, 6, 0),
    "head_sort": (223, 11, curses.A_BOLD),
    "border": (238, 8, 0),
    "border_focus": (67, 12, 0),
    "title": (153, 14, curses.A_BOLD),
    "note": (102, 8, 0),
    "key": (180, 3, 0),
    "good": (114, 2, 0),
    "warn": (221, 3, 0),
    "bad": (203, 9, curses.A_BOLD),
    "accent": (180, 11, 0),
    "rate": (151, 10, 0),
    "time": (182, 13, 0),
    "spark": (74, 6, 0),
    "graph": (73, 6, 0),
    "graph2": (140, 5, 0),
    "tab": (246, 7, 0),
    "tab_on": (153, 14, curses.A_BOLD),
    "edit": (255, 15, curses.A_BOLD),
    "idle": (60, 4, 0),
    "sleep": (237, 8, 0),
    "busy0": (72, 2, 0),
    "busy1": (72, 2, 0),
    "busy2": (108, 2, 0),
    "busy3": (143, 3, 0),
    "busy4": (179, 3, 0),
    "busy5": (173, 3, 0),
    "busy6": (167, 1, 0),
    "busy7": (160, 1, 0),
}
_SELECTED_256 = 236
_SELECTED_16 = 0

# Attributes without colours.
_MONO = {
    "strong": curses.A_BOLD,
    "title": curses.A_BOLD,
    "tab_on": curses.A_BOLD,
    "head_sort": curses.A_BOLD | curses.A_UNDERLINE,
    "bad": curses.A_BOLD,
    "edit": curses.A_BOLD,
}


class Theme:
    """Attributes of curses by role. colors: the terminal's; 0: use none."""

    def __init__(self, colors: int) -> None:
        self._colors = colors
        self._known: dict[tuple[str, bool], int] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def attribute(self, style: tuple[str, bool]) -> int:
        found = self._known.get(style)
        if found is None:
            found = self._known[style] = self._make(*style)
        return found

    def _make(self, role: str, selected: bool) -> int:
        if self._colors < 8:
            return _MONO.get(role, 0) | (curses.A_REVERSE if selected else 0)
        many, few, attribute = _ROLES[role]
        if self._colors >= 256:
            return self._pair(many, _SELECTED_256 if selected else -1) | attribute
        if selected:
            # With few colours no background suits all roles: use reverse video.
            return self._pair(-1, -1) | curses.A_REVERSE | attribute
        if few >= self._colors:
            bright = few - 8
            attribute |= curses.A_BOLD
            few = bright if bright > 0 else -1
            if role in ("dim", "faint", "border", "note", "sleep"):
                attribute = (attribute & ~curses.A_BOLD) | curses.A_DIM
        return self._pair(few, -1) | attribute

    def _pair(self, front: int, back: int) -> int:
        pair = self._pairs.get((front, back))
        if pair is None:
            pair = len(self._pairs) + 1
            if pair >= curses.COLOR_PAIRS:
                return 0
            curses.init_pair(pair, front, back)
            self._pairs[front, back] = pair
        return curses.color_pair(pair)


def color_of(role: str) -> tuple[int, int]:
    """Return the colour of 256 (-1: the terminal's default) and the attribute of a role."""
    color, _, attribute = _ROLES[role]
    return color, attribute
