# SPDX-License-Identifier: BSD-3-Clause
"""The log of a run, JSON lines: a head with the run's arguments, then a line per trial.

    {"leat_tune_agent": 1, "goal": "max ...", "knobs": {"batch": [1, 2, 4]}, "start": {...}, ...}
    {"trial": 1, "purpose": "start", "settings": {"batch": 4}, "value": 812.5, "excess": 0, ...}

An interrupted run can be resumed from its log: the search asks for the same trials again, and gets
the results from the log. An incomplete last line is ignored.
"""

from __future__ import annotations

import json
import os
from typing import IO, Any

from ._search import Ask, Result
from ._space import Space

VERSION = 1
BYTES_MAX = 64 << 20


class LogError(ValueError):
    """The file is not a log, or the log of another run."""


def trial_line(
    number: int, space: Space, ask: Ask, result: Result, more: dict[str, Any]
) -> dict[str, Any]:
    """Return the line of a trial."""
    line: dict[str, Any] = {
        "trial": number,
        "purpose": ask.purpose,
        "settings": space.values(ask.config),
        "value": result.value,
        "excess": result.excess,
    }
    if result.words:
        line["words"] = result.words
    return {**line, "measures": result.measures, **more}


def read(path: str | os.PathLike) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the head and the trials of a log; raise LogError."""
    with open(path, "rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise LogError(f"{path}: more than {BYTES_MAX >> 20} MiB")
    lines = []
    for i, text in enumerate(data.split(b"\n")[:-1], 1):
        try:
            line = json.loads(text)
        except ValueError:
            raise LogError(f"{path}:{i}: not JSON") from None
        if not isinstance(line, dict):
            raise LogError(f"{path}:{i}: not a line of a log")
        lines.append(line)
    if not lines or lines[0].get("leat_tune_agent") != VERSION:
        raise LogError(f"{path}: not a log of leat-tune agent")
    return lines[0], lines[1:]


def result_of(space: Space, ask: Ask, line: dict[str, Any]) -> Result | None:
    """Return the logged result of this trial; None if the line is of a different trial."""
    try:
        if space.config(line["settings"]) != ask.config or line["purpose"] != ask.purpose:
            return None
        value = line["value"]
        return Result(
            None if value is None else float(value),
            float(line["excess"]),
            str(line.get("words", "")),
            dict(line.get("measures", {})),
        )
    except (KeyError, TypeError, ValueError):
        return None


class Log:
    """A log to write. Each line is written through to the file at once."""

    def __init__(self, path: str | os.PathLike, *, keep: bool = False) -> None:
        """Open a log: a new one (or raise FileExistsError), or, with keep, append to an old one."""
        self._file: IO[str] | None = None
        if keep:
            _cut(path)
        self._file = open(path, "a" if keep else "x", encoding="utf-8", buffering=1)

    def write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _cut(path: str | os.PathLike) -> None:
    """Remove an incomplete last line from a file."""
    with open(path, "r+b") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
