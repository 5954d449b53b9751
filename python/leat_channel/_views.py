# SPDX-License-Identifier: BSD-3-Clause
"""Frames where they lie, in shared memory.

    Channel --> Handle <-- Hold <-- array <-- memoryview (and whatever was sliced from it)

The memory is unmapped when the library closes its handle, and that waits for the last array over
the memory. So a view that outlives its Channel never points to nowhere: its content may be
anything, as others go on using the memory, but it is there.
"""

from __future__ import annotations

import ctypes as c
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._abi import _Library
    from ._channel import Channel

_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Handle:
    """A struct leat_channel. In the child of a fork it is the parent's still, and is not closed."""

    def __init__(self, library: _Library, ptr: int) -> None:
        self.ptr: int | None = ptr
        self.lock = threading.Lock()
        self.holds: set[int] = set()
        self._library = library
        self._left = False
        self._forks = _forks

    def forked(self) -> bool:
        return self._forks != _forks

    def leave(self) -> None:
        """Close it, now or when nothing is over the memory any more."""
        self._left = True
        self.close_if_free()

    def close_if_free(self) -> None:
        # Whatever thread comes here: what pops it closes it.
        if self._left and not self.holds and not self.forked():
            ptr = self.__dict__.pop("ptr", None)
            self.__dict__["ptr"] = None
            if ptr is not None:
                self._library.close(ptr)

    def __del__(self) -> None:
        self._left = True
        self.close_if_free()


class _Hold:
    """Of an array over the handle's memory."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        handle.holds.add(id(self))

    def __del__(self) -> None:
        self._handle.holds.discard(id(self))
        self._handle.close_if_free()


@functools.lru_cache(maxsize=256)
def _array_type(length: int):
    return c.c_ubyte * length


def view(handle: Handle, address: int, length: int) -> memoryview:
    array = _array_type(length).from_address(address)
    array.hold = _Hold(handle)
    return memoryview(array).cast("B")


def release(data: memoryview) -> None:
    try:
        data.release()
    except BufferError:
        pass  # numpy, say, has it still; the memory stays for it


class Frame(NamedTuple):
    """A frame: its data are bytes, or a memoryview while it lies in the channel."""

    type: int
    data: bytes | memoryview
    hash: int = 0


class Frames(Sequence):
    """Frames that Channel.peek() took; data are read-only memoryviews.

    They are this reader's until consume() or give_back(). As a context manager the one at the end of the
    block, the other one if it is left by an exception. What is in shared memory may be changed by
    those who share it: what is to be believed is copied first.
    """

    def __init__(self, channel: Channel, frames: list[Frame]) -> None:
        self._channel: Channel | None = channel
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index):
        return self._frames[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def consume(self) -> None:
        """Done with all of them."""
        self._end("consume")

    def give_back(self) -> None:
        """To other readers, or to this one again, out of order; dropped after DELIVERIES times."""
        self._end("give_back")

    def _end(self, how: str) -> None:
        if self._channel is None:
            raise ValueError("the frames were consumed or given back before")
        self._channel._finish(self, how)

    def _forget(self) -> None:
        self._channel = None
        for frame in self._frames:
            release(frame.data)
        self._frames = []

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, kind, value, trace) -> None:
        if self._channel is not None:
            self._end("consume" if kind is None else "give_back")


class Reservation:
    """A frame that Channel.reserve() reserved; data is a writable memoryview of it.

    commit() publishes it, abort() makes it empty. As a context manager, whose value is data, the one
    at the end of the block, the other one if it is left by an exception.
    """

    def __init__(self, channel: Channel, data: memoryview) -> None:
        self._channel: Channel | None = channel
        self.data = data

    def commit(self) -> None:
        """Publish it."""
        self._end("commit")

    def abort(self) -> None:
        """Make an empty frame of it, which no reader sees."""
        self._end("abort")

    def _end(self, how: str) -> None:
        if self._channel is None:
            raise ValueError("the frame was committed or aborted before")
        self._channel._finish(self, how)

    def _forget(self) -> None:
        self._channel = None
        release(self.data)

    def __enter__(self) -> memoryview:
        return self.data

    def __exit__(self, kind, value, trace) -> None:
        if self._channel is not None:
            self._end("commit" if kind is None else "abort")
