# SPDX-License-Identifier: BSD-3-Clause
"""The Channel class.

A KeyboardInterrupt may be raised between any two steps of this module, but never inside a call of
the library. Therefore the library keeps the state that matters: which frames are held, which one is
reserved. A method sets _unsettled before it changes that state. The next method that finds
_unsettled set asks the library what the state is (_settle()). Frames that the library holds and
that no caller has received belong to a peek() or recv() that was interrupted; the next peek() or
recv() returns them.

A method that returns a taken frame, or consumes one, makes no call after that step, because Python
handles signals after calls. CPython has done so since 3.11, though the language does not promise
it. In other interpreters an interrupted recv() keeps its frame for the next recv().
"""

from __future__ import annotations

import ctypes as c
import errno
import operator
import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _abi
from ._errors import WouldBlock, error, from_errno, from_result
from ._info import Info, info_of
from ._views import Frame, Frames, Reservation, Sent, _settled, release, view

if TYPE_CHECKING:
    import socket

# Signals do not end the library's waits: seconds of each wait, after which Python checks for
# Ctrl-C.
_SLICE = 0.1
_NS = 1_000_000_000
_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1


def _uint(value: int, most: int, what: str) -> int:
    value = operator.index(value)
    if not 0 <= value <= most:
        raise ValueError(f"{what}: {value} is out of range (0 to {most})")
    return value


def _name(name: str | bytes) -> bytes:
    raw = os.fsencode(name)
    if b"\0" in raw:
        raise ValueError("the name has a NUL in it")
    return raw


