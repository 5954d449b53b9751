# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: OSErrors with an errno and words that say what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class TuneError(OSError):
    """Of everything that goes wrong here; errno and strerror are set."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


class DirError(TuneError):
    """The directory is not this user's alone: a symbolic link, a foreign owner, a mode that lets others in."""


class Corrupt(TuneError):
    """EPROTO: a block or a message that can't be right."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.EPROTO, words)


class Gone(TuneError):
    """ESRCH: the process ended, or does not let agents in any more."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ESRCH, words)


class TimedOut(TuneError, TimeoutError):
    """ETIMEDOUT: the process is there but does not answer: stopped, or its loop hangs."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.ETIMEDOUT, words)


class Unknown(TuneError):
    """ENOENT: no such name; nearest are those that look alike."""

    def __init__(self, words: str, nearest: list[str] | None = None) -> None:
        self.nearest = nearest or []
        if self.nearest:
            words += "; did you mean " + " or ".join(self.nearest) + "?"
        super().__init__(errno.ENOENT, words)


class Refused(TuneError):
    """The process refused a change, or the value is none of the setting's; errno says which, strerror why."""


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those names that look like it, best first."""
    return difflib.get_close_matches(name, sorted(set(names)), n=most, cutoff=0.5)
