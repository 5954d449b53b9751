# SPDX-License-Identifier: BSD-3-Clause
"""The interface of leat_channel.h for ctypes: constants, structures, functions.

It must agree with the header; test/python compares the two.
"""

from __future__ import annotations

import ctypes as c
import enum
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

SONAME = "libleat-channel.so.0"

PARTICIPANTS_MAX = 64
SIZE_MIN = 4096
SIZE_MAX = 1 << 30
HEADER = 16
DELIVERIES = 4
FOREVER = (1 << 64) - 1
DROPPED = 1
BURST = 64  # most frames per peek() or dispatch()


class Notify(enum.IntEnum):
    """How a participant notifies others of a new frame or of room."""

    FUTEX = 0
    NONE = 1
    EVENTFD = 2


class OnDeath(enum.IntEnum):
    """What happens to a frame whose reader died while holding it."""

    REDELIVER = 0
    DROP = 1


class Full(enum.IntEnum):
    """What a writer does when the channel has no room for a frame."""

    FAIL = 0
    WAIT = 1
    DROP_NEWEST = 2
    DROP_OLDEST = 3


class WaitHow(enum.IntEnum):
    """How a participant waits."""

    NOTIFY = 0
    SPIN = 1
    PAUSE = 2
    YIELD = 3
    SLEEP = 4


class Invalid(enum.IntEnum):
    """What a reader does with a frame whose header is invalid."""

    END = 0
    SKIP = 1


class ArmFor(enum.IntFlag):
    """What Channel.arm() watches: frames to read, room to write."""

    FRAMES = 1
    ROOM = 2


# In the order of enum leat_channel_counter.
COUNTERS = ("sent", "received", "full", "overwritten", "invalid", "aborted", "returned", "lost")


_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Raw(c.c_void_p):
    """A struct leat_channel *. It is closed when the last reference to this object goes away.

    Ownership begins inside the ctypes call that returns the handle, so that no interrupt can leak
    it. In the child of a fork the handle still belongs to the parent, and is not closed.

    consume_first and close_now are properties that call the library when they are read. Python
    handles signals after calls, but not after attribute access. The library call and the statements
    after it, up to the next call, are therefore all executed, or none is.
    """

    _made = -1
    consume_first: int  # both are properties that _Library sets
    close_now: None

    def adopt(self) -> None:
        self._made = _forks
        self._views: list[weakref.ref] = []

    def forked(self) -> bool:
        return self._made != _forks

    def hold(self) -> Hold:
        """Return an object that keeps the memory mapped; every view of the memory has one."""
        if len(self._views) > 64:
            self._views = [v for v in self._views if v() is not None]
        hold = Hold(self)
        self._views.append(weakref.ref(hold))
        return hold

    def viewed(self) -> bool:
        """Whether views of the memory still exist."""
        return any(v() is not None for v in self._views)

    def __del__(self) -> None:
        if self.value is not None and self._made in (-1, _forks) and _loaded is not None:
            _loaded.close(self)
            self.value = None


