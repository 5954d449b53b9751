# SPDX-License-Identifier: BSD-3-Clause
"""The Channel."""

from __future__ import annotations

import ctypes as c
import errno
import operator
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from . import _abi
from ._errors import WouldBlock, error, from_errno, from_result
from ._info import Info, info_of
from ._views import Frame, Frames, Handle, Reservation, release, view

# The library's waits are not ended by signals: after so many seconds Python looks for a Ctrl-C.
_SLICE = 0.1
_NS = 1_000_000_000
_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1


def _uint(value, most: int, what: str) -> int:
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


def _bytes(data) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def _conf(size, participants, notify, on_death, start) -> _abi.Conf:
    return _abi.Conf(
        _uint(size, _U64, "size"),
        _uint(participants, _U32, "participants"),
        _abi.Notify(notify),
        _abi.OnDeath(on_death),
        _uint(start, _U64, "start"),
    )


class _Options:
    """How a participant behaves, for the constructors of Channel: each takes these as keywords.

    full          what to do when there is no room; with Full.WAIT at most for full_timeout seconds (None:
                  for ever)
    wait          how to wait
    invalid       what to do with a frame whose header is wrong
    check_ms      who waits looks after so many ms whether somebody died; 0: 10
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
        # To wait is Python's part: so that it is ended by signals.
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

    It is for one thread at a time; other threads join() for themselves. Of two that are in a call at
    once the second gets Busy. In the child of a fork every call gets Closed.

    timeout is in seconds: None is for ever, 0 does not wait.
    """

    def __init__(self, ptr: int | None, options: _Options) -> None:
        """Not to be called: create(), open(), memfd(), accept() and join() make Channels."""
        if not ptr:
            raise from_errno()
        self._lib = _abi.library()
        self._handle: Handle | None = Handle(self._lib, ptr)
        self._options = options
        self._pending: Frames | Reservation | None = None
        self.max = self._lib.max(ptr)  #: largest payload of a frame, bytes

    # ---- making, leaving ----

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
        **options,
    ) -> Channel:
        """Make a channel in POSIX shared memory, and take part. Exists, if it does.

        name is as for shm_open(3): "/watch". size of the buffer: a power of two from SIZE_MIN to SIZE_MAX,
        0: 1 MiB. participants: 1 to 64, 0: 64. start: first position, for tests.
        """
        o = _Options(**options)
        conf = _conf(size, participants, notify, on_death, start)
        return cls(_abi.library().create(_name(name), conf, o.raw), o)

    @classmethod
    def open(cls, name: str | bytes, **options) -> Channel:
        """Take part in one that is there. NotFound, Corrupt, ...; WouldBlock: it is being made."""
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
        **options,
    ) -> Channel:
        """Make a channel without a name, to be passed over a UNIX socket, and take part."""
        o = _Options(**options)
        conf = _conf(size, participants, notify, on_death, start)
        return cls(_abi.library().memfd(conf, o.raw), o)

    @classmethod
    def accept(cls, sock, *, timeout: float | None = None, **options) -> Channel:
        """Receive from a connected UNIX socket (or its descriptor) what pass_to() sent, and take part."""
        o = _Options(**options)
        fd = sock if isinstance(sock, int) else sock.fileno()
        end = _end(timeout)
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        if not poller.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
            raise error(errno.ETIMEDOUT, "no channel came over the socket")
        return cls(_abi.library().accept(fd, o.raw), o)

    def pass_to(self, sock) -> None:
        """Send this channel, made by memfd(), over a connected UNIX socket (or its descriptor)."""
        fd = sock if isinstance(sock, int) else sock.fileno()
        with self._call() as ptr:
            self._checked(getattr(self._lib, "pass")(ptr, fd))

    def join(self, **options) -> Channel:
        """Another participant on the same memory, for another thread."""
        o = _Options(**options)
        with self._call() as ptr:
            return type(self)(self._lib.join(ptr, o.raw), o)

    def close(self) -> None:
        """Leave: what is reserved becomes empty, what was peeked goes to others. Again: nothing happens.

        If somebody still has a view of the memory, a slice of a frame's data say, the participant's place
        is free only when that is gone.
        """
        handle = self._handle
        if handle is None:
            return
        if not handle.forked() and handle.ptr is not None:
            with self._call() as ptr:
                if self._pending is not None:
                    self._pending._forget()
                    leave = "abort" if isinstance(self._pending, Reservation) else "give_back"
                    getattr(self._lib, leave)(ptr)
                    self._pending = None
                handle.leave()
        self._handle = None

    @property
    def closed(self) -> bool:
        return self._handle is None

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.close()

    @contextmanager
    def _call(self) -> Iterator[int]:
        """Nobody else is in a call meanwhile; the value is the library's handle."""
        handle = self._handle
        if handle is None:
            raise error(errno.EBADF, "the channel is closed")
        if handle.forked():
            raise error(errno.EBADF, "a channel is of no use in the child of a fork: open it there")
        if not handle.lock.acquire(blocking=False):
            raise error(errno.EBUSY, "another call is under way; threads join() for themselves")
        try:
            # Another thread may have closed it meanwhile, or a copy of this object.
            if handle.ptr is None:
                raise error(errno.EBADF, "the channel is closed")
            yield handle.ptr
        finally:
            handle.lock.release()

    @staticmethod
    def _checked(ret: int) -> int:
        if ret < 0:
            raise from_result(ret)
        return ret

    @staticmethod
    def _await(call: Callable[[int], int], end: float | None) -> int:
        """call(ns) in slices, until it does not time out, or end."""
        while True:
            left = _SLICE if end is None else min(_SLICE, max(0.0, end - time.monotonic()))
            ret = call(int(left * _NS))
            if ret != -errno.ETIMEDOUT or (end is not None and time.monotonic() >= end):
                return ret

    # ---- writing ----

    def _with_room(self, ptr: int, length: int, call: Callable[[], int]) -> int:
        """What sends, as the option full wants it."""
        if not self._options.waits:
            return call()
        end = _end(self._options.full_timeout)
        length = min(length, _U32)
        while True:
            ret = self._await(lambda ns: self._lib.wait_room(ptr, length, ns), end)
            if ret == -errno.ETIMEDOUT:
                return -errno.EAGAIN
            if ret == 0:
                ret = call()
            # Other writers may have been faster.
            if ret != -errno.EAGAIN:
                return ret

    def send(self, type: int, data, hash: int = 0) -> bool:
        """Send a frame: type from 1, data bytes or the like, from 1 byte to max.

        False: it was dropped, as full wants it. WouldBlock: no room. Terminated.
        """
        kind = _uint(type, _U32, "type")
        tag = _uint(hash, _U64, "hash")
        raw = _bytes(data)
        length = min(len(raw), _U32)
        with self._call() as ptr:
            ret = self._with_room(
                ptr, length, lambda: self._lib.send(ptr, kind, tag, raw, length)
            )
            return self._checked(ret) != _abi.DROPPED

    def send_burst(self, frames: Iterable[Frame | tuple]) -> int:
        """Send frames, Frame or (type, data) or (type, data, hash), in one reservation if they fit.

        How many were sent, or dropped as full wants it: fewer than there are if then there was no room.
        If none, what send() raises.
        """
        items = [Frame(*f) for f in frames]
        if not items:
            return 0
        raw = [_bytes(f.data) for f in items]
        array = (_abi.CFrame * len(items))()
        for to, f, data in zip(array, items, raw):
            to.data = c.cast(c.c_char_p(data), c.c_void_p)
            to.len = min(len(data), _U32)
            to.type = _uint(f.type, _U32, "type")
            to.hash = _uint(f.hash, _U64, "hash")
        sent = 0
        with self._call() as ptr:
            while sent < len(items):
                rest = c.cast(c.byref(array, sent * c.sizeof(_abi.CFrame)), c.POINTER(_abi.CFrame))
                ret = self._with_room(
                    ptr,
                    array[sent].len,
                    lambda: self._lib.send_burst(ptr, rest, len(items) - sent),
                )
                if ret < 0 and sent > 0:
                    break
                sent += self._checked(ret)
                if not self._options.waits:
                    break
        return sent

    def reserve(self, type: int, length: int, hash: int = 0) -> Reservation:
        """Reserve a frame of length bytes, to be filled in place. One at a time.

            with ch.reserve(1, 8) as data:
                struct.pack_into("<Q", data, 0, value)

        WouldBlock also if it is dropped, as full wants it.
        """
        kind = _uint(type, _U32, "type")
        tag = _uint(hash, _U64, "hash")
        length = _uint(length, _U32, "length")
        address = c.c_void_p()
        with self._call() as ptr:
            ret = self._with_room(
                ptr,
                length,
                lambda: self._lib.reserve(ptr, kind, tag, length, c.byref(address)),
            )
            if self._checked(ret) == _abi.DROPPED:
                raise WouldBlock(errno.EAGAIN, "dropped: no room")
            data = view(self._handle, address.value, length)
            self._pending = Reservation(self, data)
            return self._pending

    def _finish(self, pending: Frames | Reservation, how: str) -> None:
        """Of a Reservation, commit or abort; of Frames, consume or give_back."""
        with self._call() as ptr:
            # The views first: afterwards the memory is somebody else's.
            pending._forget()
            self._pending = None
            self._checked(getattr(self._lib, how)(ptr))

    def terminate(self) -> None:
        """The orderly end: nothing can be sent after it, and who has read what was sent is told."""
        with self._call() as ptr:
            self._checked(self._lib.terminate(ptr))

    # ---- reading ----

    def _peek(self, ptr: int, raw, n: int, timeout: float | None) -> int:
        end = _end(timeout)
        while True:
            ret = self._lib.peek(ptr, raw, n)
            if ret != -errno.EAGAIN or timeout == 0:
                return self._checked(ret)
            self._checked(self._await(lambda ns: self._lib.wait(ptr, ns), end))

    def recv(self, timeout: float | None = None) -> Frame:
        """Take a frame out, with a copy of its payload. Terminated: all is read.

        TimedOut, or with timeout 0 WouldBlock: none is there.
        """
        raw = _abi.CFrame()
        with self._call() as ptr:
            self._peek(ptr, raw, 1, timeout)
            try:
                frame = Frame(raw.type, c.string_at(raw.data, raw.len), raw.hash)
            except BaseException:
                self._lib.give_back(ptr)
                raise
            self._checked(self._lib.consume(ptr))
            return frame

    def __iter__(self) -> Iterator[Frame]:
        """recv() until the channel is terminated and all is read."""
        while True:
            try:
                frame = self.recv()
            except BrokenPipeError:
                return
            yield frame

    def peek(self, n: int = _abi.BURST, timeout: float | None = None) -> Frames:
        """Take up to n frames, 1 to 64, where they lie.

            with ch.peek() as frames:
                for frame in frames:
                    total += len(frame.data)

        Busy: those of the call before are still held. Else as recv().
        """
        n = _uint(n, _U32, "n")
        raw = (_abi.CFrame * _abi.BURST)()
        with self._call() as ptr:
            got = self._peek(ptr, raw, n, timeout)
            frames = [
                Frame(f.type, view(self._handle, f.data, f.len).toreadonly(), f.hash)
                for f in raw[:got]
            ]
            self._pending = Frames(self, frames)
            return self._pending

    def dispatch(
        self, fn: Callable[[Frame], object], n: int = _abi.BURST, timeout: float | None = None
    ) -> int:
        """Take up to n frames, 1 to 64, and call fn with each; its data, a memoryview, is good until fn
        returns. How many were consumed: those for which fn returned something false, such as None.

        The first one for which it returns something true, or raises, is given back with those behind
        it; the exception is then raised here. fn can't use this Channel: it gets Busy.
        """
        n = _uint(n, _U32, "n")
        end = _end(timeout)
        raised: list[BaseException] = []

        def call(_, raw) -> int:
            try:
                f = raw.contents
                data = view(self._handle, f.data, f.len).toreadonly()
                try:
                    return -errno.ECANCELED if fn(Frame(f.type, data, f.hash)) else 0
                finally:
                    release(data)
            except BaseException as e:  # C is in between: it goes on from there
                raised.append(e)
                return -errno.ECANCELED

        with self._call() as ptr:
            callback = _abi.Fn(call)
            while True:
                ret = self._lib.dispatch(ptr, n, callback, None)
                if ret != -errno.EAGAIN or timeout == 0:
                    break
                self._checked(self._await(lambda ns: self._lib.wait(ptr, ns), end))
            if raised:
                raise raised[0]
            return 0 if ret == -errno.ECANCELED else self._checked(ret)

    # ---- waiting, the dead, looking on ----

    def _waited(self, ret: int) -> bool:
        if ret == -errno.ETIMEDOUT:
            return False
        self._checked(ret)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there may be a frame to take. False: not in time. Terminated: all is read."""
        end = _end(timeout)
        with self._call() as ptr:
            return self._waited(self._await(lambda ns: self._lib.wait(ptr, ns), end))

    def wait_room(self, length: int, timeout: float | None = None) -> bool:
        """Likewise, until a frame of length bytes may have room."""
        length = _uint(length, _U32, "length")
        end = _end(timeout)
        with self._call() as ptr:
            return self._waited(
                self._await(lambda ns: self._lib.wait_room(ptr, length, ns), end)
            )

    def recover(self) -> int:
        """Look for participants that died, and put in order what they left. How many were found.

        Who waits does so by itself.
        """
        with self._call() as ptr:
            return self._checked(self._lib.recover(ptr))

    def inspect(self) -> Info:
        """Look at the channel; changes nothing."""
        raw = _abi.CInfo()
        with self._call() as ptr:
            self._checked(self._lib.inspect(ptr, raw))
        return info_of(raw)


def inspect(name: str | bytes) -> Info:
    """Look at a channel without taking part; to read it is enough."""
    raw = _abi.CInfo()
    ret = _abi.library().inspect_name(_name(name), raw)
    if ret < 0:
        raise from_result(ret)
    return info_of(raw)


def unlink(name: str | bytes) -> None:
    """Remove the name. Those who take part go on."""
    ret = _abi.library().unlink(_name(name))
    if ret < 0:
        raise from_result(ret)
