# SPDX-License-Identifier: BSD-3-Clause
"""Format numbers, bars, sparklines and graphs as text, without a terminal.

Text with more than one style is a list of parts: (text, role). A role is the name of a style;
theme.py has its colours.
"""

from __future__ import annotations

import math
import unicodedata

Parts = list[tuple[str, str]]

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_ASCII_LEVELS = " .:-=+*%#"
# Dots of a braille cell, from bottom to top: left column, right column.
_BRAILLE = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
BUSY_ROLES = tuple(f"busy{i}" for i in range(8))


class Glyphs:
    """The characters to draw with: Unicode, or ASCII in a locale without UTF-8."""

    def __init__(self, utf8: bool) -> None:
        self.utf8 = utf8
        self.box = "╭╮╰╯─│" if utf8 else "++++-|"
        self.busy, self.idle, self.sleep = "■▪·" if utf8 else "#-."
        self.down, self.up = "▼▲" if utf8 else "v^"
        self.left, self.right = "◂▸" if utf8 else "<>"
        self.dot = "·" if utf8 else "-"
        self.cut = "…" if utf8 else "~"
        self.micro = "µ" if utf8 else "u"
        self.cursor = "▏" if utf8 else "_"
        self.bell = "●" if utf8 else "*"
        self.branch = "└ " if utf8 else "` "


def clean(text: str) -> str:
    """Replace characters, in text of another process, that a terminal would interpret."""
    return "".join(c if c.isprintable() else "?" for c in text)


