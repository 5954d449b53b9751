# SPDX-License-Identifier: BSD-3-Clause
"""The terminal, by curses: reads keys, shows grids, and is restored however the program ends."""

from __future__ import annotations

import curses
import os

from .grid import Grid
from .theme import Theme

_KEYS = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_LEFT: "left",
    curses.KEY_RIGHT: "right",
    curses.KEY_PPAGE: "pgup",
    curses.KEY_NPAGE: "pgdn",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_BTAB: "btab",
    curses.KEY_ENTER: "enter",
    curses.KEY_BACKSPACE: "backspace",
    curses.KEY_DC: "delete",
    curses.KEY_F1: "f1",
}
_CHARS = {
    "\n": "enter",
    "\r": "enter",
    "\t": "tab",
    "\x1b": "esc",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x15": "clear",  # Ctrl-U
    "\x01": "home",
    "\x05": "end",
    "\x0c": "redraw",
}
_ESCAPE_MS = 25  # longest wait for the rest of an escape sequence


class Terminal:
    """The terminal. Within its with block curses controls the screen."""

    def __init__(self, colors: str, utf8: bool) -> None:
        """colors: never, auto, always."""
        self._colors = colors
        self._utf8 = utf8
        self._screen = None
        self._theme = Theme(0)

    def __enter__(self) -> Terminal:
        curses.set_escdelay(_ESCAPE_MS)
        self._screen = curses.initscr()
        try:
            self._begin()
        except BaseException:
            curses.endwin()
            raise
        return self

    def _begin(self) -> None:
        curses.noecho()
        curses.cbreak()
        self._screen.keypad(True)
        self._screen.nodelay(True)
        try:
            curses.curs_set(0)
        except curses.error:
            pass  # the terminal can't hide its cursor
        colors = 0
        if self._colors != "never" and curses.has_colors():
            curses.start_color()
            try:
                curses.use_default_colors()
                colors = curses.COLORS
            except curses.error:
                pass  # without the default background the colours don't fit
        self._theme = Theme(colors)

    def __exit__(self, kind, value, trace) -> None:
        if not curses.tigetstr("rmcup"):
            # Without an alternate screen: clear this screen, so that the prompt is not inside it.
            self._screen.erase()
            self._screen.refresh()
        self._screen.keypad(False)
        curses.echo()
        curses.nocbreak()
        curses.endwin()

    def size(self) -> tuple[int, int]:
        """Return lines and columns, as curses knows them."""
        return self._screen.getmaxyx()

    def resized(self) -> None:
        """Tell curses that the size of the terminal has changed."""
        try:
            columns, lines = os.get_terminal_size(0)
        except OSError:
            return
        if lines > 0 and columns > 0:
            curses.resizeterm(lines, columns)

    def keys(self) -> list[str]:
        """Return all keys pressed since the last call."""
        found = []
        while True:
            try:
                char = self._screen.get_wch()
            except curses.error:
                return found
            name = _KEYS.get(char) if isinstance(char, int) else _CHARS.get(char, char)
            if name == "redraw":
                self._screen.clearok(True)
            elif name is not None and (len(name) > 1 or name.isprintable()):
                found.append(name)

    def show(self, grid: Grid) -> None:
        screen = self._screen
        screen.erase()
        for y in range(grid.height):
            for x, text, style in grid.runs(y):
                if style == ("text", False) and not text.strip():
                    continue
                if not self._utf8:
                    text = text.encode("ascii", "replace").decode()
                try:
                    screen.addstr(y, x, text, self._theme.attribute(style))
                except curses.error:
                    pass  # curses can't move the cursor beyond the last cell
        screen.noutrefresh()
        curses.doupdate()
