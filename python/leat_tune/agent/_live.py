# SPDX-License-Identifier: BSD-3-Clause
"""Trials of a running program.

    set, under a lease --> warm-up --> measure, and check the guards meanwhile --> Result

A measurement lasts from one report of the program to a later one, both made while the settings are
in force. If the program or the agent gets no CPU for a while, the trial only takes longer.

The lease of a change lasts _LEASE_TRIALS trials and _LEASE_SECONDS more: if the agent is killed or
stopped, the program restores its own values then. A guard that is broken in two checks in a row
ends the trial, and the agent restores the program's own values at once.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from .._errors import Gone, Refused, TuneError
from ._goal import Goal, Missing
from ._measures import Measure, objects, values
from ._search import Result
from ._settings import Targets
from ._space import Config

_LOOKS = 10  # fewest checks of the guards per trial
_INTERVAL = (0.02, 0.25)  # shortest and longest time between two checks, seconds
# A lease lasts this many trials plus this many seconds.
_LEASE_TRIALS = 3
_LEASE_SECONDS = 10.0
_PATIENCE = 2.5  # longest wait for a report that is due, seconds


def refusing(process: Any, present: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the objects, by path, that refuse to have their settings changed, and why.

    present: current values of settings, by object path. Each object is asked to set these, under a
    lease that ends at once, so nothing changes. An object whose settings another agent holds does
    not count as refusing.
    """
    found = {}
    with process.session("leat-tune agent") as session:
        for path, values in present.items():
            try:
                session.set(path, values, lease=_LEASE_SECONDS)
            except Refused as e:
                if e.errno != errno.EBUSY:
                    found[path] = str(e)
        # With keep the leases end here. Otherwise the process would still restore the values, which
        # are the same, when the first trial begins, and refuse that.
        session.release(keep=True)
    return found


class Live:
    """A program under trial. At the end of its with block all settings have their former values."""

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
        #: settings of the last change whose effective value is not the requested one
        self.effective: dict[str, Any] = {}
        self._changed = False  # settings have, or may have, other values than at the start
        self._session = process.session("leat-tune agent")
        self._session.watch(self._interval, rows=False)

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # If the program does not answer, it restores its values itself when the session ends.
        try:
            if self._changed and not isinstance(value, TuneError):
                self.back()
        except TuneError:
            pass
        finally:
            self._session.close()

    def _set(self, config: Config) -> None:
        self._changed = True
        wanted = self.targets.space.values(config)
        self.effective = {}
        for path, change in self.targets.changes(wanted).items():
            answer = self._session.set(path, change, lease=self._lease)
            for name, value in answer.effective.items():
                if value != change[name]:
                    self.effective[f"{path}.{name}"] = value

    def back(self) -> None:
        """Restore the program's own values at once."""
        self._set(self.targets.space.start)
        self._changed = False

    def keep(self, config: Config) -> None:
        """Set these values without a lease: they stay."""
        self._set(config)
        self._session.release(keep=True)
        self._changed = False

    def _snapshot(self) -> dict[str, Any]:
        if not self._process.alive():
            raise Gone(f"process {self._process.pid} ({self._process.program}) ended")
        return objects(self._process.snapshot(rows=False))

    def trial(self, config: Config) -> Result:
        """Make a trial.

        Raises Refused if another agent holds a setting, Gone if the process ended, TimedOut if it
        does not answer.
        """
        try:
            self._set(config)
        except Refused as e:
            if e.errno == errno.EBUSY:
                raise
            self.back()
            return Result(None, words=str(e))
        first = self._after(self._snapshot(), time.monotonic() + self._warm_up)
        end = time.monotonic() + self._seconds
        broken = 0
        while (now := time.monotonic()) + self._interval < end:
            self._wait(now + self._interval)
            result = self._result(first, self._snapshot())
            broken = broken + 1 if result.excess else 0
            if broken >= 2:
                self.back()
                return result
        return self._result(first, self._after(first, end))

    def _after(self, old: dict[str, Any], end: float) -> dict[str, Any]:
        """Return a snapshot taken after end, once every measure has a report newer than old.

        It lacks reports that do not come within _PATIENCE after end.
        """
        self._wait(end)
        while True:
            new = self._snapshot()
            if self._reported(old, new) or time.monotonic() >= end + _PATIENCE:
                return new
            self._wait(time.monotonic() + self._interval)

    def _reported(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Whether every measure has a report in new that is newer than in old."""
        return all(measure.reported(old, new) for measure in self._measures.values())

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
                continue  # without a value the guard is not broken
            if not guard.holds(value):
                excess += guard.excess(value)
                words.append(f"{guard.text} broken: {value:.6g}")
        try:
            value = self._goal.value(found)
        except Missing as e:
            return Result(None, excess, "; ".join([*words, str(e)]), found)
        return Result(value if self._goal.maximum else -value, excess, "; ".join(words), found)
