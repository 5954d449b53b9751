# SPDX-License-Identifier: BSD-3-Clause
"""Find processes, keep them open, and take their snapshots."""

from __future__ import annotations

import fnmatch
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import leat_tune

from .link import Change, Link, Outcome
from .model import HUNG_NS, Seen


@dataclass(frozen=True)
class Wanted:
    """Which processes to show."""

    dir: str | None = None
    pids: frozenset[int] = frozenset()
    programs: tuple[str, ...] = ()

    def takes(self, process: leat_tune.Process) -> bool:
        if self.pids and process.pid not in self.pids:
            return False
        return not self.programs or any(
            fnmatch.fnmatchcase(process.program, p) for p in self.programs
        )


@dataclass
class _Open:
    process: leat_tune.Process
    link: Link | None = None


@dataclass
class Source:
    """The processes. Use it on one thread; threads of links only add outcomes to a queue."""

    wanted: Wanted
    notify: Callable[[], None] = lambda: None  # called, on any thread, when there is an outcome
    interval: float = 1.0
    problems: list[str] = field(default_factory=list)  # errors of the last scan of the directory
    _pids: dict[int, str] = field(default_factory=dict)  # all at the last scan, with their programs
    _looked: bool = False
    _open: dict[tuple, _Open] = field(default_factory=dict)
    _outcomes: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)

    def read(self) -> list[Seen]:
        """Return the current processes; raise leat_tune.DirError if the directory is unsafe."""
        self._look()
        return [self._see(key, one) for key, one in self._open.items()]

    def require(self) -> None:
        """Raise leat_tune.Unknown if no process has a wanted pid. Call it after read().

        If a file could not be read, it may be of that process; then problems names the file.
        """
        if self.wanted.pids and self.wanted.pids.isdisjoint(self._pids) and not self.problems:
            there = ", ".join(f"{pid} ({program})" for pid, program in self._pids.items())
            raise leat_tune.Unknown(f"no such process; there are: {there or 'none'}")

    def set_interval(self, interval: float) -> None:
        self.interval = interval
        for one in self._open.values():
            if one.link is not None:
                one.link.watch(self._update())

    def change(self, change: Change) -> str:
        """Ask a process for a change; an Outcome follows. Return an error, or an empty text."""
        one = self._open.get(change.key[:2])
        if one is None:
            return "its process has ended"
        if one.link is None:
            return "it shows no sign of life"
        one.link.change(change)
        return ""

    def outcomes(self) -> list[Outcome]:
        found = []
        while True:
            try:
                found.append(self._outcomes.get_nowait())
            except queue.Empty:
                return found

    def settle(self, timeout: float) -> None:
        """Wait until all processes have answered the first request, or the time-out."""
        end = time.monotonic() + timeout
        for one in self._open.values():
            if one.link is not None:
                one.link.settled.wait(max(end - time.monotonic(), 0.0))

    def close(self) -> None:
        for one in self._open.values():
            one.process.close()
            if one.link is not None:
                one.link.close()
        # Wait briefly for sessions to end cleanly; otherwise processes log a lost session.
        for one in self._open.values():
            if one.link is not None:
                one.link.close(0.2)
        self._open.clear()

    def _update(self) -> float:
        """Return the interval of updates, shorter than that of reads, so that values are fresh."""
        return max(min(self.interval / 2, 0.1), 0.005)

    def _look(self) -> None:
        # Scan again for new processes: the thread of each needs its own leat_tune.Process.
        if self._scan():
            self._scan()

    def _scan(self) -> bool:
        """Scan the directory. Return whether there are new processes."""
        try:
            found, problems = leat_tune.scan(self.wanted.dir)
        except leat_tune.DirError:
            raise
        except OSError as e:
            if not self._looked:
                raise
            found, problems = [], [e]
        self._looked = True
        self.problems = [str(p) for p in problems]
        self._pids = {process.pid: process.program for process in found}
        now, new = set(), False
        for process in found:
            key = (process.pid, process.instance)
            now.add(key)
            one = self._open.get(key)
            if not self.wanted.takes(process):
                process.close()
            elif one is None:
                self._open[key] = _Open(process)
                new = True
            elif one.link is None and not process.hung:
                one.link = Link(process, self._done)
                one.link.watch(self._update())
            else:
                process.close()
        for key in [k for k in self._open if k not in now]:
            one = self._open.pop(key)
            one.process.close()
            if one.link is not None:
                one.link.close()
        return new

    def _done(self, outcome: Outcome) -> None:
        self._outcomes.put(outcome)
        self.notify()

    @staticmethod
    def _see(key: tuple, one: _Open) -> Seen:
        process = one.process
        snapshot, trouble, hung = None, "", False
        try:
            snapshot = process.snapshot()
            hung = snapshot.time_ns - snapshot.heartbeat_ns > HUNG_NS
        except (OSError, ValueError) as e:
            trouble = str(e)
        return Seen(
            process.pid, process.program, process.instance, process.start, hung, snapshot, trouble
        )
