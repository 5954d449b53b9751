# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: OSErrors with the library's errno and message."""

from __future__ import annotations

import ctypes
import errno
import os

from ._abi import library


class ChannelError(OSError):
    """Base of all errors of the library; errno and strerror are set."""


class WouldBlock(ChannelError, BlockingIOError):
    """EAGAIN: no frame to read, no room to write, or the channel is still being created."""


class TimedOut(ChannelError, TimeoutError):
    """ETIMEDOUT: the time-out passed."""


class Terminated(ChannelError, BrokenPipeError):
    """ESHUTDOWN: the channel is terminated: nothing can be sent, or all frames are read."""


class Corrupt(ChannelError):
    """EPROTO: not a channel, or its memory is corrupt."""


class Busy(ChannelError):
    """EBUSY: frames are held, a frame is reserved, or another call of the Channel is under way."""


class Exists(ChannelError, FileExistsError):
    """EEXIST: the name is taken."""


class NotFound(ChannelError, FileNotFoundError):
    """ENOENT: there is no channel of this name."""


class Denied(ChannelError, PermissionError):
    """EACCES, EPERM: only the user who created a channel may open it."""


class Closed(ChannelError, ValueError):
    """EBADF: the Channel is closed, or this is the child of a fork."""


_CLASSES: dict[int, type[ChannelError]] = {
    errno.EAGAIN: WouldBlock,
    errno.ETIMEDOUT: TimedOut,
    errno.ESHUTDOWN: Terminated,
    errno.EPROTO: Corrupt,
    errno.EBUSY: Busy,
    errno.EEXIST: Exists,
    errno.ENOENT: NotFound,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EBADF: Closed,
}

# Errors for which the library sets no message, since they are frequent.
_WORDLESS = {
    errno.EAGAIN: "no frame there, or no room",
    errno.ETIMEDOUT: "not in time",
    errno.ESHUTDOWN: "terminated",
}


def error(number: int, words: str) -> ChannelError:
    """Return the exception of an errno, with this message."""
    return _CLASSES.get(number, ChannelError)(number, words)


def from_result(ret: int) -> ChannelError:
    """Return the exception for a negative errno that a library function returned."""
    words = _WORDLESS.get(-ret)
    return error(-ret, words if words is not None else _last_words(-ret))


def from_errno() -> ChannelError:
    """Return the exception for a constructor that returned NULL."""
    number = ctypes.get_errno()
    return error(number, _last_words(number))


def _last_words(number: int) -> str:
    words = library().error()
    return words.decode(errors="replace") if words else os.strerror(number)