class Hold:
    """Keeps the channel's memory mapped while a view of it exists."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw


class Conf(c.Structure):
    """struct leat_channel_conf."""

    _fields_ = [
        ("size", c.c_uint64),
        ("participants", c.c_uint32),
        ("notify", c.c_uint),
        ("on_death", c.c_uint),
        ("start", c.c_uint64),
    ]


class Opts(c.Structure):
    """struct leat_channel_opts."""

    _fields_ = [
        ("full", c.c_uint),
        ("full_ns", c.c_uint64),
        ("wait", c.c_uint),
        ("invalid", c.c_uint),
        ("check_ms", c.c_uint32),
    ]


class CFrame(c.Structure):
    """struct leat_channel_frame."""

    _fields_ = [
        ("data", c.c_void_p),
        ("len", c.c_uint32),
        ("type", c.c_uint32),
        ("hash", c.c_uint64),
        ("redelivered", c.c_uint32),
    ]


class CSent(c.Structure):
    """struct leat_channel_sent."""

    _fields_ = [
        ("sent", c.c_uint),
        ("dropped", c.c_uint),
    ]


class CWho(c.Structure):
    """struct leat_channel_who."""

    _fields_ = [
        ("slot", c.c_uint32),
        ("pid", c.c_int32),
        ("start", c.c_uint64),
        ("generation", c.c_uint32),
        ("alive", c.c_bool),
        ("waiting", c.c_bool),
        ("count", c.c_uint64 * len(COUNTERS)),
    ]


class CInfo(c.Structure):
    """struct leat_channel_info."""

    _fields_ = [
        ("size", c.c_uint64),
        ("bytes", c.c_uint64),
        ("write", c.c_uint64),
        ("read", c.c_uint64),
        ("free", c.c_uint64),
        ("notify", c.c_uint),
        ("on_death", c.c_uint),
        ("ended", c.c_bool),
        ("reserved", c.c_uint32),
        ("committed", c.c_uint32),
        ("reading", c.c_uint32),
        ("returned", c.c_uint32),
        ("done", c.c_uint32),
        ("empty", c.c_uint32),
        ("participants", c.c_uint32),
        ("participants_max", c.c_uint32),
        ("count", c.c_uint64 * len(COUNTERS)),
        ("who", CWho * PARTICIPANTS_MAX),
    ]


_HANDLE = c.c_void_p
_FUNCTIONS = {
    # name: (result, arguments)
    "error": (c.c_char_p, []),
    "create": (Raw, [c.c_char_p, c.POINTER(Conf), c.POINTER(Opts)]),
    "open": (Raw, [c.c_char_p, c.POINTER(Opts)]),
    "unlink": (c.c_int, [c.c_char_p]),
    "memfd": (Raw, [c.POINTER(Conf), c.POINTER(Opts)]),
    "pass": (c.c_int, [_HANDLE, c.c_int]),
    "accept": (Raw, [c.c_int, c.POINTER(Opts)]),
    "join": (Raw, [_HANDLE, c.POINTER(Opts)]),
    "close": (None, [_HANDLE]),
    "max": (c.c_uint32, [_HANDLE]),
    "send": (c.c_int, [_HANDLE, c.c_uint32, c.c_uint64, c.c_void_p, c.c_uint32]),
    "send_frames": (c.c_int, [_HANDLE, c.POINTER(CFrame), c.c_uint, c.POINTER(CSent)]),
    "reserve": (c.c_int, [_HANDLE, c.c_uint32, c.c_uint64, c.c_uint32, c.POINTER(c.c_void_p)]),
    "reserved": (c.c_bool, [_HANDLE]),
    "commit": (c.c_int, [_HANDLE]),
    "abort": (c.c_int, [_HANDLE]),
    "terminate": (c.c_int, [_HANDLE]),
    "peek": (c.c_int, [_HANDLE, c.POINTER(CFrame), c.c_uint]),
    "held": (c.c_int, [_HANDLE, c.POINTER(CFrame), c.c_uint]),
    "consume": (c.c_int, [_HANDLE]),
    "consume_some": (c.c_int, [_HANDLE, c.c_uint]),
    "give_back": (c.c_int, [_HANDLE]),
    # A with statement appends __exit__'s three arguments, of which the library reads the first.
    "settle": (c.c_int, [_HANDLE, c.c_bool, c.c_void_p] + 3 * [c.py_object]),
    "wait": (c.c_int, [_HANDLE, c.c_uint64]),
    "wait_room": (c.c_int, [_HANDLE, c.c_uint32, c.c_uint64]),
    "fd": (c.c_int, [_HANDLE]),
    "arm": (c.c_int, [_HANDLE, c.c_uint, c.c_uint32]),
    "recover": (c.c_int, [_HANDLE]),
    "inspect": (c.c_int, [_HANDLE, c.POINTER(CInfo)]),
    "inspect_name": (c.c_int, [c.c_char_p, c.POINTER(CInfo)]),
}


class _Library:
    """The functions of libleat-channel without their prefix: lib.send, getattr(lib, "pass")."""

    def __init__(self, path: str) -> None:
        dll = c.CDLL(path, use_errno=True)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(dll, "leat_channel_" + name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        # As properties, so that reading an attribute calls them: see Raw.
        first = c.CFUNCTYPE(c.c_int, _HANDLE, c.c_uint)
        Raw.consume_first = property(  # type: ignore[assignment]
            first(("leat_channel_consume_some", dll), ((1, "ch"), (1, "n", 1)))
        )
        Raw.close_now = property(self.close)  # type: ignore[assignment]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


_lock = threading.Lock()
_loaded: _Library | None = None


def load(path: str | None = None) -> None:
    """Load the library from this path, or, without one, where the dynamic loader finds it.

    Only a library in an unusual place needs this call, before any other of the package: all others
    load the library without a path when they need it. Raises OSError if the library can't be
    loaded, or if a path is given and the library is loaded already.
    """
    global _loaded
    with _lock:
        if _loaded is not None:
            if path is not None:
                raise OSError("libleat-channel was loaded before")
            return
        try:
            _loaded = _Library(path if path is not None else SONAME)
        except OSError as e:
            raise OSError(
                f"{e}; is leat installed, and where the dynamic loader looks (ldconfig, "
                "LD_LIBRARY_PATH)? leat_channel.load(path) takes it from elsewhere"
            ) from None
        except AttributeError as e:
            raise OSError(f"not the libleat-channel that this module is for: {e}") from None


def library() -> _Library:
    """Return the library, loaded if necessary."""
    if _loaded is None:
        load()
    assert _loaded is not None
    return _loaded
