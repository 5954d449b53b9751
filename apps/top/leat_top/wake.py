# SPDX-License-Identifier: BSD-3-Clause
"""A wait that signals and other threads can end."""

from __future__ import annotations

import os
import select
import signal
import time

_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Wake:
    """Signal handlers, and a pipe that they and other threads write to."""

    def __init__(self) -> None:
        self.stop = 0  # the signal that ends the program
        self.resized = False
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict = {}

    def __enter__(self) -> Wake:
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _STOP:
            self._before[number] = signal.signal(number, self._stopped)
        self._before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._winch)
        return self

    def __exit__(self, kind, value, trace) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stopped(self, number, frame) -> None:
        self.stop = number

    def _winch(self, number, frame) -> None:
        self.resized = True

    def notify(self) -> None:
        """End the wait, from any thread."""
        try:
            os.write(self._write, b"\0")
        except BlockingIOError:
            pass  # the pipe is full of earlier notifications

    def wait(self, until: float, terminal: bool = False) -> bool:
        """Wait until this time (time.monotonic()), a notification, or, with terminal, a key.

        Return False when the terminal has been closed.
        """
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        if terminal:
            poll.register(0, select.POLLIN)
        left = max(until - time.monotonic(), 0.0)
        # Round up: otherwise the last millisecond is spent in repeated calls.
        events = dict(poll.poll(int(left * 1000) + 1 if left else 0))
        if self._read in events:
            try:
                os.read(self._read, 4096)
            except BlockingIOError:
                pass
        return not events.get(0, 0) & (select.POLLHUP | select.POLLERR | select.POLLNVAL)

    def end(self) -> int:
        """Return the exit code. After SIGTERM or SIGHUP end by that signal, as expected."""
        if self.stop == signal.SIGINT:
            return 130
        if self.stop:
            signal.signal(self.stop, signal.SIG_DFL)
            signal.raise_signal(self.stop)
        return 0
