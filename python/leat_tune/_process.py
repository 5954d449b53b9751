# SPDX-License-Identifier: BSD-3-Clause
"""Processes: to find them, and to read what each of them shows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ._block import Block
from ._dir import Directory, Entry, default_dir, locked, sweep_dir
from ._errors import Corrupt, Gone, TuneError
from ._snapshot import Snapshot, leases_of, objects_of

if TYPE_CHECKING:
    from ._session import Session

HUNG_NS = 3_000_000_000  # so old a heartbeat says that the process does nothing any more


class Process:
    """A process that shows itself. It can be read when it hangs, was stopped, or died.

    Of one thread at a time.
    """

    def __init__(self, directory: Directory, entry: Entry) -> None:
        """Not to be called: processes() and scan() make Processes."""
        self._directory: Directory | None = None
        self._block = Block(directory.open(entry.name), entry.name)
        try:
            self._directory = directory.again()
            head = self._block.head()
            if (head.pid, head.instance) != (entry.pid, entry.instance):
                raise Corrupt(f"{entry.name}: the block of process {head.pid}")
            if head.uid != os.geteuid():
                raise Corrupt(f"{entry.name}: the block of uid {head.uid}")
        except BaseException:
            self.close()
            raise
        self._stem = entry.stem
        self._heartbeat_ns = head.heartbeat_ns
        self.pid = head.pid
        self.program = head.program
        self.instance = head.instance
        self.start = head.start_ns / 1e9  #: seconds since the epoch
        self.protocol = head.protocol  #: hash of the messages that it knows
        self.path = os.path.join(directory.path, entry.name)  #: of its block

    def __repr__(self) -> str:
        return f"<Process {self.pid} {self.program}>"

    def close(self) -> None:
        """Of no further use."""
        self._block.close()
        if self._directory is not None:
            self._directory.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_block"):
            self.close()

    def alive(self) -> bool:
        """It has not ended; but it may hang, or be stopped."""
        return locked(self._fd())

    @property
    def hung(self) -> bool:
        """Its control thread was not there for 3 s: the process is stopped, or ended."""
        return time.monotonic_ns() - self._read(self._block.head).heartbeat_ns > HUNG_NS

    def _fd(self) -> int:
        if self._block.fd < 0:
            raise ValueError("the Process is closed")
        return self._block.fd

    def _read(self, read):
        self._fd()
        try:
            return read()
        except Corrupt:
            # What changes meanwhile can look wrong once, and not again.
            for _ in range(2):
                try:
                    return read()
                except Corrupt:
                    pass
            raise

    def snapshot(self, rows: bool = True) -> Snapshot:
        """What it shows now. It neither waits for the process nor asks it for anything.

        Corrupt: the block can't be right. rows: of objects, too, where a process shows any.
        """
        return self._read(lambda: self._snapshot(rows))

    def _snapshot(self, rows: bool) -> Snapshot:
        head = self._block.head()
        objects = objects_of(self._block.records(head, rows))
        leases = leases_of(self._block.leases(head), objects)
        changes = self._block.changes(head)
        return Snapshot(
            time.monotonic_ns(), head.heartbeat_ns, head.interval_ns, head.dropped, objects, changes, leases
        )

    def session(self, name: str | None = None, timeout: float = 5.0) -> Session:
        """Begin to talk to it. name: for history and leases; None: the program's.

        Gone: it ended, or lets nobody in; TimedOut: it does not answer, for timeout seconds.
        """
        from ._session import Session

        if not self.alive():
            raise Gone(f"process {self.pid} ({self.program}) has ended")
        return Session(self, name, timeout)


def scan(dir: str | os.PathLike | None = None, *, all: bool = False) -> tuple[list[Process], list[OSError]]:
    """Processes in the directory, and what was wrong with files there: a corrupt block, say.

    all: those that ended without removing their block, too. DirError: the directory is not this user's alone. There
    are none where there is no directory of the default name.
    """
    try:
        directory = Directory(default_dir() if dir is None else dir)
    except FileNotFoundError as e:
        if dir is None:
            return [], []
        raise TuneError(e.errno, f"{os.fspath(dir)}: there is no such directory") from None
    found: list[Process] = []
    problems: list[OSError] = []
    with directory:
        for entry in directory.entries():
            if entry.kind != "block":
                continue
            try:
                process = Process(directory, entry)
            except FileNotFoundError:
                continue
            except OSError as e:
                problems.append(e)
                continue
            if all or process.alive():
                found.append(process)
            else:
                process.close()
    return found, problems


def processes(dir: str | os.PathLike | None = None, *, all: bool = False) -> list[Process]:
    """Processes in the directory; what scan() finds wrong is left out."""
    return scan(dir, all=all)[0]


def sweep(dir: str | os.PathLike | None = None) -> int:
    """Remove the files of processes that ended without doing so. How many files."""
    try:
        directory = Directory(default_dir() if dir is None else dir)
    except FileNotFoundError:
        return 0
    with directory:
        return sweep_dir(directory)
