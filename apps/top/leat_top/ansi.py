# SPDX-License-Identifier: BSD-3-Clause
"""Print a grid as lines of text, with escape sequences for 256 colours."""

from __future__ import annotations

import curses

from .grid import Grid
from .theme import color_of


def paint(grid: Grid, colors: bool) -> str:
    if not colors:
        return grid.text() + "\n"
    return "".join(_line(grid, y) + "\n" for y in range(grid.height))


def _line(grid: Grid, y: int) -> str:
    runs = grid.runs(y)
    while runs and not runs[-1][1].strip():
        runs.pop()
    parts = []
    for _, text, (role, _selected) in runs:
        color, attribute = color_of(role)
        codes = ["1"] if attribute & curses.A_BOLD else []
        if color >= 0:
            codes.append(f"38;5;{color}")
        if codes and text.strip():
            parts.append(f"\x1b[{';'.join(codes)}m{text}\x1b[0m")
        else:
            parts.append(text)
    return "".join(parts)
