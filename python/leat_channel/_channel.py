# SPDX-License-Identifier: BSD-3-Clause
"""The Channel.

A KeyboardInterrupt may come between any two steps of this, and inside of none of the library's calls. So what
matters is the library's to know: what is held, what is reserved. Python notes that something is unsettled before
it begins a step, and a method that finds it so asks the library first. Frames that the library holds and that
no caller ever got are those of a peek or recv that was interrupted: the next one has them.

What returns something that was taken, or takes it for good, does so without a call behind it: Python looks for
signals there. That it is so in CPython since 3.11 is not promised by the language; where it is not, an
interrupted recv() keeps what it has for the next one.
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

from . import _abi
from ._errors import WouldBlock, error, from_errno, from_result
from ._info import Info, info_of
from ._views import Frame, Frames, Reservation, Sent, _settled, release, view

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

    A KeyboardInterrupt, or what else a signal's handler raises, may come at any time. What was sent is sent,
    and a frame that recv() or peek() did not return is there for the next one.
    """

    def __init__(self, raw: _abi.Raw, options: _Options) -> None:
        """Not to be called: create(), open(), memfd(), accept() and join() make Channels."""
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
        self._kept: tuple[Frame, int] | None = None  # of recv(), and how many were held with it
        self.max = self._lib.max(raw)  #: largest payload of a frame, bytes

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
        raw = self._begin()
        try:
            self._checked(getattr(self._lib, "pass")(raw, fd))
        finally:
            self._leave()

    def join(self, **options) -> Channel:
        """Another participant on the same memory, for another thread."""
        o = _Options(**options)
        raw = self._begin()
        try:
            return type(self)(self._lib.join(raw, o.raw), o)
        finally:
            self._leave()

    def close(self) -> None:
        """Leave: what is reserved becomes empty, what was peeked goes to others. Again: nothing happens.

        If somebody still has a view of the memory, a slice of a frame's data say, the participant's place
        is free only when that is gone.
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
        return self._raw is None

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.close()

    def _begin(self) -> _abi.Raw:
        """No other call is under way from here to _leave(). The library's handle, of which all is known."""
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
                    raise error(errno.EBUSY, "another call is under way; threads join() for themselves")
                # An exception came when it had ended, or before it began.
                self._caller.pop(0, None)
        # Another thread may have closed it meanwhile, or a copy of this object.
        if self._raw is None or raw.value is None:
            self._leave()
            raise error(errno.EBADF, "the channel is closed")
        if self._unsettled:
            self._settle(raw)
        return raw

    def _leave(self) -> None:
        self._caller.pop(0, None)

    def _calls(self, ident: int, me: int) -> bool:
        """Is the thread in a method of this? Its stack knows, whatever became of what the method noted."""
        # Without this function, _begin() and the method that calls it.
        frame = sys._getframe(3) if ident == me else sys._current_frames().get(ident)
        while frame is not None:
            if frame.f_code in _METHODS and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _settle(self, raw: _abi.Raw) -> None:
        """Something is in hand, or was when an exception came: what is it by now?"""
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
            self._kept = None  # it was not consumed
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
        """call(ns) in slices, until it does not time out, or end."""
        while True:
            left = _SLICE if end is None else min(_SLICE, max(0.0, end - time.monotonic()))
            ret = call(int(left * _NS))
            if ret != -errno.ETIMEDOUT or (end is not None and time.monotonic() >= end):
                return ret

    # ---- writing ----

    def _with_room(
        self, raw: _abi.Raw, length: int, end: float | None, call: Callable[[], int]
    ) -> int:
        """What sends, as the option full wants it; until end, if it waits."""
        if not self._options.waits:
            return call()
        length = min(length, _U32)
        while True:
            ret = self._await(lambda ns: self._lib.wait_room(raw, length, ns), end)
            if ret == -errno.ETIMEDOUT:
                return -errno.EAGAIN
            if ret == 0:
                ret = call()
            # Other writers may have been faster, each time: then it is the time that ends this.
            if ret != -errno.EAGAIN or (end is not None and time.monotonic() >= end):
                return ret

    def send(self, type: int, data, hash: int = 0) -> bool:
        """Send a frame: type from 1, data bytes or the like, from 1 byte to max.

        False: it was dropped, as full wants it. WouldBlock: no room. Terminated.
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

    def send_burst(self, frames: Iterable[Frame | tuple]) -> Sent:
        """Send frames, Frame or (type, data) or (type, data, hash), in one reservation if they fit.

        How many were sent, or dropped as full wants it: fewer than there are if then there was no room, or
        one of them is wrong. Sent, an int, has each of the two numbers. If none, what send() raises.
        full_timeout is for all of them.
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

                def call():
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
        """Reserve a frame of length bytes, to be filled in place. One at a time.

            with ch.reserve(1, 8) as data:
                struct.pack_into("<Q", data, 0, value)

        WouldBlock also if it is dropped, as full wants it.
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
            reservation = Reservation(self, raw, view(raw.hold(), address.value, length))
        except BaseException:
            self._leave()
            raise
        # No call from here on.
        self._reservation = reservation
        del self._caller[0]
        return reservation

    def _finish(self, pending: Frames | Reservation, good: bool) -> None:
        """Of a Reservation, commit or abort; of Frames, consume or give back."""
        raw = self._begin()
        try:
            if self._frames is not pending and self._reservation is not pending:
                raise ValueError(pending._what)
            # What exc_info would be is all there is to it.
            pending._exit(None if good else BaseException, None, None)
        finally:
            self._leave()

    def terminate(self) -> None:
        """The orderly end: nothing can be sent after it, and who has read what was sent is told."""
        raw = self._begin()
        try:
            self._checked(self._lib.terminate(raw))
        finally:
            self._leave()

    # ---- reading ----

    def _take(self, raw: _abi.Raw, array, n: int, timeout: float | None) -> int:
        """Frames in hand, as many as array has room for: n new ones at most, or those that were interrupted."""
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
                # To wait may have been no use: then it is the time that ends this.
                ret = self._lib.peek(raw, array, n)
                return self._checked(ret if ret != -errno.EAGAIN else -errno.ETIMEDOUT)

    def _recv(self, raw: _abi.Raw, timeout: float | None) -> tuple[Frame, int]:
        """A frame, and how many are held of which it is the first; 0: it was consumed before."""
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
        """Take a frame out, with a copy of its payload. Terminated: all is read.

        TimedOut, or with timeout 0 WouldBlock: none is there.
        """
        _end(timeout)
        raw = self._begin()
        try:
            kept = self._recv(raw, timeout)
        except BaseException:
            self._leave()
            raise
        # No call from here on.
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

        Busy: those of the call before are still held. Else as recv(). If the call before was interrupted
        these are its frames, as many as there are.
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
        # No call from here on.
        self._frames = frames
        self._interrupted = False
        del self._caller[0]
        return frames

    def dispatch(
        self, fn: Callable[[Frame], object], n: int = _abi.BURST, timeout: float | None = None
    ) -> int:
        """Take up to n frames, 1 to 64, and call fn with each; its data, a memoryview, is good until fn
        returns. How many were consumed: those for which fn returned something false, such as None.

        The first one for which it returns something true, or raises, is given back with those behind
        it; the exception is then raised here. fn can't use this Channel: it gets Busy.
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
                # Interrupted, it is done by whoever looks next.
                if done > 0:
                    self._checked(self._lib.consume_some(raw, done))
                if done < got:
                    self._lib.give_back(raw)
            self._unsettled = self._interrupted = False
            return done
        finally:
            self._leave()

    # ---- waiting, the dead, looking on ----

    def _waited(self, ret: int) -> bool:
        if ret == -errno.ETIMEDOUT:
            return False
        self._checked(ret)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there may be a frame to take. False: not in time. Terminated: all is read."""
        end = _end(timeout)
        raw = self._begin()
        try:
            if self._interrupted or self._kept is not None:
                return True
            return self._waited(self._await(lambda ns: self._lib.wait(raw, ns), end))
        finally:
            self._leave()

    def wait_room(self, length: int, timeout: float | None = None) -> bool:
        """Likewise, until a frame of length bytes may have room."""
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
        """The descriptor for an event loop, which becomes readable when the Channel was armed: select, asyncio.

        Of Notify.EVENTFD alone; others have an OSError with EOPNOTSUPP.
        """
        raw = self._begin()
        try:
            return self._checked(self._lib.fd(raw))
        finally:
            self._leave()

    def arm(self, what: _abi.ArmFor = _abi.ArmFor.FRAMES, length: int = 0) -> _abi.ArmFor:
        """From now on fileno() becomes readable when there may be a frame, or room for one of length bytes, and stays so
        until it is armed again. What is there by now, and then it is not armed; nothing (false): poll it.

        Look for frames, arm, poll, and recover() if nothing came for some check_ms: in that order nothing is
        missed. A wait() disarms. Terminated: all is read.
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
        """Look for participants that died, and put in order what they left. How many were found.

        Who waits does so by itself.
        """
        raw = self._begin()
        try:
            return self._checked(self._lib.recover(raw))
        finally:
            self._leave()

    def inspect(self) -> Info:
        """Look at the channel; changes nothing."""
        info = _abi.CInfo()
        raw = self._begin()
        try:
            self._checked(self._lib.inspect(raw, info))
        finally:
            self._leave()
        return info_of(info)


# Those that are a call: what else is on a stack does not count.
_METHODS = {
    getattr(Channel, name).__code__
    for name in (
        "arm", "close", "dispatch", "fileno", "inspect", "join", "pass_to", "peek", "recover", "recv", "reserve",
        "send", "send_burst", "terminate", "wait", "wait_room", "_finish",
    )
    if hasattr(Channel, name)
}
_stale = threading.Lock()


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
