# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: OSErrors with an errno and a message that says what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class TuneError(OSError):
    """Base of all errors of this package; errno and strerror are set."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


class DirError(TuneError):
    """Others can access the directory: a symbolic link, a foreign owner, or its mode."""


class Corrupt(TuneError):
    """EPROTO: a block or a message is malformed."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.EPROTO, words)


class Gone(TuneError):
    """ESRCH: the process has ended, or accepts no sessions any more."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ESRCH, words)


class TimedOut(TuneError, TimeoutError):
    """ETIMEDOUT: the process exists but does not answer: it is stopped, or its loop hangs."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ETIMEDOUT, words)


class Unknown(TuneError):
    """ENOENT: no such name; `nearest` lists similar ones."""

    def __init__(self, words: str, nearest: list[str] | None = None) -> None:
        self.nearest = nearest or []
        if self.nearest:
            words += "; did you mean " + " or ".join(self.nearest) + "?"
        super().__init__(errno.ENOENT, words)


class Refused(TuneError):
    """The process refused a change, or a value does not fit its setting: see errno, strerror."""


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the names most similar to `name`, best first."""
    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=0.5)
