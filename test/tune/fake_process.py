#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Play a process that agents see and change: no DPDK, nothing of libleat but channels.

    fake_process.py --dir D --objects 5 --load      runs until it is killed; prints PID-INSTANCE
                                                    when it is ready
    with FakeProcess(dir) as fake:                  a thread of this process
        fake.report("reactor.lcore0", turns=5)

It follows lib/tune: block, socket, channels, leases, texts of refusals. serve() is the control
thread.
"""

from __future__ import annotations

import argparse
import errno
import operator
import os
import random
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time

from fake_block import LEASES, OWNER, ROW, FakeBlock
from fake_schemas import DESCRIPTIONS, schema_text

from leat_channel import ArmFor, Channel, ChannelError, Notify
from leat_tune import _protocol as protocol
from leat_tune._dir import default_dir
from leat_tune._histogram import BUCKETS, Histogram, bucket_of
from leat_tune._schema import Schema

LEASE_SESSION = (1 << 63) - 1
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
           "==": operator.eq, "!=": operator.ne}


class Refusal(Exception):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class FakeObject:
    """An object, or a row."""

    def __init__(self, id: int, schema: Schema, text: bytes, name: str, row: bool,
                 parent: int) -> None:
        self.id = id
        self.schema = schema
        self.text = text
        self.name = name
        self.row = row
        self.parent = parent
        self.path = f"{schema.component}.{name}"
        self.settings = {s.name: s.default for s in schema.settings.values()}
        self.report = {r.name: _empty(r) for r in schema.reports.values()}
        self.epoch = 0
        self.record = 0
        self.reported = False
        self.time_ns: int | None = None  # of the report; None: now


def _empty(report):
    if report.type == "histogram":
        return Histogram(0, 0, (0,) * BUCKETS)
    if report.type == "enum":
        return report.values[0]
    return {"bool": False, "integer": 0, "real": 0.0, "string": ""}[report.type]


def pack_settings(schema: Schema, values: dict) -> bytes:
    return schema.pack(values)[0]


def pack_report(schema: Schema, values: dict) -> bytes:
    message = bytearray(schema.report_size)
    for r in schema.reports.values():
        value = values[r.name]
        if r.type == "histogram":
            data = value.pack()
        elif r.type == "real":
            data = struct.pack("<d", value)
        elif r.type == "string":
            data = value.encode()[: r.bytes - 1].ljust(r.bytes, b"\0")
        elif r.type == "enum":
            data = struct.pack("<q", r.values.index(value))
        else:
            data = struct.pack("<Q" if r.kind == "counter" else "<q", int(value))
        message[r.offset : r.offset + r.bytes] = data
    return bytes(message)


class FakeLease:
    def __init__(self, object: int, session: FakeSession) -> None:
        self.object = object
        self.session = session
        self.mask: set[str] = set()
        self.old: dict = {}
        self.expires_ns = 0


class FakeSession:
    """An agent's session, at the process's side."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.socket = sock
        self.number = number
        self.pid = struct.unpack("3i",
                                 sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        self.who = f"?[{self.pid}]"
        self.interval_ns = 0
        self.rows = False
        self.object = 0
        self.feedback = Channel.memfd(size=1 << 16, notify=Notify.EVENTFD)
        self.telemetry = Channel.memfd(size=1 << 18)
        self.feedback.pass_to(sock)
        self.telemetry.pass_to(sock)

    def close(self) -> None:
        self.feedback.close()
        self.telemetry.close()
        self.socket.close()

    def send(self, message, hash: int = protocol.HASH) -> None:
        try:
            self.telemetry.send(message.NUMBER, message.pack(), hash)
        except ChannelError:
            pass  # the agent does not keep up


class FakeProcess:
    """Objects, and a thread that talks to agents: start(), stop(), die(), or a with block."""

    def __init__(self, dir: str | None = None, *, program: str = "fake", objects: int = 3,
                 peers: int = 2,
                 load: bool = False, interval: float = 1.0,
                 protocol_hash: int = protocol.HASH) -> None:
        self.dir = dir if dir is not None else default_dir()
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        self._dirfd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.instance = secrets.randbits(64)
        self.block = FakeBlock(self._dirfd, program, protocol_hash, self.instance)
        self.stem = self.block.name.rsplit(".", 1)[0]
        self.path = os.path.join(self.dir, self.block.name)
        self._listen = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listen.bind(f"/proc/self/fd/{self._dirfd}/{self.stem}.sock")
        self._listen.listen(32)
        self._listen.setblocking(False)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.epoll()
        self._poll.register(self._listen, select.EPOLLIN)
        self._poll.register(self._wake, select.EPOLLIN)
        self._interval_ns = int(interval * 1e9)
        self._lock = threading.RLock()
        self._sessions: list[FakeSession] = []
        self._nb_sessions = 0
        self._leases: list[FakeLease | None] = [None] * LEASES
        self._objects: list[FakeObject] = []
        self._next_id = 1
        self._ending = False
        self._thread: threading.Thread | None = None
        self._load = load
        self._random = random.Random(1)
        self._loaded_ns = time.monotonic_ns()
        self.refused: dict[str, str] = {}  # why objects refuse changes, by path
        self.hang = threading.Event()  # if set, settings are not applied, as in a loop that hangs
        for i in range(objects):
            self.add("reactor", f"lcore{i}")
            self.add("endpoint", f"ep{i}")
            self.add("poller", f"ep{i}", parent=f"reactor.lcore{i}")
            for j in range(peers):
                self.add("peer", f"10.0.{i}.{j}:1234", parent=f"endpoint.ep{i}")
        self.add("log", "log")
        self._update(0)

    # ---- objects ----

    def add(self, component: str, name: str, parent: str | None = None,
            description: str | None = None) -> str:
        """Add an object, or with a parent a row of it; return its path."""
        text = schema_text(description or DESCRIPTIONS[component])
        schema = Schema.parse(text)
        with self._lock:
            above = self._at(parent).id if parent else 0
            if above:
                id = 1 + sum(o.parent == above for o in self._objects)
            else:
                id = self._next_id
                self._next_id += 1
            o = FakeObject(id, schema, text, name, bool(above), above)
            if above:
                o.path = f"{parent}/{name}"
            o.record = self.block.record(
                id, above, ROW if above else OWNER, schema.hash, text, name,
                pack_settings(schema, o.settings), pack_report(schema, o.report), False,
            )
            self._objects.append(o)
        return o.path

    def remove(self, path: str) -> None:
        with self._lock:
            o = self._at(path)
            for one in [r for r in self._objects if r.row and r.parent == o.id and not o.row] + [o]:
                self._objects.remove(one)
                self.block.remove(one.record)

    def report(self, path: str, **values) -> None:
        """Set measurements of an object."""
        self.report_at(path, None, **values)

    def report_at(self, path: str, time_ns: int | None, **values) -> None:
        """Set measurements of an object. time_ns: time of the report; None: the current time."""
        with self._lock:
            o = self._at(path)
            o.report.update(values)
            o.time_ns = time_ns
            self._write_report(o)

    def settings(self, path: str) -> dict:
        with self._lock:
            return dict(self._at(path).settings)

    def _at(self, path: str) -> FakeObject:
        return next(o for o in self._objects if o.path == path)

    def _by_id(self, id: int) -> FakeObject | None:
        return next((o for o in self._objects if o.id == id and not o.row), None)

    def _write_report(self, o: FakeObject) -> None:
        time_ns = time.monotonic_ns() if o.time_ns is None else o.time_ns
        message = pack_report(o.schema, o.report)
        self.block.report(o.record, message, time_ns)
        for s in self._sessions:
            if s.object == o.id and not o.row:
                s.send(protocol.Sample(object=o.id, time_ns=time_ns, epoch=o.epoch,
                                       payload=message),
                       o.schema.hash)

    # ---- life ----

    def start(self) -> None:
        self._thread = threading.Thread(target=self.serve, daemon=True)
        self._thread.start()

    def _end(self, remove: bool) -> None:
        self._ending = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join()
        for s in self._sessions:
            s.close()
        self._listen.close()
        self._poll.close()
        os.close(self._wake)
        if remove:
            os.unlink(self.stem + ".sock", dir_fd=self._dirfd)
        self.block.close(remove)
        os.close(self._dirfd)

    def stop(self) -> None:
        self._end(True)

    def die(self) -> None:
        """Leave the block and socket behind, as a killed process does."""
        self._end(False)

    def __enter__(self) -> FakeProcess:
        self.start()
        return self

    def __exit__(self, kind, value, trace) -> None:
        if not self._ending:
            self.stop()

    # ---- the control thread ----

    def _interval(self) -> int:
        return min([s.interval_ns for s in self._sessions if s.interval_ns] + [self._interval_ns])

    def serve(self) -> None:
        """Run the control thread's loop, until the end."""
        due = 0
        while not self._ending:
            now = time.monotonic_ns()
            with self._lock:
                self._expire(now)
                if now >= due:
                    due = now + self._interval()
                    self._update(self._interval())
                wait = min([due] +
                           [one.expires_ns for one in self._leases if one and one.expires_ns])
            events = dict(self._poll.poll(max(0, wait - time.monotonic_ns()) / 1e9))
            with self._lock:
                if self._listen.fileno() in events:
                    self._accept()
                for s in list(self._sessions):
                    ended = s.socket.fileno() in events
                    if ended or s.feedback.fileno() in events:
                        if self._serve(s) or ended:
                            self._leave(s)
                due = min(due, time.monotonic_ns() + self._interval())

    def _accept(self) -> None:
        try:
            sock, _ = self._listen.accept()
        except BlockingIOError:
            return
        self._nb_sessions += 1
        try:
            s = FakeSession(sock, self._nb_sessions)
        except OSError:
            sock.close()
            return
        self._sessions.append(s)
        self._poll.register(s.socket, select.EPOLLIN)
        self._poll.register(s.feedback.fileno(), select.EPOLLIN)
        if self._serve(s):
            self._leave(s)

    def _serve(self, s: FakeSession) -> bool:
        """Handle frames of an agent. Return True if the agent must be dropped."""
        try:
            while True:
                try:
                    frame = s.feedback.recv(0)
                except ChannelError as e:
                    if e.errno not in (errno.EAGAIN, errno.ETIMEDOUT):
                        return True
                    if not s.feedback.arm(ArmFor.FRAMES):
                        return False
                    continue
                self._frame(s, frame)
        except (ChannelError, ValueError):
            return True

    def _leave(self, s: FakeSession) -> None:
        self._poll.unregister(s.socket)
        self._poll.unregister(s.feedback.fileno())
        self._sessions.remove(s)
        s.close()
        self._release(s, 0, False, "session over")

    def _frame(self, s: FakeSession, frame) -> None:
        message = protocol.MESSAGES[frame.type].unpack(frame.data)
        if isinstance(message, protocol.Hello):
            s.who = f"{message.agent}[{s.pid}]"
            s.send(protocol.Welcome(version=1, session=s.number))
        elif isinstance(message, protocol.Watch):
            s.interval_ns = max(1_000_000, message.interval_ns) if message.interval_ns else 0
            s.rows, s.object = message.rows, message.object
        elif isinstance(message, protocol.Set):
            self._set(s, message, frame.hash)
        elif isinstance(message, protocol.Release):
            self._release(s, message.object, message.keep, "released")
            s.send(protocol.Answer(request=message.request, status=0, object=message.object,
                                   epoch=0, mask=0, text=""))

    # ---- changes ----

    def _set(self, s: FakeSession, m, hash: int) -> None:
        o = self._by_id(m.object)
        try:
            if o is None:
                raise Refusal(errno.ENOENT, f"object {m.object} is not there any more")
            values = self._checked(s, o, m, hash)
            if o.path in self.refused:
                raise Refusal(errno.EOPNOTSUPP, self.refused[o.path])
        except Refusal as e:
            s.send(protocol.Answer(request=m.request, status=-e.number, object=m.object, epoch=0,
                                   mask=m.mask, text=str(e)))
            return
        if self.hang.is_set():
            return
        old = dict(o.settings)
        self._apply(o, values, "set" if m.lease_ns == 0 else "set, lease", s.who)
        self._take(s, o, set(values), old, m.lease_ns)
        s.send(protocol.Answer(request=m.request, status=0, object=o.id, epoch=o.epoch, mask=m.mask,
                               text="", payload=pack_settings(o.schema, o.settings)), o.schema.hash)

    def _checked(self, s: FakeSession, o: FakeObject, m, hash: int) -> dict:
        schema = o.schema
        if hash != schema.hash:
            raise Refusal(errno.ESTALE,
                          f"{schema.component}: the agent's description is of another release")
        if m.mask == 0 or m.mask >> len(schema.settings):
            raise Refusal(errno.EINVAL, "no setting was named")
        asked = schema.unpack_settings(m.payload)
        named = [one for one in schema.settings.values() if m.mask >> one.index & 1]
        values = {one.name: asked[one.name] for one in named}
        for one in named:
            value = values[one.name]
            if (one.min is not None and value not in one.special.values() and
                    not one.min <= value <= one.max):
                raise Refusal(errno.ERANGE,
                              f"{one.name}: {value} is not from {one.min} to {one.max}")
            if one.when == "start":
                raise Refusal(errno.EPERM,
                              f"{one.name} takes effect only at start: put it in the file of "
                              "--settings")
            if one.quantum and value not in one.special.values():
                values[one.name] = value - value % one.quantum
        for group in schema.groups.values():
            given = [name for name in group.settings if name in values]
            if given and len(given) != len(group.settings):
                raise Refusal(errno.EINVAL,
                              f"{group.name}: {', '.join(group.settings)} are set together")
            if given and group.rule:
                left, compare, right = group.rule.split()
                if not COMPARE[compare](values[left], values[right]):
                    raise Refusal(errno.EINVAL, f"{group.name}: {group.rule} does not hold")
        self._held(s, o, set(values))
        return values

    def _held(self, s: FakeSession, o: FakeObject, names: set[str]) -> None:
        for lease in self._leases:
            if (lease is not None and lease.object == o.id and lease.session is not s and
                    lease.mask & names):
                who = lease.session.who
                if lease.expires_ns:
                    left = max(0, lease.expires_ns - time.monotonic_ns()) / 1e9
                    raise Refusal(errno.EBUSY, f"{who} holds it for another {left:.1f} s")
                raise Refusal(errno.EBUSY, f"{who} holds it as long as it is connected")

    def _apply(self, o: FakeObject, values: dict, why: str, who: str) -> None:
        old = dict(o.settings)
        o.settings.update(values)
        o.epoch += 1
        self.block.settings(o.record, pack_settings(o.schema, o.settings), o.epoch)
        for setting in o.schema.settings.values():
            if old[setting.name] != o.settings[setting.name]:
                self.block.change(o.epoch, o.id, setting.index, why, who, o.path, setting.name,
                                  setting.format(old[setting.name]),
                                  setting.format(o.settings[setting.name]))

    def _show(self, place: int) -> None:
        lease = self._leases[place]
        if lease is None:
            self.block.lease(place, 0, 0, 0, 0, "")
            return
        o = self._by_id(lease.object)
        mask = sum(1 << o.schema.settings[name].index for name in lease.mask) if o else 0
        self.block.lease(place, lease.object, lease.session.number, mask, lease.expires_ns,
                         lease.session.who)

    def _take(self, s: FakeSession, o: FakeObject, names: set[str], old: dict,
              lease_ns: int) -> None:
        place = next((i for i, one in enumerate(self._leases) if one and one.session is s and
                      one.object == o.id),
                     None)
        if lease_ns == 0:
            if place is not None:
                self._leases[place].mask -= names
                if not self._leases[place].mask:
                    self._leases[place] = None
                self._show(place)
            return
        if place is None:
            place = self._leases.index(None)
            self._leases[place] = FakeLease(o.id, s)
        lease = self._leases[place]
        for name in names - lease.mask:
            lease.old[name] = old[name]
        lease.mask |= names
        lease.expires_ns = 0 if lease_ns == LEASE_SESSION else time.monotonic_ns() + lease_ns
        self._show(place)

    def _back(self, place: int, why: str) -> None:
        lease = self._leases[place]
        self._leases[place] = None
        self._show(place)
        o = self._by_id(lease.object)
        if o is not None:
            self._apply(o, {name: lease.old[name] for name in lease.mask}, why, lease.session.who)

    def _release(self, s: FakeSession, object: int, keep: bool, why: str) -> None:
        for place, lease in enumerate(self._leases):
            if lease is not None and lease.session is s and object in (0, lease.object):
                if keep:
                    self._leases[place] = None
                    self._show(place)
                else:
                    self._back(place, why)

    def _expire(self, now: int) -> None:
        for place, lease in enumerate(self._leases):
            if lease is not None and lease.expires_ns and now >= lease.expires_ns:
                self._back(place, "lease over")

    # ---- load ----

    def _update(self, interval_ns: int) -> None:
        now = time.monotonic_ns()
        spent = now - self._loaded_ns
        self._loaded_ns = now
        for o in self._objects:
            if self._load or not o.reported:
                self._move(o, spent)
                o.reported = True
            self._write_report(o)
        self.block.heartbeat(interval_ns or self._interval_ns)

    def _move(self, o: FakeObject, spent: int) -> None:
        """Move values as in a program under load that is busy for 30 to 90 %."""
        rnd, r = self._random, o.report
        part = 0.6 + 0.3 * rnd.uniform(-1, 1)
        ops = int(spent * part / 400) if self._load else 0
        if o.schema.component == "reactor":
            r.update(lcore=o.id // 2, state="running", pollers=1, running="leat_ep_poll",
                     stalled_ns=0,
                     turn_max_ns=max(r["turn_max_ns"], int(rnd.expovariate(1 / 20000))))
            r["turns"] += ops
            r["busy_ns"] += int(spent * part)
            r["idle_ns"] += int(spent * (1 - part))
        elif o.schema.component == "poller":
            r["state"] = "waiting"
            r["runs"] += ops
            r["busy_runs"] += int(ops * part)
            r["busy_ns"] += int(spent * part)
        elif o.schema.component == "endpoint":
            r.update(device="net_fake0", state="open", listening=True, inflight=int(64 * part),
                     load=part)
            r["posted"] += ops
            r["returned"] = max(0, r["posted"] - r["inflight"])
            r["tx_bytes"] += ops * 64
            r["rx_bytes"] += ops * 48
            r["errors"] += rnd.random() < 0.01 and ops > 0
            for name, typical in (("latency_send", 1800), ("latency_write", 2500)):
                r[name] = self._more(r[name], min(ops, 200), typical)
        elif o.schema.component == "peer":
            r.update(state="up", address=o.name, inflight=int(32 * part))
            r["posted"] += ops // 2
        elif o.schema.component == "log":
            r["lines"] += self._load

    def _more(self, h: Histogram, n: int, typical: int) -> Histogram:
        buckets, total = list(h.buckets), h.sum
        for _ in range(n):
            ns = int(self._random.lognormvariate(0, 0.4) * typical)
            buckets[bucket_of(ns)] += 1
            total += ns
        return Histogram(h.count + n, total, tuple(buckets))


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays a leat process, for tests of agents.")
    parser.add_argument("--dir", help="directory (default: that of this user)")
    parser.add_argument("--program", default="fake", help="its name (default: %(default)s)")
    parser.add_argument("--objects", type=int, default=3,
                        help="reactors and endpoints (default: %(default)s)")
    parser.add_argument("--peers", type=int, default=2,
                        help="of each endpoint (default: %(default)s)")
    parser.add_argument("--load", action="store_true", help="values that move")
    parser.add_argument("--interval", type=float, default=1.0,
                        help="of updates without an agent, s")
    args = parser.parse_args()
    fake = FakeProcess(args.dir, program=args.program, objects=args.objects, peers=args.peers,
                       load=args.load, interval=args.interval)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(fake, "_ending", True))
    # A signal ends the poll; its handler runs afterwards.
    ended, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    fake._poll.register(ended, select.EPOLLIN)
    print(fake.stem, flush=True)
    fake.serve()
    fake.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
