# SPDX-License-Identifier: BSD-3-Clause
"""Plot a run as SVG: every trial, and the gain of each setting.

     value |      o  o   o          o  trials of the start    .  others    x  broke a guard
           |  o .  .   x  o o       green .: the best
           +-----------------
     batch  |########------|  gain that is lost without it, with its interval
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Optional

_WIDTH = 860
_LEFT, _RIGHT = 96, 24
_PLOT = 320
_BAR = 26
_START, _OTHER, _BEST, _BROKEN, _TEXT, _GRID = (
    "#57606a", "#54aeff", "#1a7f37", "#cf222e", "#24292f", "#d0d7de",
)  # fmt: skip


def _plain(text: str) -> str:
    """Escape text for XML; replace characters that XML does not allow."""
    return escape("".join(c if c.isprintable() else "_" for c in text))


def number(value: float) -> str:
    """Return a number with three digits, and k, M or G."""
    for end, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {end}"
    return f"{value:.3g}"


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, fill: str = _TEXT
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">'
        f"{_plain(words)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashes}/>'
    )


def steps(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between two numbers."""
    if not high > low:
        return [low]
    step = 10.0 ** len(str(int(max(abs(low), abs(high), 1))))
    while True:
        for part in (1, 0.5, 0.2):
            if (high - low) / (step * part) >= most / 2:
                step *= part
                first = -(-low // step)
                return [step * (first + i) for i in range(int(high / step - first) + 1)]
        step /= 10


Trial = tuple[str, Optional[float], bool]  # start, best or other; value; whether it broke a guard
Bar = tuple[str, float, float, float, bool]  # name, gain, low, high, real


def plot(title: str, subtitle: str, axis: str, trials: Sequence[Trial], bars: Sequence[Bar]) -> str:
    """Return the SVG document."""
    top = 84
    bottom = top + _PLOT
    height = bottom + 64 + (40 + _BAR * len(bars) if bars else 0)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, size=16),
        _text(_LEFT, 44, subtitle, fill=_START),
    ]
    values = [value for _, value, _ in trials if value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    low, high = low - margin, high + margin

    def y_of(value: float) -> float:
        return bottom - (value - low) / (high - low) * _PLOT

    def x_of(i: int) -> float:
        return _LEFT + 8 + i * (_WIDTH - _LEFT - _RIGHT - 16) / max(1, len(trials) - 1)

    for value in steps(low, high):
        out.append(_line(_LEFT, y_of(value), _WIDTH - _RIGHT, y_of(value), _GRID))
        out.append(_text(_LEFT - 8, y_of(value) + 4, number(value), anchor="end"))
    out.append(_line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, _TEXT))
    out.append(_text(_LEFT, top - 14, axis))
    for i, (kind, value, broken) in enumerate(trials):
        if value is None:
            out.append(_text(x_of(i), bottom - 4, "?", anchor="middle", fill=_BROKEN))
        elif broken:
            x, y = x_of(i), y_of(value)
            out.append(
                _line(x - 3, y - 3, x + 3, y + 3, _BROKEN)
                + _line(x - 3, y + 3, x + 3, y - 3, _BROKEN)
            )
        else:
            colour = {"start": _START, "best": _BEST}.get(kind, _OTHER)
            fill = "none" if kind == "start" else colour
            out.append(
                f'<circle cx="{x_of(i):.1f}" cy="{y_of(value):.1f}" r="3.5" fill="{fill}" '
                f'stroke="{colour}"/>'
            )
    x = float(_LEFT)
    for colour, words in (
        (_START, "as it was"),
        (_OTHER, "tried"),
        (_BEST, "best"),
        (_BROKEN, "broke a guard"),
    ):
        out.append(f'<circle cx="{x + 4:.1f}" cy="{bottom + 30}" r="4" fill="{colour}"/>')
        out.append(_text(x + 14, bottom + 34, words))
        x += 120
    out.append(
        _text(_WIDTH - _RIGHT, bottom + 18, f"{len(trials)} trials", anchor="end", fill=_START)
    )
    if bars:
        out += _bars(bottom + 64, bars)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _bars(top: int, bars: Sequence[Bar]) -> list[str]:
    out = [_text(_LEFT, top, "what is lost if a setting alone goes back", size=14)]
    low = min(0.0, *(min(bar[1], bar[2]) for bar in bars))
    high = max(0.01, *(max(bar[1], bar[3]) for bar in bars))
    left, right = _LEFT + 120, _WIDTH - _RIGHT - 170

    def x_of(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    for i, (name, gain, begin, end, real) in enumerate(bars):
        y = top + 16 + i * _BAR
        x1, x2 = sorted((x_of(0.0), x_of(gain)))
        out.append(_text(left - 8 - (x_of(0) - left), y + 13, name, anchor="end"))
        colour = _BEST if real else _GRID
        out.append(
            f'<rect x="{x1:.1f}" y="{y}" width="{x2 - x1:.1f}" height="16" fill="{colour}"/>'
        )
        out.append(_line(x_of(begin), y + 8, x_of(end), y + 8, _TEXT))
        words = f"{gain * 100:+.1f} %" + ("" if real else ", within the noise")
        out.append(_text(right + 8, y + 13, words))
    out.append(_line(x_of(0.0), top + 12, x_of(0.0), top + 16 + _BAR * len(bars), _TEXT))
    return out
