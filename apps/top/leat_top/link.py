# SPDX-License-Identifier: BSD-3-Clause
"""Sessions with processes, each on its own thread: a process that does not answer delays no other.

    main thread                            thread of a process
    Link.watch(), Link.change()   --->     Session.watch(), Session.set()
    outcome, by a queue           <---     Answer, or why not
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import leat_tune

RETRY = 5.0  # seconds until a session that failed is tried again
ANSWER = 5.0  # seconds to wait for an answer


@dataclass(frozen=True)
class Change:
    """A change of settings to ask a process for."""

    key: tuple  # of the object, as the model has it
    path: str
    values: dict[str, str]
    lease: float | None


@dataclass(frozen=True)
class Outcome:
    change: Change
    effective: dict
    epoch: int
    refused: str  # why the change was refused; empty: it was made


class Link:
    """The session with one process. Its thread alone uses the process, and closes it."""

    def __init__(self, process: leat_tune.Process, done: Callable[[Outcome], None]) -> None:
        self.settled = threading.Event()  # set when the first request was handled
        self.trouble = ""  # why there is no session; read by the main thread
        self._process = process
        self._done = done
        self._asked: queue.SimpleQueue = queue.SimpleQueue()
        self._interval = 0.0
        self._session: leat_tune.Session | None = None
        # A daemon, since it may wait for a stopped process when the program ends.
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)
        self._thread.start()

    def watch(self, interval: float) -> None:
        self._asked.put(interval)

    def change(self, change: Change) -> None:
        self._asked.put(change)

    def close(self, wait: float = 0.0) -> None:
        self._asked.put(None)
        if wait:
            self._thread.join(wait)

    def _run(self) -> None:
        try:
            while self._serve():
                pass
        finally:
            self._end()
            self._process.close()

    def _serve(self) -> bool:
        try:
            # While there is no session, retry after RETRY.
            asked = self._asked.get(timeout=RETRY if self.trouble else None)
        except queue.Empty:
            asked = self._interval
        if asked is None:
            return False
        try:
            if isinstance(asked, Change):
                self._change(asked)
            else:
                self._interval = asked
                self._begin().watch(asked, rows=True)
            self.trouble = ""
        except (OSError, ValueError) as e:
            self._end()
            self.trouble = str(e)
        self.settled.set()
        return True

    def _begin(self) -> leat_tune.Session:
        if self._session is None:
            self._session = self._process.session("leat-top", timeout=ANSWER)
        return self._session

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _change(self, change: Change) -> None:
        try:
            fresh = self._session is None
            session = self._begin()
            if fresh and self._interval:
                session.watch(self._interval, rows=True)
            answer = session.set(change.path, change.values, change.lease)
        except (leat_tune.Refused, leat_tune.Unknown, ValueError) as e:
            self._done(Outcome(change, {}, 0, str(e)))
        except OSError as e:
            self._done(Outcome(change, {}, 0, str(e)))
            raise
        else:
            self._done(Outcome(change, answer.effective, answer.epoch, ""))
