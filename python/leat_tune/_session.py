# SPDX-License-Identifier: BSD-3-Clause
"""A session with a process: changes of settings, leases, samples.

    agent ---- UNIX socket ---> process       open as long as the session lasts
          <--- two channels ---               of lib/channel, passed over the socket
          ---- feedback ------>               messages: hello, watch, set, release
          <--- telemetry ------               messages: welcome, answer, sample

The socket's end tells that the process died; a time-out ends the wait for a stopped process. No
call waits for ever.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from leat_channel import Channel, ChannelError, Full

from . import _protocol as protocol
from ._dir import Directory
from ._errors import Corrupt, Gone, Refused, TimedOut, TuneError, Unknown, nearest
from ._histogram import Histogram
from ._process import Process
from ._schema import Schema, Value
from ._snapshot import Object, Snapshot
from ._text import plain, text_of

VERSION = 1
SESSION = math.inf  #: a lease as long as the session lasts
LEASE_SESSION = (1 << 63) - 1
SAMPLES_MAX = 1024  # samples that wait for samples(); older ones are dropped
INTERVAL_MIN = 0.001  # seconds
AGENT_MAX = 48  # bytes of an agent's name

_SLICE = 0.1  # seconds without a frame after which to check that the process is alive
_PEER = struct.Struct("3i")


@dataclass(frozen=True)
class Answer:
    """The answer to a change of settings."""

    effective: dict[str, Value]  # the settings of the change, with their values now: maybe rounded
    epoch: int  # how often the object's settings were changed
    settings: dict[str, Value]  # all settings of the object


@dataclass(frozen=True)
class Sample:
    """A report of the object that Session.watch() named."""

    object: int  # its id
    time_ns: int  # CLOCK_MONOTONIC
    epoch: int  # of the object's settings
    report: dict[str, Value | Histogram]


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
                # The backlog is full: the process is not accepting connections.
                if time.monotonic() >= end:
                    raise TimedOut(f"{who} does not answer") from None
                time.sleep(0.01)
    except (FileNotFoundError, ConnectionRefusedError):
        s.close()
        raise Gone(f"{who} accepts no more agents") from None
    except BaseException:
        s.close()
        raise


class Session:
    """A session with one process, for one thread at a time. Its leases end when the session ends.

    timeout is the longest wait for an answer, in seconds.
    """

    def __init__(self, process: Process, name: str | None = None, timeout: float = 5.0) -> None:
        """Begin a session. Programs call Process.session()."""
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
        self.number = 0  #: of this session, assigned by the process
        try:
            self._begin(
                name or os.path.basename(sys.argv[0]) or "python", time.monotonic() + timeout
            )
        except BaseException:
            self.close()
            raise

    def _begin(self, name: str, end: float) -> None:
        if self.process.protocol != protocol.HASH:
            raise TuneError(
                errno.EPROTONOSUPPORT,
                f"{self._who} is of another release: it can be read, but not be talked to",
            )
        assert self.process._directory is not None
        self._socket = _connect(self.process._directory, self.process._stem, end, self._who)
        pid, uid, _ = _PEER.unpack(
            self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        # pid 0: the process is in another pid namespace, a container's.
        if uid != os.geteuid() or pid not in (0, self.process.pid):
            raise TuneError(
                errno.EACCES, f"{self._who}: its socket is of process {pid} of uid {uid}"
            )
        try:
            self._feedback = Channel.accept(
                self._socket, timeout=self._left(end), full=Full.WAIT, full_timeout=self.timeout
            )
            self._telemetry = Channel.accept(self._socket, timeout=self._left(end))
        except ChannelError as e:
            raise self._translated(e) from None
        # The process adds this agent's pid to the name.
        agent = (
            name.encode(errors="replace").replace(b"\0", b"")[:AGENT_MAX].decode(errors="ignore")
        )
        self._send(protocol.Hello(version=VERSION, agent=agent))
        while True:
            message, _ = self._receive(end)
            if isinstance(message, protocol.Welcome):
                break
        if message.version != VERSION:
            raise TuneError(
                errno.EPROTONOSUPPORT,
                f"{self._who} speaks version {message.version}, not {VERSION}",
            )
        self.number = message.session

    def close(self) -> None:
        """End the session and its leases: leased settings go back to their former values.

        A second close() does nothing.
        """
        for channel in (self._feedback, self._telemetry):
            if channel is not None:
                channel.close()
        self._feedback = self._telemetry = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._socket is None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Whether the process closed the socket: it sends no data, so readable means closed."""
        assert self._socket is not None
        poller = select.poll()
        poller.register(self._socket.fileno(), select.POLLIN)
        return bool(poller.poll(0))

    def _send(self, message: Any, hash: int = protocol.HASH) -> None:
        if self._socket is None or self._feedback is None:
            raise Gone(f"the session with {self._who} is closed")
        try:
            self._feedback.send(message.NUMBER, message.pack(), hash)
        except ChannelError as e:
            if self._ended():
                raise Gone(f"{self._who} ended the session") from None
            raise self._translated(e) from None

    _MESSAGES: dict[int, Any] = {
        m.NUMBER: m  # type: ignore[attr-defined]
        for m in (protocol.Welcome, protocol.Answer, protocol.Sample)
    }

    def _receive(self, end: float | None) -> tuple[Any, int]:
        """Return the next message of a known type, and its hash; raise TimedOut or Gone."""
        if self._socket is None or self._telemetry is None:
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
                    raise Corrupt(
                        f"{self._who} sent a message that is wrong: {plain(str(e))}"
                    ) from None
            # Skip a message of a type that a newer release added.
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

    def _sample(self, message: Any, hash: int) -> None:
        report = self._schema(hash).unpack_report(message.payload)
        self._samples.append(Sample(message.object, message.time_ns, message.epoch, report))

    def _answer(self, end: float) -> Any:
        """Wait for the answer to the last request. Samples that come before it are kept."""
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

    # ---- settings, leases, samples ----

    def set(
        self, object: Object | str | int, values: Mapping[str, Value], lease: float | None = None
    ) -> Answer:
        """Change settings of an object: all of them or none. A value may be given as text.

        lease: seconds after which the settings go back to their former values; SESSION: when the
        session ends; None: never.

        Raises Refused when the process refuses the change, with its reason, or a value is not of
        the setting's type; Unknown when there is no such object or setting; TimedOut when no answer
        came: then only the next snapshot tells whether the settings were changed.
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
            protocol.Set(
                request=self._request, object=o.id, mask=mask, lease_ns=lease_ns, payload=payload
            ),
            o.schema.hash,
        )
        message = self._answer(end)
        settings = o.schema.unpack_settings(message.payload)
        names = [o.schema.setting(name).name for name in values]
        return Answer({name: settings[name] for name in names}, message.epoch, settings)

    def release(self, object: Object | str | int | None = None, keep: bool = False) -> None:
        """End this session's leases of one object, or of all (None).

        The settings go back to their former values; with keep they stay as they are.
        """
        id = 0 if object is None else self._object(object).id
        end = time.monotonic() + self.timeout
        self._request += 1
        self._send(protocol.Release(request=self._request, object=id, keep=bool(keep)))
        self._answer(end)

    def watch(
        self, interval: float, rows: bool = False, object: Object | str | int | None = None
    ) -> None:
        """Have the process update its block each interval seconds, until the session ends.

        interval  at least 0.001; 0: at the process's own pace, as without a watch
        rows      update the objects' rows as well
        object    send the reports of this object as well: see samples()
        """
        if interval and not interval >= INTERVAL_MIN:
            raise ValueError(f"interval: {interval} is below {INTERVAL_MIN} s")
        id = 0 if object is None else self._object(object).id
        self._watch = protocol.Watch(
            interval_ns=int(min(interval, 1e9) * 1e9), rows=bool(rows), object=id
        )
        self._send(self._watch)

    def refresh(self, rows: bool = True, timeout: float = 1.0) -> Snapshot:
        """Have the process update its block now, and read it.

        Without an agent a process updates its block once a second, and without rows. Raises
        TimedOut when it did not update the block in time. An earlier watch() stays in effect.
        """
        end = time.monotonic() + timeout
        watch = self._watch
        self._send(protocol.Watch(interval_ns=5_000_000, rows=bool(rows), object=watch.object))
        heartbeat = self.process._block.head().heartbeat_ns
        # Wait for three updates. The first may have begun before the request. In the second,
        # reactors that report themselves are asked, and in the third their answers are written.
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
        """Yield reports of the object that watch() named, for timeout seconds.

        None: until the session ends. The process drops samples that this agent is too slow for.
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
