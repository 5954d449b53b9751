# SPDX-License-Identifier: BSD-3-Clause
"""The form to change a setting, together with its group, and to choose the lease."""

from __future__ import annotations

import leat_tune

from .format import Glyphs, Parts, clean, fit, width_of
from .grid import Grid, Rect
from .link import Change, Outcome
from .model import Object
from .schema import allowed, choices, rule_of, together
from .settings import SettingRow

_LEASES: tuple[tuple[str, float | None], ...] = (
    ("for good", None),
    ("for 10 s", 10.0),
    ("for 1 min", 60.0),
    ("for 10 min", 600.0),
    ("for 1 h", 3600.0),
    ("while leat-top runs", leat_tune.SESSION),
)
_TEXT_MAX = 255


class Field:
    """An input field: typed text, or one of several choices."""

    def __init__(self, name: str, text: str, of: list[str], note: str) -> None:
        self.name = name
        self.text = text
        self.choices = of
        self.note = note
        self.caret = len(text)
        self.fresh = not of  # the first typed character replaces the text

    def key(self, key: str) -> None:
        if self.choices:
            step = {"left": -1, "right": 1, " ": 1}.get(key)
            if step is not None:
                at = self.choices.index(self.text) if self.text in self.choices else 0
                self.text = self.choices[(at + step) % len(self.choices)]
            return
        if key == "left":
            self.caret = max(self.caret - 1, 0)
        elif key == "right":
            self.caret = min(self.caret + 1, len(self.text))
        elif key == "home":
            self.caret = 0
        elif key == "end":
            self.caret = len(self.text)
        elif key == "backspace":
            if self.caret > 0:
                self.text = self.text[: self.caret - 1] + self.text[self.caret :]
                self.caret -= 1
        elif key == "delete":
            self.text = self.text[: self.caret] + self.text[self.caret + 1 :]
        elif key == "clear":
            self.text, self.caret = "", 0
        elif len(key) == 1 and key.isprintable():
            if self.fresh:
                self.text, self.caret = "", 0
            if len(self.text) < _TEXT_MAX:
                self.text = self.text[: self.caret] + key + self.text[self.caret :]
                self.caret += 1
        self.fresh = False


class Edit:
    def __init__(self, row: SettingRow) -> None:
        self.object: Object = row.object
        self.waiting = False
        self.refused = ""
        schema = self.object.schema
        self.rule = rule_of(schema, row.setting.name)
        self.when = row.setting.when
        self.help = row.setting.help
        names = together(schema, row.setting.name)
        self.fields = []
        for name in names:
            setting = schema.settings[name]
            text = setting.format(self.object.settings[name])
            note = allowed(setting) if not choices(setting) else ""
            note += f"; default {setting.format(setting.default)}" if note else (
                f"default {setting.format(setting.default)}"
            )
            self.fields.append(Field(name, text, choices(setting), note))
        self._settings = len(self.fields)
        self.fields.append(Field("lasts", _LEASES[0][0], [name for name, _ in _LEASES], ""))
        self.at = names.index(row.setting.name)

    def key(self, key: str) -> None:
        """Handle a key other than Enter and Esc."""
        self.refused = ""
        if key in ("up", "btab"):
            self.at = (self.at - 1) % len(self.fields)
        elif key in ("down", "tab"):
            self.at = (self.at + 1) % len(self.fields)
        else:
            self.fields[self.at].key(key)

    def change(self) -> Change:
        values = {field.name: field.text for field in self.fields[: self._settings]}
        lease = dict(_LEASES)[self.fields[-1].text]
        self.waiting = True
        return Change(self.object.key, self.object.path, values, lease)

    def done(self, outcome: Outcome) -> bool:
        """Handle the outcome of the form's change. Return True to close the form."""
        self.waiting = False
        self.refused = clean(outcome.refused)
        return not self.refused

    def draw(self, grid: Grid, area: Rect, glyphs: Glyphs) -> None:
        """Draw at the lower edge of the area; with little room, only the field with the cursor."""
        below = self._below(glyphs)
        frame = 2 if area.height >= 4 else 0
        lines = min(len(self.fields) + len(below), max(area.height - frame, 0))
        width = min(max(area.width - 4, min(area.width, 20)), 96)
        height = lines + frame
        rect = Rect(
            area.y + area.height - height, area.x + (area.width - width) // 2, height, width
        )
        grid.fill(rect)
        inner = rect
        if frame:
            self._frame(grid, rect, glyphs)
            inner = rect.inner()
        # Keep a line for the answer, at the cost of a field.
        answer_lines = 1 if (self.refused or self.waiting) and lines > 1 else 0
        shown = min(len(self.fields), max(lines - answer_lines, 1))
        first = max(0, min(self.at - shown + 1, len(self.fields) - shown))
        name_width = max(len(f.name) for f in self.fields) + 1
        y = inner.y
        for i, field in enumerate(self.fields[first : first + shown], first):
            self._field(
                grid, Rect(y, inner.x, 1, inner.width), field, i == self.at, name_width, glyphs
            )
            y += 1
        for text, role in below[: max(lines - shown, 0)]:
            grid.put(y, inner.x + 1, fit(text, max(inner.width - 2, 0), cut=glyphs.cut), role)
            y += 1

    def _below(self, glyphs: Glyphs) -> Parts:
        """Return the lines below the fields, the most important first."""
        if self.waiting:
            return [("asked; waiting for the answer", "accent"), ("Esc leave", "key")]
        lines: Parts = [("refused: " + self.refused, "bad")] if self.refused else []
        if self.rule:
            lines.append((f"changed together: {self.rule}", "dim"))
        if self.help and not self.refused:
            lines.append((self.help, "note"))
        arrows = f"  {glyphs.left}{glyphs.right} choose" if self.fields[self.at].choices else ""
        lines.append((f"Enter change{arrows}  Esc leave", "key"))
        return lines

    def _frame(self, grid: Grid, rect: Rect, glyphs: Glyphs) -> None:
        title: Parts = [
            (f"Change {self.object.path}", "title"),
            (f"  {self.object.process.pid}", "note"),
        ]
        note = {"now": "takes effect now", "next": "takes effect with what is made next"}
        grid.box(rect, title, glyphs.box, focus=True, note=note.get(self.when, ""))

    @staticmethod
    def _field(
        grid: Grid, line: Rect, field: Field, here: bool, name_width: int, glyphs: Glyphs
    ) -> None:
        x = grid.put(line.y, line.x, fit(" " + field.name, min(name_width + 2, line.width)),
                     "name" if here else "dim", here)
        end = line.x + line.width
        grid.put(line.y, x, " " * max(end - x, 0), "text", here)
        text = field.text
        if field.choices:
            text = f"{glyphs.left} {text} {glyphs.right}" if here else f"  {text}"
        elif here:
            text = text[: field.caret] + glyphs.cursor + text[field.caret :]
            text = "  " + text
        else:
            text = "  " + text
        width = max(min(24, end - x), 0)
        if width_of(text) > width and here and not field.choices:
            # Show the part with the caret.
            text = text[max(0, field.caret + 4 - width) :]
        x = grid.put(line.y, x, fit(text, width, cut=glyphs.cut), "edit" if here else "text", here)
        if end - x > 8:
            grid.put(line.y, x + 1, fit(field.note, end - x - 2, cut=glyphs.cut), "note", here)