def _end(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not timeout >= 0:
        raise ValueError(f"timeout: {timeout} is not a number of seconds from 0")
    return time.monotonic() + timeout


def _bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def _conf(
    size: int, participants: int, notify: _abi.Notify, on_death: _abi.OnDeath, start: int
) -> _abi.Conf:
    return _abi.Conf(
        _uint(size, _U64, "size"),
        _uint(participants, _U32, "participants"),
        _abi.Notify(notify),
        _abi.OnDeath(on_death),
        _uint(start, _U64, "start"),
    )


class _Options:
    """How a participant behaves: keyword arguments of each constructor of Channel.

    full          what to do when there is no room for a frame
    full_timeout  with Full.WAIT: longest wait for room, seconds (None: no limit)
    wait          how to wait
    invalid       what to do with a frame whose header is invalid
    check_ms      while waiting, check every check_ms whether a participant died; 0: 10
    """

    def __init__(
        self,
        full: _abi.Full = _abi.Full.FAIL,
        full_timeout: float | None = None,
        wait: _abi.WaitHow = _abi.WaitHow.NOTIFY,
        invalid: _abi.Invalid = _abi.Invalid.END,
        check_ms: int = 0,
    ) -> None:
        full = _abi.Full(full)
        _end(full_timeout)
        self.waits = full == _abi.Full.WAIT
        self.full_timeout = full_timeout
        # Python waits for room itself, so that a signal can end the wait.
        self.raw = _abi.Opts(
            _abi.Full.FAIL if self.waits else full,
            0,
            _abi.WaitHow(wait),
            _abi.Invalid(invalid),
            _uint(check_ms, _U32, "check_ms"),
        )


class Channel:
    """A participant of a channel. It writes, reads, or does both.

        with Channel.create("/watch") as ch:            with Channel.open("/watch") as ch:
            ch.send(1, b"hello")                            for frame in ch:
            ch.terminate()                                      print(frame.type, frame.data)

    A Channel is used by one thread at a time; every other thread calls join() to get its own. When
    two threads are in a call at once, the second one's call raises Busy. In the child of a fork
    every call raises Closed.

    timeout is in seconds; None: no limit, 0: do not wait.

    A KeyboardInterrupt, or another exception of a signal handler, may be raised at any time. It
    does not lose frames: a frame that was sent stays sent, and a frame that an interrupted recv()
    or peek() had taken is returned by the next recv() or peek().
    """

    def __init__(self, raw: _abi.Raw, options: _Options) -> None:
        """For this module only: use create(), open(), memfd(), accept() or join()."""
        if not raw:
            raise from_errno()
        raw.adopt()
        self._raw: _abi.Raw | None = raw
        self._lib = _abi.library()
        self._lib.settle.errcheck = _settled
        self._options = options
        self._caller: dict[int, list[int]] = {}
        self._unsettled = False
        self._interrupted = False  # the library holds frames that no caller has
        self._frames: Frames | None = None
        self._reservation: Reservation | None = None
        # The frame of an interrupted recv(), and the number of frames held then, this one included.
        self._kept: tuple[Frame, int] | None = None
        self.max = self._lib.max(raw)  #: largest payload of a frame, bytes

    # ---- create, open, close ----

    @classmethod
    def create(
        cls,
        name: str | bytes,
        *,
        size: int = 0,
        participants: int = 0,
        notify: _abi.Notify = _abi.Notify.FUTEX,
        on_death: _abi.OnDeath = _abi.OnDeath.REDELIVER,
        start: int = 0,
        **options: Any,
    ) -> Channel:
        """Create a channel in POSIX shared memory, and join it. Raises Exists if the name is taken.

        name          as for shm_open(3): "/watch"
        size          bytes of the buffer, a power of two from SIZE_MIN to SIZE_MAX; 0: 1 MiB
        participants  at most, 1 to 64; 0: 64
        start         first position, for tests
        options       keywords: full, full_timeout, wait, invalid, check_ms
        """
        o = _Options(**options)
        conf = _conf(size, participants, notify, on_death, start)
        return cls(_abi.library().create(_name(name), conf, o.raw), o)

    @classmethod
    def open(cls, name: str | bytes, **options: Any) -> Channel:
        """Join an existing channel; options as in create().

        Raises NotFound, Corrupt, Denied, or WouldBlock while the channel is still being created.
        """
        o = _Options(**options)
        return cls(_abi.library().open(_name(name), o.raw), o)

    @classmethod
    def memfd(
        cls,
        *,
        size: int = 0,
        participants: int = 0,
        notify: _abi.Notify = _abi.Notify.FUTEX,
        on_death: _abi.OnDeath = _abi.OnDeath.REDELIVER,
        start: int = 0,
        **options: Any,
    ) -> Channel:
        """Create a channel without a name, for pass_to(), and join it; arguments as in create()."""
        o = _Options(**options)
        conf = _conf(size, participants, notify, on_death, start)
        return cls(_abi.library().memfd(conf, o.raw), o)

    @classmethod
    def accept(
        cls, sock: socket.socket | int, *, timeout: float | None = None, **options: Any
    ) -> Channel:
        """Receive a channel that pass_to() sent over a connected UNIX socket, and join it.

        sock is a socket or its descriptor; options as in create(). Raises TimedOut.
        """
        o = _Options(**options)
        fd = sock if isinstance(sock, int) else sock.fileno()
        end = _end(timeout)
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        if not poller.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
            raise error(errno.ETIMEDOUT, "no channel came over the socket")
        return cls(_abi.library().accept(fd, o.raw), o)

    def pass_to(self, sock: socket.socket | int) -> None:
        """Send this channel, created by memfd(), over a connected UNIX socket or its descriptor."""
        fd = sock if isinstance(sock, int) else sock.fileno()
        raw = self._begin()
        try:
            self._checked(getattr(self._lib, "pass")(raw, fd))
        finally:
            self._leave()

    def join(self, **options: Any) -> Channel:
        """Return another participant of the same channel, for another thread."""
        o = _Options(**options)
        raw = self._begin()
        try:
            return type(self)(self._lib.join(raw, o.raw), o)
        finally:
            self._leave()

    def close(self) -> None:
        """Leave the channel. A second close() does nothing.

        A reserved frame is aborted, and peeked frames are given back. While the program still has a
        view of the memory, such as a slice of a frame's data, the participant's slot stays taken.
        """
        raw = self._raw
        if raw is None:
            return
        if raw.forked() or raw.value is None:
            self._raw = None
            return
        raw = self._begin()
        try:
            for pending in (self._frames, self._reservation):
                if pending is not None:
                    pending._forget()
            if self._lib.held(raw, None, 0) > 0:
                self._lib.give_back(raw)
            if self._lib.reserved(raw):
                self._lib.abort(raw)
            if not raw.viewed():
                raw.close_now
                raw.value = None
            self._raw = None
        finally:
            self._leave()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._raw is None

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> _abi.Raw:
        """Begin a call, which lasts until _leave(): return the library's handle, settled.

        Raises Busy while another call is under way, and Closed.
        """
        raw = self._raw
        if raw is None:
            raise error(errno.EBADF, "the channel is closed")
        if raw.forked():
            raise error(errno.EBADF, "a channel is of no use in the child of a fork: open it there")
        mine = [threading.get_ident()]
        while (caller := self._caller.setdefault(0, mine)) is not mine:
            with _stale:
                if self._caller.get(0) is not caller:
                    continue
                if self._calls(caller[0], mine[0]):
                    raise error(
                        errno.EBUSY, "another call is under way; threads join() for themselves"
                    )
                # An exception ended the caller's method before _leave(): remove the old entry.
                self._caller.pop(0, None)
        # Another thread, or a copy of this object, may have closed the channel meanwhile.
        if self._raw is None or raw.value is None:
            self._leave()
            raise error(errno.EBADF, "the channel is closed")
        if self._unsettled:
            self._settle(raw)
        return raw

    def _leave(self) -> None:
        self._caller.pop(0, None)

    def _calls(self, ident: int, me: int) -> bool:
        """Whether the thread is in a method of this Channel, according to its stack.

        The entry in _caller does not tell: an exception may have kept _leave() from removing it.
        """
        # Skip the frames of this function, of _begin() and of the method that called _begin().
        frame = sys._getframe(3) if ident == me else sys._current_frames().get(ident)
        while frame is not None:
            if frame.f_code in _METHODS and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _settle(self, raw: _abi.Raw) -> None:
        """Bring this object's state in line with the library's, after a step or an interrupt."""
        held = self._lib.held(raw, None, 0)
        reserved = self._lib.reserved(raw)
        if self._frames is not None and (held == 0 or self._frames._box.value is None):
            self._frames._forget()
            self._frames = None
        if self._reservation is not None and (not reserved or self._reservation._box.value is None):
            self._reservation._forget()
            self._reservation = None
        if self._reservation is None and reserved:
            self._lib.abort(raw)
        if self._kept is not None and self._kept[1] == held:
            self._kept = None  # not consumed: the library still holds the frame
        self._interrupted = held > 0 and self._frames is None
        self._unsettled = (
            held > 0 or self._reservation is not None or self._kept is not None
        )

    def _ended(self, pending: Frames | Reservation) -> None:
        if self._frames is pending:
            self._frames = None
        if self._reservation is pending:
            self._reservation = None

    @staticmethod
    def _checked(ret: int) -> int:
        if ret < 0:
            raise from_result(ret)
        return ret

    @staticmethod
    def _await(call: Callable[[int], int], end: float | None) -> int:
        """Repeat call(ns) in slices, until it does not time out, or until end."""
        while True:
            left = _SLICE if end is None else min(_SLICE, max(0.0, end - time.monotonic()))
            ret = call(int(left * _NS))
            if ret != -errno.ETIMEDOUT or (end is not None and time.monotonic() >= end):
                return ret

    # ---- writing ----

    def _with_room(
        self, raw: _abi.Raw, length: int, end: float | None, call: Callable[[], int]
    ) -> int:
        """Send by call(). With Full.WAIT first wait for room, and repeat both until end."""
        if not self._options.waits:
            return call()
        length = min(length, _U32)
        while True:
            ret = self._await(lambda ns: self._lib.wait_room(raw, length, ns), end)
            if ret == -errno.ETIMEDOUT:
                return -errno.EAGAIN
            if ret == 0:
                ret = call()
            # Other writers may take the room each time: then the time-out ends this loop.
            if ret != -errno.EAGAIN or (end is not None and time.monotonic() >= end):
                return ret

    def send(self, type: int, data: Any, hash: int = 0) -> bool:
        """Send a frame. Return False if it was dropped (Full.DROP_NEWEST).

        type is 1 or more; data is bytes or another buffer, of 1 to max bytes. Raises WouldBlock
        when there is no room, and Terminated.
        """
        kind = _uint(type, _U32, "type")
        tag = _uint(hash, _U64, "hash")
        payload = _bytes(data)
        length = min(len(payload), _U32)
        end = _end(self._options.full_timeout)
        raw = self._begin()
        try:
            ret = self._with_room(
                raw, length, end, lambda: self._lib.send(raw, kind, tag, payload, length)
            )
            return self._checked(ret) != _abi.DROPPED
        finally:
            self._leave()

    def send_burst(self, frames: Iterable[Frame | tuple[Any, ...]]) -> Sent:
        """Send frames, each a Frame, (type, data) or (type, data, hash), in one step if they fit.

        Return a Sent: how many frames, from the first on, were sent or dropped, and the number of
        each. A frame for which there is no room, or which is invalid, ends the call: the frames
        from this one on are not counted. If it is the first frame, raise as send() does.
        full_timeout is for all frames together.
        """
        items = [Frame(*f) for f in frames]
        if not items:
            return Sent(0, 0)
        payloads = [_bytes(f.data) for f in items]
        array = (_abi.CFrame * len(items))()
        for to, f, data in zip(array, items, payloads):
            to.data = c.cast(c.c_char_p(data), c.c_void_p)
            to.len = min(len(data), _U32)
            to.type = _uint(f.type, _U32, "type")
            to.hash = _uint(f.hash, _U64, "hash")
        sent = dropped = 0
        end = _end(self._options.full_timeout)
        raw = self._begin()
        try:
            while sent + dropped < len(items):
                at = sent + dropped
                done = _abi.CSent()
                rest = c.cast(c.byref(array, at * c.sizeof(_abi.CFrame)), c.POINTER(_abi.CFrame))

                def call() -> int:
                    ret = self._lib.send_frames(raw, rest, len(items) - at, done)
                    return ret if done.sent + done.dropped == 0 else 0

                ret = self._with_room(raw, array[at].len, end, call)
                if ret < 0 and at == 0:
                    raise from_result(ret)
                sent += done.sent
                dropped += done.dropped
                if ret < 0 or not self._options.waits:
                    break
            return Sent(sent, dropped)
        finally:
            self._leave()

    def reserve(self, type: int, length: int, hash: int = 0) -> Reservation:
        """Reserve a frame of length bytes, to be filled in place. Only one may be reserved.

            with ch.reserve(1, 8) as data:
                struct.pack_into("<Q", data, 0, value)

        Raises as send(), and WouldBlock when Full.DROP_NEWEST drops the frame.
        """
        kind = _uint(type, _U32, "type")
        tag = _uint(hash, _U64, "hash")
        length = _uint(length, _U32, "length")
        end = _end(self._options.full_timeout)
        address = c.c_void_p()
        raw = self._begin()
        try:
            self._unsettled = True
            ret = self._with_room(
                raw,
                length,
                end,
                lambda: self._lib.reserve(raw, kind, tag, length, c.byref(address)),
            )
            if self._checked(ret) == _abi.DROPPED:
                raise WouldBlock(errno.EAGAIN, "dropped: no room")
            reservation = Reservation(self, raw, view(raw.hold(), address.value or 0, length))
        except BaseException:
            self._leave()
            raise
        # No call from here on: see the top of this file.
        self._reservation = reservation
        del self._caller[0]
        return reservation

    def _finish(self, pending: Frames | Reservation, good: bool) -> None:
        """Commit (good) or abort a Reservation; consume (good) or give back Frames."""
        raw = self._begin()
        try:
            if self._frames is not pending and self._reservation is not pending:
                raise ValueError(pending._what)
            # As at the end of a with block: without an exception __exit__ commits or consumes.
            pending._exit(None if good else BaseException, None, None)
        finally:
            self._leave()

    def terminate(self) -> None:
        """End the channel cleanly: nothing can be sent any more.

        Readers read the remaining frames; then their calls raise Terminated.
        """
        raw = self._begin()
        try:
            self._checked(self._lib.terminate(raw))
        finally:
            self._leave()

    # ---- reading ----

    def _take(self, raw: _abi.Raw, array: Any, n: int, timeout: float | None) -> int:
        """Fill array with frames that the library then holds; return how many.

        They are at most n new frames, or those of a call that was interrupted.
        """
        end = _end(timeout)
        self._unsettled = True
        if self._interrupted:
            return min(self._checked(self._lib.held(raw, array, len(array))), len(array))
        while True:
            ret = self._lib.peek(raw, array, n)
            if ret != -errno.EAGAIN or timeout == 0:
                return self._checked(ret)
            self._checked(self._await(lambda ns: self._lib.wait(raw, ns), end))
            if end is not None and time.monotonic() >= end:
                # Other readers may take the frames each time: then the time-out ends this loop.
                ret = self._lib.peek(raw, array, n)
                return self._checked(ret if ret != -errno.EAGAIN else -errno.ETIMEDOUT)

    def _recv(self, raw: _abi.Raw, timeout: float | None) -> tuple[Frame, int]:
        """Return a frame and the number of frames held, this one included; 0: it is consumed."""
        if self._kept is not None:
            return self._kept[0], 0
        array = (_abi.CFrame * 1)()
        self._take(raw, array, 1, timeout)
        f = array[0]
        return (
            Frame(f.type, c.string_at(f.data, f.len), f.hash, f.redelivered),
            self._lib.held(raw, None, 0),
        )

    def recv(self, timeout: float | None = None) -> Frame:
        """Take a frame out of the channel, with a copy of its payload.

        Raises TimedOut, or WouldBlock if timeout is 0, when there is no frame; Terminated when the
        channel is terminated and all frames are read.
        """
        _end(timeout)
        raw = self._begin()
        try:
            kept = self._recv(raw, timeout)
        except BaseException:
            self._leave()
            raise
        # No call from here on, except the library's by consume_first: see the top of this file.
        frame, held = kept
        if held > 0:
            self._kept = kept
            ret = raw.consume_first
            if ret < 0:
                self._leave()
                raise from_result(ret)
        self._kept = None
        self._unsettled = self._interrupted = held > 1
        del self._caller[0]
        return frame

    def __iter__(self) -> Iterator[Frame]:
        """Yield frames as recv() does, until the channel is terminated and all are read."""
        while True:
            try:
                frame = self.recv()
            except BrokenPipeError:
                return
            yield frame

    def peek(self, n: int = _abi.BURST, timeout: float | None = None) -> Frames:
        """Take up to n frames, 1 to 64, without copying them.

            with ch.peek() as frames:
                for frame in frames:
                    total += len(frame.data)

        Raises Busy while frames of an earlier peek() are held; otherwise as recv(). If the previous
        peek() or recv() was interrupted, return all frames that it had taken.
        """
        n = _uint(n, _U32, "n")
        array = (_abi.CFrame * _abi.BURST)()
        raw = self._begin()
        try:
            if self._kept is not None:
                frame = self._kept[0]
                taken = [frame._replace(data=memoryview(frame.data))]
                self._kept = None
            else:
                got = self._take(raw, array, n, timeout)
                hold = raw.hold()
                taken = [
                    Frame(f.type, view(hold, f.data, f.len).toreadonly(), f.hash, f.redelivered)
                    for f in array[:got]
                ]
            frames = Frames(self, raw, taken)
        except BaseException:
            self._leave()
            raise
        # No call from here on: see the top of this file.
        self._frames = frames
        self._interrupted = False
        del self._caller[0]
        return frames

    def dispatch(
        self, fn: Callable[[Frame], object], n: int = _abi.BURST, timeout: float | None = None
    ) -> int:
        """Take up to n frames, 1 to 64, and call fn with each. Return how many were consumed.

        frame.data is a memoryview that is valid until fn returns. A frame is consumed when fn
        returns a false value, such as None. When fn returns a true value or raises, that frame and
        those after it are given back, and the exception is raised here. Calls of this Channel in
        fn raise Busy.
        """
        n = _uint(n, _U32, "n")
        array = (_abi.CFrame * _abi.BURST)()
        raw = self._begin()
        try:
            got = self._take(raw, array, n, timeout)
            done = 0
            try:
                for f in array[:got]:
                    data = view(raw.hold(), f.data, f.len).toreadonly()
                    try:
                        if fn(Frame(f.type, data, f.hash, f.redelivered)):
                            break
                    finally:
                        release(data)
                    done += 1
            finally:
                # If this is interrupted, _settle() in the next method call corrects the state.
                if done > 0:
                    self._checked(self._lib.consume_some(raw, done))
                if done < got:
                    self._lib.give_back(raw)
            self._unsettled = self._interrupted = False
            return done
        finally:
            self._leave()

    # ---- wait, recover, inspect ----

    def _waited(self, ret: int) -> bool:
        if ret == -errno.ETIMEDOUT:
            return False
        self._checked(ret)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there may be a frame to take. Return False on a time-out.

        Raises Terminated when the channel is terminated and all frames are read.
        """
        end = _end(timeout)
        raw = self._begin()
        try:
            if self._interrupted or self._kept is not None:
                return True
            return self._waited(self._await(lambda ns: self._lib.wait(raw, ns), end))
        finally:
            self._leave()

    def wait_room(self, length: int, timeout: float | None = None) -> bool:
        """Wait until there may be room for a frame of length bytes. Return False on a time-out."""
        length = _uint(length, _U32, "length")
        end = _end(timeout)
        raw = self._begin()
        try:
            return self._waited(
                self._await(lambda ns: self._lib.wait_room(raw, length, ns), end)
            )
        finally:
            self._leave()

    def fileno(self) -> int:
        """Return a descriptor for select or asyncio, which becomes readable after arm().

        Only channels with Notify.EVENTFD have one; others raise OSError with EOPNOTSUPP.
        """
        raw = self._begin()
        try:
            return self._checked(self._lib.fd(raw))
        finally:
            self._leave()

    def arm(self, what: _abi.ArmFor = _abi.ArmFor.FRAMES, length: int = 0) -> _abi.ArmFor:
        """Arm the descriptor of fileno(). Return ArmFor(0), or which of `what` is there already.

        An armed descriptor becomes readable when there may be a frame, or room for a frame of
        length bytes, and stays readable until it is armed again. When arm() returns frames or room
        (a true value), the descriptor is not armed.

        To miss nothing, keep this order: read all frames, arm, poll; when nothing came for a
        multiple of check_ms, call recover(). A wait() disarms. Raises Terminated when all frames
        are read.
        """
        what = _abi.ArmFor(what)
        length = _uint(length, _U32, "length")
        raw = self._begin()
        try:
            if (self._interrupted or self._kept is not None) and what & _abi.ArmFor.FRAMES:
                return _abi.ArmFor.FRAMES
            return _abi.ArmFor(self._checked(self._lib.arm(raw, what, length)))
        finally:
            self._leave()

    def recover(self) -> int:
        """Release the slots and frames of participants that died. Return how many had died.

        Waiting calls do this themselves.
        """
        raw = self._begin()
        try:
            return self._checked(self._lib.recover(raw))
        finally:
            self._leave()

    def inspect(self) -> Info:
        """Return the state of the channel, which is not changed."""
        info = _abi.CInfo()
        raw = self._begin()
        try:
            self._checked(self._lib.inspect(raw, info))
        finally:
            self._leave()
        return info_of(info)


# The code of methods that begin a call; _calls() looks for these on a thread's stack.
_METHODS = {
    getattr(Channel, name).__code__
    for name in (
        "arm", "close", "dispatch", "fileno", "inspect", "join", "pass_to", "peek", "recover",
        "recv", "reserve", "send", "send_burst", "terminate", "wait", "wait_room", "_finish",
    )
    if hasattr(Channel, name)
}
_stale = threading.Lock()


def inspect(name: str | bytes) -> Info:
    """Return the state of a channel without joining it: read permission suffices."""
    raw = _abi.CInfo()
    ret = _abi.library().inspect_name(_name(name), raw)
    if ret < 0:
        raise from_result(ret)
    return info_of(raw)


def unlink(name: str | bytes) -> None:
    """Remove the name of a channel. Its participants can go on using it."""
    ret = _abi.library().unlink(_name(name))
    if ret < 0:
        raise from_result(ret)
