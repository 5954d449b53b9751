# SPDX-License-Identifier: BSD-3-Clause
"""A conversation with a process: changes of settings, leases, samples.

    agent ---- UNIX socket ---> process       it is open as long as the session lasts
          <--- two channels ---               passed over the socket, of lib/channel
          ---- feedback ------>               hello, watch, set, release
          <--- telemetry ------               welcome, answer, sample

A process that died is noticed by the socket, one that was stopped by the time: nothing waits for ever.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from leat_channel import Channel, ChannelError, Full

from . import _protocol as protocol
from ._dir import Directory
from ._errors import Corrupt, Gone, Refused, TimedOut, TuneError, Unknown, nearest
from ._process import Process
from ._schema import Schema, Value
from ._snapshot import Object, Snapshot
from ._text import plain, text_of

VERSION = 1
SESSION = math.inf  #: a lease as long as the session lasts
LEASE_SESSION = (1 << 63) - 1
SAMPLES_MAX = 1024  # that wait to be taken; older ones are dropped
INTERVAL_MIN = 0.001
AGENT_MAX = 48  # bytes of its name

_SLICE = 0.1  # after so many seconds without a frame it looks whether the process is there
_PEER = struct.Struct("3i")


@dataclass(frozen=True)
class Answer:
    """To a change."""

    effective: dict[str, Value]  # what was asked for, as it is now: it may be rounded
    epoch: int  # how often the object's settings were changed
    settings: dict[str, Value]  # all of the object


@dataclass(frozen=True)
class Sample:
    """A report of the object that is watched."""

    object: int  # id
    time_ns: int  # CLOCK_MONOTONIC
    epoch: int  # of its settings
    report: dict


def _connect(directory: Directory, stem: str, end: float, who: str) -> socket.socket:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path = directory.connect_path(stem + ".sock")
        s.setblocking(False)
        while True:
            try:
                s.connect(path)
                return s
            except BlockingIOError:
                # Others are before us, and the process does not come to accept them.
                if time.monotonic() >= end:
                    raise TimedOut(f"{who} does not answer") from None
                time.sleep(0.01)
    except (FileNotFoundError, ConnectionRefusedError):
        s.close()
        raise Gone(f"{who} lets nobody in any more") from None
    except BaseException:
        s.close()
        raise


class Session:
    """With one process, of one thread at a time. Leases end with it.

    timeout is how long an answer may take, in seconds.
    """

    def __init__(self, process: Process, name: str | None = None, timeout: float = 5.0) -> None:
        """Process.session() makes it."""
        self.process = process
        self.timeout = timeout
        self._who = f"process {process.pid} ({process.program})"
        self._socket: socket.socket | None = None
        self._feedback: Channel | None = None
        self._telemetry: Channel | None = None
        self._request = 0
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._schemas: dict[int, Schema] = {}
        self._watch = protocol.Watch(interval_ns=0, rows=False, object=0)
        self.number = 0  #: that the process gave it
        try:
            self._begin(name or os.path.basename(sys.argv[0]) or "python", time.monotonic() + timeout)
        except BaseException:
            self.close()
            raise

    def _begin(self, name: str, end: float) -> None:
        if self.process.protocol != protocol.HASH:
            raise TuneError(
                errno.EPROTONOSUPPORT,
                f"{self._who} is of another release: it can be read, but not be talked to",
            )
        self._socket = _connect(self.process._directory, self.process._stem, end, self._who)
        pid, uid, _ = _PEER.unpack(
            self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        # 0: it is in another container, whose numbers are not ours.
        if uid != os.geteuid() or pid not in (0, self.process.pid):
            raise TuneError(errno.EACCES, f"{self._who}: its socket is of process {pid} of uid {uid}")
        try:
            self._feedback = Channel.accept(
                self._socket, timeout=self._left(end), full=Full.WAIT, full_timeout=self.timeout
            )
            self._telemetry = Channel.accept(self._socket, timeout=self._left(end))
        except ChannelError as e:
            raise self._translated(e) from None
        # The process adds our pid.
        agent = name.encode(errors="replace").replace(b"\0", b"")[:AGENT_MAX].decode(errors="ignore")
        self._send(protocol.Hello(version=VERSION, agent=agent))
        while True:
            message, _ = self._receive(end)
            if isinstance(message, protocol.Welcome):
                break
        if message.version != VERSION:
            raise TuneError(errno.EPROTONOSUPPORT, f"{self._who} speaks version {message.version}, not {VERSION}")
        self.number = message.session

    def close(self) -> None:
        """End it. Leases end, too: settings go back to what they were. Again: nothing happens."""
        for channel in (self._feedback, self._telemetry):
            if channel is not None:
                channel.close()
        self._feedback = self._telemetry = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def closed(self) -> bool:
        return self._socket is None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.close()

    # ---- frames ----

    @staticmethod
    def _left(end: float) -> float:
        return max(0.0, end - time.monotonic())

    def _translated(self, e: ChannelError) -> TuneError:
        if e.errno == errno.ETIMEDOUT:
            return TimedOut(f"{self._who} does not answer")
        if e.errno in (errno.ESHUTDOWN, errno.ECONNRESET, errno.EPIPE, errno.EBADF):
            return Gone(f"{self._who} ended the session")
        return TuneError(e.errno, f"{self._who}: {e.strerror}")

    def _ended(self) -> bool:
        """Did the process close the socket? Nothing else comes over it."""
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        return bool(poller.poll(0))

    def _send(self, message, hash: int = protocol.HASH) -> None:
        if self._socket is None:
            raise Gone(f"the session with {self._who} is closed")
        try:
            self._feedback.send(message.NUMBER, message.pack(), hash)
        except ChannelError as e:
            if self._ended():
                raise Gone(f"{self._who} ended the session") from None
            raise self._translated(e) from None

    _MESSAGES = {m.NUMBER: m for m in (protocol.Welcome, protocol.Answer, protocol.Sample)}

    def _receive(self, end: float | None) -> tuple:
        """The next message that we know, and its hash. TimedOut, Gone."""
        if self._socket is None:
            raise Gone(f"the session with {self._who} is closed")
        while True:
            left = _SLICE if end is None else min(_SLICE, self._left(end))
            try:
                frame = self._telemetry.recv(left)
            except ChannelError as e:
                if e.errno not in (errno.ETIMEDOUT, errno.EAGAIN):
                    raise self._translated(e) from None
                if self._ended():
                    raise Gone(f"{self._who} ended the session") from None
                if end is not None and time.monotonic() >= end:
                    raise TimedOut(f"{self._who} does not answer") from None
                continue
            message = self._MESSAGES.get(frame.type)
            if message is not None:
                try:
                    return message.unpack(frame.data), frame.hash
                except protocol.MessageError as e:
                    raise Corrupt(f"{self._who} sent a message that is wrong: {plain(str(e))}") from None
            # Of a release to come: not for us.
            if end is not None and time.monotonic() >= end:
                raise TimedOut(f"{self._who} does not answer")

    def _schema(self, hash: int) -> Schema:
        schema = self._schemas.get(hash) or self.process._block.schema_of(hash)
        if schema is None:
            for o in self.process.snapshot(rows=False).objects:
                self._schemas[o.schema.hash] = o.schema
            schema = self._schemas.get(hash)
            if schema is None:
                raise Corrupt(f"{self._who} sent a message of a component that it does not have")
        return schema

    def _sample(self, message, hash: int) -> None:
        report = self._schema(hash).unpack_report(message.payload)
        self._samples.append(Sample(message.object, message.time_ns, message.epoch, report))

    def _answer(self, end: float):
        """To the last request. Samples that come meanwhile are kept."""
        while True:
            message, hash = self._receive(end)
            if isinstance(message, protocol.Sample):
                self._sample(message, hash)
            elif isinstance(message, protocol.Answer) and message.request == self._request:
                if message.status != 0:
                    words = text_of(message.text.encode()) or os.strerror(abs(message.status))
                    raise Refused(abs(message.status), words)
                return message
            if time.monotonic() >= end:
                raise TimedOut(f"{self._who} does not answer")

    def _object(self, which: Object | str | int) -> Object:
        if isinstance(which, Object):
            return which
        objects = self.process.snapshot(rows=False).objects
        for o in objects:
            if which in (o.id, o.path):
                return o
        names = nearest(which, (o.path for o in objects)) if isinstance(which, str) else None
        raise Unknown(f"{self._who} has no object {which!r}", names)

    # ---- what there is to do ----

    def set(self, object: Object | str | int, values: dict[str, Value], lease: float | None = None) -> Answer:
        """Change settings of an object, all or none. Values may be text, as people write it.

        lease: seconds after which they go back to what they were, or SESSION: when the session ends; None: they stay.
        Refused: by the process, with its reason, or a value that is none of the setting's. Unknown: no such setting.
        TimedOut: no answer came; whether they were changed, the next snapshot tells.
        """
        o = self._object(object)
        if lease is None:
            lease_ns = 0
        elif lease == SESSION:
            lease_ns = LEASE_SESSION
        elif 0 < lease < 1e9:
            lease_ns = max(1, int(lease * 1e9))
        else:
            raise ValueError(f"lease: {lease} is not a number of seconds above 0")
        payload, mask = o.schema.pack(values)
        if mask == 0:
            raise ValueError("no settings")
        end = time.monotonic() + self.timeout
        self._request += 1
        self._send(
            protocol.Set(request=self._request, object=o.id, mask=mask, lease_ns=lease_ns, payload=payload),
            o.schema.hash,
        )
        message = self._answer(end)
        settings = o.schema.unpack_settings(message.payload)
        names = [o.schema.setting(name).name for name in values]
        return Answer({name: settings[name] for name in names}, message.epoch, settings)

    def release(self, object: Object | str | int | None = None, keep: bool = False) -> None:
        """End this session's leases of an object, or of all: values go back, or are kept for good."""
        id = 0 if object is None else self._object(object).id
        end = time.monotonic() + self.timeout
        self._request += 1
        self._send(protocol.Release(request=self._request, object=id, keep=bool(keep)))
        self._answer(end)

    def watch(self, interval: float, rows: bool = False, object: Object | str | int | None = None) -> None:
        """Have the block updated each interval seconds, at least 1 ms, as long as the session lasts; 0: as without it.

        rows: of objects, too. object: its reports come as samples().
        """
        if interval and not interval >= INTERVAL_MIN:
            raise ValueError(f"interval: {interval} is below {INTERVAL_MIN} s")
        id = 0 if object is None else self._object(object).id
        self._watch = protocol.Watch(interval_ns=int(min(interval, 1e9) * 1e9), rows=bool(rows), object=id)
        self._send(self._watch)

    def refresh(self, rows: bool = True, timeout: float = 1.0) -> Snapshot:
        """Have the process write what it shows, and read it.

        Without an agent it writes once a second, and no rows.
        TimedOut: it did not come to that. A watch() goes on as it was.
        """
        end = time.monotonic() + timeout
        watch = self._watch
        self._send(protocol.Watch(interval_ns=5_000_000, rows=bool(rows), object=watch.object))
        heartbeat = self.process._block.head().heartbeat_ns
        # One round may have begun before. Loops that report themselves are asked in the next, and have answered in the
        # one behind it.
        rounds = 3
        while rounds:
            now = self.process._block.head().heartbeat_ns
            if now != heartbeat:
                heartbeat = now
                rounds -= 1
                continue
            if self._ended():
                raise Gone(f"{self._who} ended the session")
            if time.monotonic() >= end:
                raise TimedOut(f"{self._who} writes nothing new")
            time.sleep(0.002)
        snapshot = self.process.snapshot(rows)
        self._send(watch)
        return snapshot

    def samples(self, timeout: float | None = None) -> Iterator[Sample]:
        """Reports of the object that is watched, for timeout seconds; None: until the session ends.

        The process drops those for which we are too slow.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            while self._samples:
                yield self._samples.popleft()
                if end is not None and time.monotonic() >= end:
                    return
            try:
                message, hash = self._receive(end)
            except TimedOut:
                return
            if isinstance(message, protocol.Sample):
                self._sample(message, hash)
