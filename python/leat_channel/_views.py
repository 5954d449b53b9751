# SPDX-License-Identifier: BSD-3-Clause
"""Views of frames in shared memory.

    Channel --> Raw <-- Hold <-- array <-- memoryview (and slices of it)

The memory is unmapped when the library closes its handle, which happens only after the last array
over the memory is gone. A view that outlives its Channel therefore stays valid memory, though other
participants may overwrite its content.

__enter__ and __exit__ of a with block over frames run no Python code: both are properties whose
values are created, and called, in C. A KeyboardInterrupt is therefore raised before the block, in
it, or after the library has consumed, given back, committed or aborted the frames: never half-way.
"""

from __future__ import annotations

import ctypes as c
import errno
import functools
import operator
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ._errors import from_result

if TYPE_CHECKING:
    from ._abi import Hold, Raw
    from ._channel import Channel


@functools.lru_cache(maxsize=256)
def _array_type(length: int) -> Any:
    return c.c_ubyte * length


def view(hold: Hold, address: int, length: int) -> memoryview:
    """Return a writable view of shared memory, which keeps the memory mapped through hold."""
    array = _array_type(length).from_address(address)
    array.hold = hold
    return memoryview(array).cast("B")


def release(data: memoryview) -> None:
    """Release a view, so that its owner can't use it any more."""
    try:
        data.release()
    except BufferError:
        pass  # another object, such as a numpy array, uses the view: view and memory stay


class Frame(NamedTuple):
    """A frame. data is bytes, or a memoryview while the frame is in shared memory."""

    type: int
    data: bytes | memoryview
    hash: int = 0
    #: how many readers took the frame before, and died or gave it back; ignored by send_burst()
    redelivered: int = 0


class Sent(int):
    """Result of Channel.send_burst(): how many frames, from the first on, were sent or dropped."""

    sent: int  #: how many of them were sent
    dropped: int  #: how many of them were dropped, since the channel was full

    def __new__(cls, sent: int, dropped: int) -> Sent:
        self = super().__new__(cls, sent + dropped)
        self.sent = sent
        self.dropped = dropped
        return self

    def __repr__(self) -> str:
        return f"Sent(sent={self.sent}, dropped={self.dropped})"


class _InC(property):
    """__enter__ or __exit__: a property whose getter, in C, returns what is then called."""

    def __call__(self, obj: Any, *args: Any) -> Any:
        # contextlib.ExitStack gets the method from the class, and calls it with the object.
        return self.__get__(obj)(*args)


class Box(c.c_void_p):
    """The library's handle in a Frames or Reservation object; None after this has ended."""

    owner: weakref.ref[_InHand]


def _settled(result: int, _: object, args: tuple[Any, ...]) -> None:
    """Forget the Frames or Reservation that the library has ended: errcheck of settle."""
    box = args[0]
    owner = box.owner()
    if owner is not None:
        owner._forget()
    if result < 0 and result != -errno.EINVAL:
        raise from_result(result)
    # Return None: __exit__ does not suppress an exception of the block.


class _InHand:
    """Base of Frames and Reservation."""

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
        self._channel._finish(self, good)  # type: ignore[arg-type]

    def _forget(self) -> None:
        # If this is interrupted, Channel._settle() repeats it.
        self._box.value = None
        self._release()
        channel = self._channel
        if channel is not None:
            channel._ended(self)  # type: ignore[arg-type]
        self._channel = None

    def _release(self) -> None:
        raise NotImplementedError

    # For type checkers: both are in fact properties.
    if TYPE_CHECKING:

        def __exit__(
            self,
            kind: type[BaseException] | None,
            value: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    else:
        __exit__ = _InC(operator.attrgetter("_exit"))


class Frames(_InHand, Sequence[Frame]):
    """Frames that Channel.peek() took. Their data are read-only memoryviews.

    They belong to this reader until consume() or give_back(). A with block consumes them at its
    end, and gives them back if an exception leaves the block. Other participants can change shared
    memory: copy data before validating it.
    """

    _what = "the frames were consumed or given back before"

    def __init__(self, channel: Channel, raw: Raw, frames: list[Frame]) -> None:
        super().__init__(channel, raw)
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index: int | slice) -> Frame | list[Frame]:
        return self._frames[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def consume(self) -> None:
        """Remove all of the frames from the channel."""
        self._end(True)

    def give_back(self) -> None:
        """Give the frames back, to other readers or to this one again, out of order.

        A frame that was delivered DELIVERIES times is dropped.
        """
        self._end(False)

    def _release(self) -> None:
        for frame in self._frames:
            release(frame.data)  # type: ignore[arg-type]
        self._frames = []

    if TYPE_CHECKING:

        def __enter__(self) -> Frames: ...

    else:
        __enter__ = _InC(weakref.ref)


class Reservation(_InHand):
    """A frame that Channel.reserve() reserved. data is a writable memoryview of its payload.

    commit() publishes it, abort() makes it empty. A with block, whose value is data, commits at its
    end, and aborts if an exception leaves the block.
    """

    _what = "the frame was committed or aborted before"
    _reserved = True

    def __init__(self, channel: Channel, raw: Raw, data: memoryview) -> None:
        super().__init__(channel, raw)
        self.data = data
        self._enter = weakref.ref(data)

    def commit(self) -> None:
        """Publish the frame."""
        self._end(True)

    def abort(self) -> None:
        """Publish an empty frame in its place, which no reader sees."""
        self._end(False)

    def _release(self) -> None:
        release(self.data)

    if TYPE_CHECKING:

        def __enter__(self) -> memoryview: ...

    else:
        __enter__ = _InC(operator.attrgetter("_enter"))
