# SPDX-License-Identifier: BSD-3-Clause
"""A description file: its values, and the lines that they are in."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.-]+)\s*\]\]?")
KEY = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"([^"]*)"|'([^']*)')\s*[=.]""")
INLINE = re.compile(r"\{\s*[A-Za-z0-9_-]+\s*=")


class Mistakes(Exception):
    """All mistakes of a file, as lines "FILE:LINE: reason"."""

    def __init__(self, lines: list[str]):
        super().__init__("\n".join(lines))
        self.lines = lines


@dataclass
class Where:
    """Line numbers of a table: of its header, of its keys, of its inline tables."""

    line: int = 1
    keys: dict[str, int] = field(default_factory=dict)
    inline: list[int] = field(default_factory=list)


def _locate(text: str) -> dict[str, list[Where]]:
    """Return the lines of tables by name; the top level is "".

    tomllib reports no positions, so this parses the text again. It needs to be right only for files
    that tomllib accepts.
    """
    tables = {"": [Where()]}
    now = tables[""][0]
    inside = ""  # the delimiter of a string over several lines
    for number, line in enumerate(text.split("\n"), 1):
        if not inside:
            header, key = HEADER.match(line), KEY.match(line)
            # Lines of an array of arrays may look like headers, but descriptions have no such
            # arrays.
            if header:
                now = Where(number)
                tables.setdefault(header[2], []).append(now)
            elif key:
                now.keys.setdefault(key[1] or key[2] or key[3] or "", number)
            now.inline += [number] * len(INLINE.findall(line))
        for delimiter in re.findall(r'"""|\'\'\'', line):
            inside = delimiter if not inside else "" if inside == delimiter else inside
    return tables


class Source:
    """A file being checked. say() collects its mistakes."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.mistakes: list[tuple[int, str]] = []
        try:
            self.values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            at = re.search(r"\(at line (\d+), column \d+\)", str(e))
            line = int(at[1]) if at else text.count("\n") + 1
            reason = re.sub(r" \(at .*\)$", "", str(e))
            raise Mistakes([f"{path}:{line}: not TOML: {reason}"]) from None
        self.tables = _locate(text)

    @classmethod
    def read(cls, path: str) -> Source:
        try:
            with open(path, encoding="utf-8", newline="") as f:
                return cls(path, f.read().replace("\r\n", "\n"))
        except UnicodeDecodeError as e:
            raise Mistakes([f"{path}:1: not UTF-8: {e.reason} at byte {e.start}"]) from None
        except OSError as e:
            raise Mistakes([f"{path}: {e.strerror}"]) from None

    def where(self, table: str = "", index: int = 0) -> Where:
        found = self.tables.get(table, [])
        return found[index] if index < len(found) else self.tables[""][0]

    def say(self, line: int, reason: str) -> None:
        self.mistakes.append((line, reason))

    def done(self) -> None:
        if self.mistakes:
            raise Mistakes([f"{self.path}:{line}: {reason}"
                            for line, reason in sorted(self.mistakes)])