def width_of(text: str) -> int:
    """Return the width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int, *, right: bool = False, cut: str = "~") -> str:
    """Pad or cut a text to exactly width columns; `cut` marks the place of a cut."""
    have = width_of(text)
    if have > width:
        kept, have = [], 0
        for char in text:
            if have + _cells(char) > width - 1:
                break
            kept.append(char)
            have += _cells(char)
        text = "".join(kept) + (cut if width > 0 else "")
        have += 1 if width > 0 else 0
    fill = " " * (width - have)
    return fill + text if right else text + fill


def si(value: float | None, *, none: str = "-") -> str:
    """Format a number in at most five columns: 0, 7.25, 999, 12.3k, 1.20M."""
    if value is None or math.isnan(value):
        return none
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value < 0:
        return "-" + si(-value)
    if value < 0.005:
        return "0"
    step = 0
    while step < len(_PREFIXES) - 1 and value >= 999.5:
        value /= 1000
        step += 1
    if step == 0 and float(value).is_integer():
        return str(int(value))
    return _three(value) + _PREFIXES[step]


def _three(value: float) -> str:
    """Format a number with three significant digits."""
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def duration(ns: float | None, *, micro: str = "u", none: str = "-") -> str:
    """Format a time in at most seven columns: 850 ns, 4.21 us, 12.0 ms, 3.20 s, 5m10s, 3d04h."""
    if ns is None or math.isnan(ns):
        return none
    if ns < 0:
        return "-" + duration(-ns, micro=micro)
    if ns >= 99.95e9:
        return long_time(ns / 1e9)
    if ns < 1:
        return "0 ns"
    for size, unit in _TIMES:
        # A time that would round to 1000 of the next smaller unit is 1 of this unit.
        if ns >= size * 0.9995:
            break
    text = f"{ns:.0f}" if size == 1 else _three(ns / size)
    return f"{text} {unit.replace('u', micro)}"


def long_time(seconds: float) -> str:
    """Format seconds: 12s, 3m05s, 2h10m, 4d06h."""
    whole = int(max(seconds, 0))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def percent(share: float | None, *, none: str = "-") -> str:
    if share is None:
        return none
    return f"{min(max(share, 0.0), 9.99) * 100:.0f}%"


def number(value: float) -> str:
    """Format a number in full, with commas."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def with_unit(value, unit: str | None, *, micro: str = "u", rate: bool = False) -> str:
    """Format a value: 4.21 us, 1.20 MB, 12.3k calls/s. The rate of a time is a percentage."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value)
    if unit in TIME_UNITS:
        ns = value * TIME_UNITS[unit]
        return percent(ns / 1e9) if rate else duration(ns, micro=micro)
    per = "/s" if rate else ""
    text = si(value)
    if unit == "bytes":
        return f"{text[:-1]} {text[-1]}B{per}" if text[-1:].isalpha() else f"{text} B{per}"
    if unit:
        return f"{text} {unit}{per}"
    return text + per


def _rounded(shares: list[float], width: int) -> list[int]:
    """Return the number of cells for each share; together they are at most width."""
    ends, total, last = [], 0.0, 0
    for share in shares:
        total = min(total + max(share, 0.0), 1.0)
        end = int(total * width + 0.5)
        ends.append(end - last)
        last = end
    return ends


def load_bar(busy: float, idle: float, sleep: float, width: int, glyphs: Glyphs) -> Parts:
    """Draw shares of time side by side. The rest is time that the lcore did not run."""
    cells = _rounded([busy, idle, sleep], width)
    # Show at least one cell of work, however little it is.
    if busy >= 0.001 and cells[0] == 0 and width > 1:
        cells[0] = 1
        cells[1 if cells[1] > 0 else 2] -= 1 if cells[1] + cells[2] > 0 else 0
    parts: Parts = []
    for i in range(cells[0]):
        parts.append((glyphs.busy, BUSY_ROLES[min(i * len(BUSY_ROLES) // width, 7)]))
    parts.append((glyphs.idle * cells[1], "idle"))
    parts.append((glyphs.sleep * cells[2], "sleep"))
    parts.append((" " * (width - sum(cells)), "text"))
    return [p for p in parts if p[0]]


def meter(share: float, width: int, glyphs: Glyphs) -> Parts:
    """Draw one share of a whole."""
    cells = min(int(max(share, 0.0) * width + 0.5), width)
    parts = [
        (glyphs.busy, BUSY_ROLES[min(i * len(BUSY_ROLES) // width, 7)]) for i in range(cells)
    ]
    return parts + [(glyphs.sleep * (width - cells), "sleep")]


def sparkline(values, width: int, glyphs: Glyphs, top: float | None = None) -> str:
    """Draw the last values in one line, the newest at the right. None is a gap."""
    if glyphs.utf8:
        return graph(values, width, 1, glyphs, top)[0]
    shown = list(values)[-width:] if width > 0 else []
    if top is None:
        top = max((v for v in shown if v is not None), default=0.0)
    chars = []
    for value in shown:
        if value is None:
            chars.append(" ")
        elif top <= 0 or value <= 0:
            chars.append(_ASCII_LEVELS[1])
        else:
            chars.append(_ASCII_LEVELS[max(1, min(8, math.ceil(value / top * 8)))])
    return " " * (width - len(chars)) + "".join(chars)


def graph(values, width: int, height: int, glyphs: Glyphs, top: float | None = None) -> list[str]:
    """Draw a graph of height lines. A braille cell (Unicode) has two values of four levels."""
    per_cell, levels = (2, 4) if glyphs.utf8 else (1, 2)
    wanted = width * per_cell
    shown = list(values)[-wanted:] if wanted > 0 else []
    shown = [None] * (wanted - len(shown)) + shown
    if top is None:
        top = max((v for v in shown if v is not None), default=0.0)
    heights = []
    for value in shown:
        if value is None:
            heights.append(0)
        elif top <= 0 or value <= 0:
            heights.append(1 if glyphs.utf8 else 0)
        else:
            heights.append(max(1, min(height * levels, round(value / top * height * levels))))
    lines = []
    for line in range(height - 1, -1, -1):
        base, text = line * levels, []
        for cell in range(width):
            if glyphs.utf8:
                dots = 0
                for side in (0, 1):
                    filled = min(max(heights[cell * 2 + side] - base, 0), 4)
                    for dot in _BRAILLE[side][:filled]:
                        dots |= dot
                text.append(chr(0x2800 + dots) if dots else " ")
            else:
                text.append(" .#"[min(max(heights[cell] - base, 0), 2)])
        lines.append("".join(text))
    return lines


def nice_top(value: float) -> float:
    """Return the end of a scale: 1, 2 or 5 times a power of ten, so that it changes rarely."""
    if value <= 0 or math.isnan(value) or math.isinf(value):
        return 1.0
    base = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 5, 10):
        if value <= step * base * 1.0000001:
            return step * base
    return 10 * base
