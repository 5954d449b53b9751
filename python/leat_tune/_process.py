# SPDX-License-Identifier: BSD-3-Clause
"""Find processes, and read the block of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ._block import Block
from ._dir import Directory, Entry, default_dir, locked, sweep_dir
from ._errors import Corrupt, Gone, TuneError
from ._snapshot import Snapshot, leases_of, objects_of

if TYPE_CHECKING:
    from ._session import Session

T = TypeVar("T")

HUNG_NS = 3_000_000_000  # age of a heartbeat from which the process counts as hung


class Process:
    """A leat process. It can be read even when it hangs, is stopped or has died.

    A Process is used by one thread at a time.
    """

    def __init__(self, directory: Directory, entry: Entry) -> None:
        """For this package only: use processes() or scan()."""
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
        self.protocol = head.protocol  #: hash of its protocol's messages
        self.path = os.path.join(directory.path, entry.name)  #: of its block

    def __repr__(self) -> str:
        return f"<Process {self.pid} {self.program}>"

    def close(self) -> None:
        """Release the block. The Process can't be used any more."""
        self._block.close()
        if self._directory is not None:
            self._directory.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_block"):
            self.close()

    def alive(self) -> bool:
        """Whether the process has not ended; it may hang, or be stopped."""
        return locked(self._fd())

    @property
    def hung(self) -> bool:
        """Whether its control thread was inactive for 3 s: the process is stopped, or has ended."""
        return time.monotonic_ns() - self._read(self._block.head).heartbeat_ns > HUNG_NS

    def _fd(self) -> int:
        if self._block.fd < 0:
            raise ValueError("the Process is closed")
        return self._block.fd

    def _read(self, read: Callable[[], T]) -> T:
        self._fd()
        try:
            return read()
        except Corrupt:
            # A block that changes during the read may look wrong once: read it again.
            for _ in range(2):
                try:
                    return read()
                except Corrupt:
                    pass
            raise

    def snapshot(self, rows: bool = True) -> Snapshot:
        """Return the current content of the block, without the process taking part.

        rows: with the rows of objects, if the process shows any. Raises Corrupt.
        """
        return self._read(lambda: self._snapshot(rows))

    def _snapshot(self, rows: bool) -> Snapshot:
        head = self._block.head()
        objects = objects_of(self._block.records(head, rows))
        leases = leases_of(self._block.leases(head), objects)
        changes = self._block.changes(head)
        return Snapshot(
            time.monotonic_ns(), head.heartbeat_ns, head.interval_ns, head.dropped, objects,
            changes, leases,
        )

    def session(self, name: str | None = None, timeout: float = 5.0) -> Session:
        """Begin a session.

        name is shown in the history and in leases; None: the name of this program. Raises Gone if
        the process has ended or accepts no sessions, TimedOut if it does not answer for timeout
        seconds.
        """
        from ._session import Session

        if not self.alive():
            raise Gone(f"process {self.pid} ({self.program}) has ended")
        return Session(self, name, timeout)


def scan(
    dir: str | os.PathLike[str] | None = None, *, all: bool = False
) -> tuple[list[Process], list[OSError]]:
    """Return the processes of a directory, and the errors of its files, such as corrupt blocks.

    dir: None: default_dir(); if it does not exist there are no processes. all: include processes
    that ended without removing their block. Raises DirError if others can access the directory.
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


def processes(dir: str | os.PathLike[str] | None = None, *, all: bool = False) -> list[Process]:
    """Return the processes of a directory, as scan() does, without the errors."""
    return scan(dir, all=all)[0]


def sweep(dir: str | os.PathLike[str] | None = None) -> int:
    """Remove the files of processes that ended without removing them. Return how many files."""
    try:
        directory = Directory(default_dir() if dir is None else dir)
    except FileNotFoundError:
        return 0
    with directory:
        return sweep_dir(directory)
