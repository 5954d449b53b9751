# SPDX-License-Identifier: BSD-3-Clause
"""A grid of cells, each with a character and a style. Drawing is clipped to the grid.

Screens draw into a grid of any size, and terminal.py copies it to the terminal. Screens can
therefore be tested without a terminal, and never fail because it is too small.
"""

from __future__ import annotations

from dataclasses import dataclass

from .format import Parts, fit, width_of

Style = tuple[str, bool]  # role, and whether the cell is in the line of the cursor
PLAIN: Style = ("text", False)


@dataclass(frozen=True)
class Rect:
    y: int
    x: int
    height: int
    width: int

    def inner(self) -> Rect:
        """Return the area within the border of a box."""
        return Rect(self.y + 1, self.x + 1, max(self.height - 2, 0), max(self.width - 2, 0))


class Grid:
    def __init__(self, height: int, width: int) -> None:
        self.height = height
        self.width = width
        self.chars = [[" "] * width for _ in range(height)]
        self.styles: list[list[Style]] = [[PLAIN] * width for _ in range(height)]

    def rect(self) -> Rect:
        return Rect(0, 0, self.height, self.width)

    def put(self, y: int, x: int, text: str, role: str = "text", selected: bool = False) -> int:
        """Draw text, clipped at the edges. Return the column after it."""
        if not 0 <= y < self.height:
            return x + width_of(text)
        style = (role, selected)
        chars, styles = self.chars[y], self.styles[y]
        for char in text:
            cells = 1 if char.isascii() else width_of(char)
            if cells == 0:
                continue
            if x >= 0 and x + cells <= self.width:
                chars[x] = char
                styles[x] = style
                if cells == 2:
                    # The second half of a wide character.
                    chars[x + 1] = ""
                    styles[x + 1] = style
            x += cells
        return x

    def parts(self, y: int, x: int, parts: Parts, selected: bool = False) -> int:
        for text, role in parts:
            x = self.put(y, x, text, role, selected)
        return x

    def fill(self, rect: Rect, role: str = "text", selected: bool = False) -> None:
        for y in range(rect.y, rect.y + rect.height):
            self.put(y, rect.x, " " * rect.width, role, selected)

    def box(
        self, rect: Rect, title: Parts, glyph: str, *, focus: bool = False, note: str = ""
    ) -> None:
        """Draw a frame with a title, and a note to its right, in the upper edge."""
        if rect.height < 2 or rect.width < 4:
            return
        role = "border_focus" if focus else "border"
        upper_left, upper_right, lower_left, lower_right, line, side = glyph
        last = rect.x + rect.width - 1
        self.put(rect.y, rect.x, upper_left + line * (rect.width - 2) + upper_right, role)
        bottom = rect.y + rect.height - 1
        self.put(bottom, rect.x, lower_left + line * (rect.width - 2) + lower_right, role)
        for y in range(rect.y + 1, bottom):
            self.put(y, rect.x, side, role)
            self.put(y, last, side, role)
        room = rect.width - 6
        x = rect.x + 2
        shown = sum(width_of(text) for text, _ in title)
        if title and room > 0:
            x = self.put(rect.y, x, " ", role)
            for text, part in title:
                left = rect.x + 2 + room - x
                if left > 0:
                    x = self.put(rect.y, x, fit(text, min(width_of(text), left)), part)
            self.put(rect.y, x, " ", role)
        if note and shown + width_of(note) + 5 <= room:
            self.put(rect.y, last - width_of(note) - 3, f" {note} ", "note")

    def runs(self, y: int) -> list[tuple[int, str, Style]]:
        """Return a line as runs of cells with the same style: column, text, style."""
        found: list[tuple[int, str, Style]] = []
        chars, styles = self.chars[y], self.styles[y]
        begin = 0
        for x in range(1, self.width + 1):
            if x == self.width or styles[x] != styles[begin]:
                found.append((begin, "".join(chars[begin:x]), styles[begin]))
                begin = x
        return found

    def text(self) -> str:
        """Return the text without styles, for tests."""
        return "\n".join("".join(line).rstrip() for line in self.chars)
