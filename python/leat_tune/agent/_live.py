# SPDX-License-Identifier: BSD-3-Clause
"""Trials of a program that runs.

    set, under a lease --> warm-up --> measure, and look at the guards meanwhile --> Result

Every change has a lease that outlives a trial by little: if the agent is killed or stopped, the program
falls back by itself. A guard that is broken in two looks running ends the trial, and the program has its
own values again at once.
"""

from __future__ import annotations

import errno
import time
from typing import Any

from .._errors import Gone, Refused
from ._goal import Goal, Missing
from ._measures import Measure, objects, values
from ._search import Result
from ._settings import Targets
from ._space import Config

_LOOKS = 10  # of a trial at least
_INTERVAL = (0.02, 0.25)  # between them, seconds
# A lease's length: trials, and seconds.
_LEASE_TRIALS = 3
_LEASE_SECONDS = 10.0


class Live:
    """A program under trial. A context manager: at its end all settings are as they were."""

    def __init__(
        self,
        process: Any,
        targets: Targets,
        goal: Goal,
        measures: dict[str, Measure],
        *,
        seconds: float,
        warm_up: float,
    ) -> None:
        self.targets = targets
        self._process = process
        self._goal = goal
        self._measures = measures
        self._seconds = seconds
        self._warm_up = warm_up
        self._lease = _LEASE_SECONDS + _LEASE_TRIALS * (seconds + warm_up)
        self._interval = min(max(seconds / _LOOKS, _INTERVAL[0]), _INTERVAL[1])
        self.effective: dict[str, Any] = {}  #: what the last change came to, where it was not what was asked for
        self._session = process.session("leat-tune agent")
        self._session.watch(self._interval, rows=False)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind, value, trace) -> None:
        # The process takes the changes back: our leases end with the session.
        self._session.close()

    def _set(self, config: Config) -> None:
        wanted = self.targets.space.values(config)
        self.effective = {}
        for path, change in self.targets.changes(wanted).items():
            answer = self._session.set(path, change, lease=self._lease)
            for name, value in answer.effective.items():
                if value != change[name]:
                    self.effective[f"{path}.{name}"] = value

    def back(self) -> None:
        """The program's own values, at once."""
        self._set(self.targets.space.start)

    def keep(self, config: Config) -> None:
        """These values, for good."""
        self._set(config)
        self._session.release(keep=True)

    def _snapshot(self) -> dict[str, Any]:
        if not self._process.alive():
            raise Gone(f"process {self._process.pid} ({self._process.program}) ended")
        return objects(self._process.snapshot(rows=False))

    def trial(self, config: Config) -> Result:
        """
        Make one. Refused: another agent holds a setting; Gone, TimedOut: the process ended, or does not
        answer.
        """
        try:
            self._set(config)
        except Refused as e:
            if e.errno == errno.EBUSY:
                raise
            self.back()
            return Result(None, words=str(e))
        self._wait(time.monotonic() + self._warm_up)
        first = self._snapshot()
        end = time.monotonic() + self._seconds
        broken = 0
        while True:
            self._wait(min(end, time.monotonic() + self._interval))
            result = self._result(first, self._snapshot())
            broken = broken + 1 if result.excess else 0
            if broken >= 2:
                self.back()
                return result
            if time.monotonic() >= end:
                return result

    def _wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            time.sleep(left)

    def _result(self, first: dict[str, Any], last: dict[str, Any]) -> Result:
        found = values(self._measures.items(), first, last)
        excess, words = 0.0, []
        for guard in self._goal.guards:
            try:
                value = guard.value(found)
            except Missing:
                continue  # nothing was measured that could break it
            if not guard.holds(value):
                excess += guard.excess(value)
                words.append(f"{guard.text} broken: {value:.6g}")
        try:
            value = self._goal.value(found)
        except Missing as e:
            return Result(None, excess, "; ".join([*words, str(e)]), found)
        return Result(value if self._goal.maximum else -value, excess, "; ".join(words), found)
