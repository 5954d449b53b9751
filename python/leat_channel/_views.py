# SPDX-License-Identifier: BSD-3-Clause
"""Frames where they lie, in shared memory.

    Channel --> Raw <-- Hold <-- array <-- memoryview (and whatever was sliced from it)

The memory is unmapped when the library closes its handle, and that waits for the last array over
the memory. So a view that outlives its Channel never points to nowhere: its content may be
anything, as others go on using the memory, but it is there.

A with block over frames begins and ends without a step of Python: __enter__ and __exit__ are properties
whose values are made, and called, in C. So a KeyboardInterrupt comes before, in the block, or when the library
has ended what was in hand; there is no moment at which it would not.
"""

from __future__ import annotations

import ctypes as c
import errno
import functools
import operator
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ._errors import from_result

if TYPE_CHECKING:
    from ._abi import Hold, Raw
    from ._channel import Channel


@functools.lru_cache(maxsize=256)
def _array_type(length: int):
    return c.c_ubyte * length


def view(hold: Hold, address: int, length: int) -> memoryview:
    array = _array_type(length).from_address(address)
    array.hold = hold
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
    redelivered: int = 0  # how many readers had it before, and died or gave it back; not looked at when sent


class Sent(int):
    """What Channel.send_burst() did: how many frames it is done with, from the first on."""

    sent: int  #: of them
    dropped: int  #: of them, as full wants it

    def __new__(cls, sent: int, dropped: int) -> Sent:
        self = super().__new__(cls, sent + dropped)
        self.sent = sent
        self.dropped = dropped
        return self

    def __repr__(self) -> str:
        return f"Sent(sent={self.sent}, dropped={self.dropped})"


class _InC(property):
    """A method of a with block, by a function of C that gives what is to be called; see above."""

    def __call__(self, obj, *args):
        # contextlib.ExitStack takes the method from the class.
        return self.__get__(obj)(*args)


class Box(c.c_void_p):
    """The library's handle as what is in hand knows it: None when that was ended."""


def _settled(result: int, _, args):
    """The library has ended what was in hand: so have we."""
    box = args[0]
    owner = box.owner()
    if owner is not None:
        owner._forget()
    if result < 0 and result != -errno.EINVAL:
        raise from_result(result)
    # None: an exception goes on


class _InHand:
    """What Frames and Reservation share."""

    _what = ""
    _reserved = False

    def __init__(self, channel: Channel, raw: Raw) -> None:
        self._channel: Channel | None = channel
        self._box = Box(raw.value)
        self._box.owner = weakref.ref(self)
        self._exit = functools.partial(
            channel._lib.settle, self._box, self._reserved, id(None)
        )

    def _end(self, good: bool) -> None:
        if self._channel is None:
            raise ValueError(self._what)
        self._channel._finish(self, good)

    def _forget(self) -> None:
        # Interrupted, it is done again: Channel._settle().
        self._box.value = None
        self._release()
        channel = self._channel
        if channel is not None:
            channel._ended(self)
        self._channel = None

    def _release(self) -> None:
        raise NotImplementedError

    __exit__ = _InC(operator.attrgetter("_exit"))


class Frames(_InHand, Sequence):
    """Frames that Channel.peek() took; data are read-only memoryviews.

    They are this reader's until consume() or give_back(). As a context manager the one at the end of the
    block, the other one if it is left by an exception. What is in shared memory may be changed by
    those who share it: what is to be believed is copied first.
    """

    _what = "the frames were consumed or given back before"

    def __init__(self, channel: Channel, raw: Raw, frames: list[Frame]) -> None:
        super().__init__(channel, raw)
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index):
        return self._frames[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def consume(self) -> None:
        """Done with all of them."""
        self._end(True)

    def give_back(self) -> None:
        """To other readers, or to this one again, out of order; dropped after DELIVERIES times."""
        self._end(False)

    def _release(self) -> None:
        for frame in self._frames:
            release(frame.data)
        self._frames = []

    __enter__ = _InC(weakref.ref)


class Reservation(_InHand):
    """A frame that Channel.reserve() reserved; data is a writable memoryview of it.

    commit() publishes it, abort() makes it empty. As a context manager, whose value is data, the one
    at the end of the block, the other one if it is left by an exception.
    """

    _what = "the frame was committed or aborted before"
    _reserved = True

    def __init__(self, channel: Channel, raw: Raw, data: memoryview) -> None:
        super().__init__(channel, raw)
        self.data = data
        self._enter = weakref.ref(data)

    def commit(self) -> None:
        """Publish it."""
        self._end(True)

    def abort(self) -> None:
        """Make an empty frame of it, which no reader sees."""
        self._end(False)

    def _release(self) -> None:
        release(self.data)

    __enter__ = _InC(operator.attrgetter("_enter"))
