# SPDX-License-Identifier: BSD-3-Clause
"""The directory of a user's leat processes.

    DIR/PID-INSTANCE.block      measurements; its process holds a lock on the whole file
    DIR/PID-INSTANCE.sock       the socket at which sessions begin

The directory is opened once, checked, and all files in it are opened relative to its descriptor. A
later change of what its name refers to has no effect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from ._errors import Corrupt, DirError, TuneError

NAMES_MAX = 65536  # most files of a directory

_FILE = re.compile(r"([1-9][0-9]{0,9})-([0-9a-f]{16})\.(block|sock)\Z")
_FLOCK = struct.Struct("@hh4xqqi4x")


def default_dir() -> str:
    """Return the directory that this user's processes use by default."""
    uid = os.geteuid()
    run = f"/run/user/{uid}"
    try:
        st = os.lstat(run)
        if stat.S_ISDIR(st.st_mode) and st.st_uid == uid and not st.st_mode & 0o022:
            return f"{run}/leat"
    except OSError:
        pass
    return f"/dev/shm/leat-{uid}" if os.path.isdir("/dev/shm") else f"/tmp/leat-{uid}"


@dataclass(frozen=True)
class Entry:
    """A file of a process, as its name describes it."""

    name: str
    pid: int
    instance: int
    kind: str  # "block" or "sock"

    @property
    def stem(self) -> str:
        """The name without its extension."""
        return self.name.rsplit(".", 1)[0]


class Directory:
    """A directory that only this user can access.

    Raises DirError if others can, FileNotFoundError if there is no directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.fd = -1
        self.path = os.fspath(path)
        # With a trailing slash, open() would follow a link in spite of O_NOFOLLOW.
        name = self.path.rstrip("/") or "/"
        try:
            self.fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as e:
            if e.errno in (errno.ELOOP, errno.ENOTDIR):
                what = "a symbolic link" if os.path.islink(name) else "not a directory"
                raise DirError(e.errno, f"{self.path}: {what}") from None
            raise DirError(e.errno, f"{self.path}: {os.strerror(e.errno)}") from None
        st = os.fstat(self.fd)
        if st.st_uid != os.geteuid():
            self.close()
            raise DirError(
                errno.EACCES, f"{self.path}: owned by uid {st.st_uid}, not by {os.geteuid()}"
            )
        if st.st_mode & 0o077:
            mode = stat.S_IMODE(st.st_mode)
            self.close()
            raise DirError(
                errno.EACCES, f"{self.path}: mode {mode:04o} lets others in; chmod 700 it"
            )

    def again(self) -> Directory:
        """Return another object for the same directory, even if it was renamed."""
        other = Directory.__new__(Directory)
        other.path = self.path
        other.fd = os.dup(self.fd)
        return other

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def entries(self) -> list[Entry]:
        """Return the files of processes, sorted; other files are ignored."""
        found = []
        with os.scandir(self.fd) as names:
            for n, one in enumerate(names):
                if n == NAMES_MAX:
                    raise TuneError(errno.E2BIG, f"{self.path}: more than {NAMES_MAX} files")
                match = _FILE.match(one.name)
                if match and int(match[1]) < 1 << 31:
                    found.append(Entry(one.name, int(match[1]), int(match[2], 16), match[3]))
        return sorted(found, key=lambda e: (e.pid, e.instance, e.kind))

    def open(self, name: str) -> int:
        """Open a block and return its descriptor.

        Raises Corrupt if it is not a file that only this user can access, FileNotFoundError if it
        was removed.
        """
        try:
            # O_NONBLOCK: opening a FIFO must not block.
            fd = os.open(
                name,
                os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC,
                dir_fd=self.fd,
            )
        except FileNotFoundError:
            raise
        except OSError as e:
            what = "a symbolic link" if e.errno == errno.ELOOP else os.strerror(e.errno)
            raise Corrupt(f"{name}: {what}") from None
        problem = _problem(os.fstat(fd), stat.S_ISREG, "a regular file")
        if problem:
            os.close(fd)
            raise Corrupt(f"{name}: {problem}")
        return fd

    def connect_path(self, name: str) -> str:
        """Return a path for connect(2): through /proc, since the socket's own path may be too long.

        Raises Corrupt if it is not a socket of this user.
        """
        st = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        problem = _problem(st, stat.S_ISSOCK, "a socket", mode=False)
        if problem:
            raise Corrupt(f"{name}: {problem}")
        return f"/proc/self/fd/{self.fd}/{name}"

    def remove(self, name: str) -> bool:
        """Remove a file; return whether it existed."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            return False
        return True


def _problem(
    st: os.stat_result, is_kind: Callable[[int], bool], kind: str, mode: bool = True
) -> str | None:
    if not is_kind(st.st_mode):
        return f"not {kind}"
    if st.st_uid != os.geteuid():
        return f"owned by uid {st.st_uid}"
    if mode and st.st_mode & 0o077:
        return f"mode {stat.S_IMODE(st.st_mode):04o} lets others in"
    return None


def locked(fd: int) -> bool:
    """Whether a process holds the lock on the file, that is, is alive."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    return _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK


def sweep_dir(directory: Directory) -> int:
    """Remove the files of dead processes. Return how many were removed.

    A process locks its block before it gives the file its name, so the process of an unlocked block
    has ended. A process names the block before it creates the socket, and removes the socket before
    the block, so a socket without a block has no process either.
    """
    removed = 0
    for e in directory.entries():
        if e.kind == "sock":
            try:
                os.stat(e.stem + ".block", dir_fd=directory.fd, follow_symlinks=False)
            except FileNotFoundError:
                removed += directory.remove(e.name)
            continue
        try:
            fd = directory.open(e.name)
        except (FileNotFoundError, Corrupt):
            continue  # removed meanwhile, or not a file of this user
        try:
            dead = not locked(fd)
        finally:
            os.close(fd)
        if dead:
            removed += directory.remove(e.stem + ".sock") + directory.remove(e.name)
    return removed
