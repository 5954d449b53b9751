# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions: OSErrors with the library's errno and words."""

from __future__ import annotations

import ctypes
import errno
import os

from ._abi import library


class ChannelError(OSError):
    """Of everything that the library refuses; errno and strerror are set."""


class WouldBlock(ChannelError, BlockingIOError):
    """EAGAIN: no frame there, no room; or the channel is still being made."""


class TimedOut(ChannelError, TimeoutError):
    """ETIMEDOUT"""


class Terminated(ChannelError, BrokenPipeError):
    """ESHUTDOWN: nothing can be sent any more; or all is read."""


class Corrupt(ChannelError):
    """EPROTO: not a channel, or its memory can't be right."""


class Busy(ChannelError):
    """EBUSY: frames are held, one is reserved, or another thread is in a call of the same Channel."""


class Exists(ChannelError, FileExistsError):
    """EEXIST"""


class NotFound(ChannelError, FileNotFoundError):
    """ENOENT"""


class Denied(ChannelError, PermissionError):
    """EACCES, EPERM: a channel is its maker's alone."""


class Closed(ChannelError, ValueError):
    """EBADF: the Channel, or what was had from it, is closed; or this is the child of a fork."""


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

# What comes often, or from a wait, has no words of its own in the library.
_WORDLESS = {
    errno.EAGAIN: "no frame there, or no room",
    errno.ETIMEDOUT: "not in time",
    errno.ESHUTDOWN: "terminated",
}


def error(number: int, words: str) -> ChannelError:
    return _CLASSES.get(number, ChannelError)(number, words)


def from_result(ret: int) -> ChannelError:
    """Of a function that returned a negative errno."""
    words = _WORDLESS.get(-ret)
    return error(-ret, words if words is not None else _last_words(-ret))


def from_errno() -> ChannelError:
    """Of a constructor that returned NULL."""
    number = ctypes.get_errno()
    return error(number, _last_words(number))


def _last_words(number: int) -> str:
    words = library().error()
    return words.decode(errors="replace") if words else os.strerror(number)
