# SPDX-License-Identifier: BSD-3-Clause
"""Blocks, schemas and processes that are broken, or made to do harm: all that they cause is an
error, in bounded time."""

import json
import os
import random
import resource
import secrets
import socket
import struct
import threading
import time
import unittest

import fake_block
import leat_tune
from fake_process import FakeProcess
from fake_schemas import DESCRIPTIONS, schema_of, schema_text
from leat_channel import Channel
from leat_tune import Corrupt, Gone, Schema, TimedOut, TuneError
from leat_tune import _protocol as protocol
from tune_case import Case

ROUNDS = 600
SECONDS = 5.0  # limit of a look, on a busy machine
EXTREMES = (0, 1, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF8, 4096, 144, 1 << 16)


class Blocks(Case):
    def setUp(self):
        super().setUp()
        fake = FakeProcess(self.dir, objects=4)
        fake.report("reactor.lcore0", turns=1)
        fake.block.change(1, 1, 1, "set", "me", "reactor.lcore0", "spin_us", "1", "2")
        fake.block.lease(0, 1, 1, 2, 0, "me")
        with open(fake.path, "rb") as block:
            (self.length,) = struct.unpack_from("<Q", fake.block.map, 64)
            self.whole = block.read(self.length)
        self.records = [o.record for o in fake._objects]
        self.texts = list(fake.block._texts.values())
        self.path = fake.path
        fake.die()
        os.unlink(self.path)
        self.write(self.whole)

    def write(self, data):
        with open(self.path, "wb") as block:
            os.fchmod(block.fileno(), 0o600)
            block.write(data)

    def look(self):
        """Read the process; return the outcome, in bounded time."""
        begin = time.monotonic()
        try:
            found, problems = leat_tune.scan(self.dir, all=True)
            for process in found:
                with process:
                    for _ in range(2):
                        snapshot = process.snapshot()
                    return snapshot
            self.assertIsInstance(problems[0], Corrupt)
            return None
        except Corrupt:
            return None
        finally:
            self.assertLess(time.monotonic() - begin, SECONDS)

    def corrupt(self, at, kind, value):
        data = bytearray(self.whole)
        struct.pack_into(kind, data, at, value)
        self.write(data)
        self.assertIsNone(self.look(), (at, value))

    def test_whole(self):
        snapshot = self.look()
        self.assertEqual(len(snapshot.objects), len(self.records))
        self.assertEqual([lease.settings for lease in snapshot.leases], [("spin_us",)])

    def test_head(self):
        for at, kind, values in (
            (0, "<Q", (0,)), (8, "<I", (0, 2)), (12, "<I", (0, 8192)), (24, "<Q", (1,)),
            (32, "<I", (1,)),
            (36, "<I", (os.geteuid() + 1,)), (64, "<Q", (0, 4095, self.length + 1, (1 << 64) - 1)),
            (72, "<I", (0, 1 << 30, 0xFFFFFFFF)), (76, "<I", (0, 1, 0xFFFFFFFF)),
            (80, "<I", (0, 0xFFFFFFFF)),
            (84, "<I", (0, 0xFFFFFFFF)), (88, "<I", (0, 391, 0xFFFFFFFF)), (92, "<I", (0, 1 << 31)),
            (96, "<I", (4095, self.length)), (100, "<I", (0, 95, 1 << 31)),
        ):
            for value in values:
                self.corrupt(at, kind, value)

    def test_record(self):
        at = self.records[0]
        for offset, values in ((16, (0, 4096, 1 << 31, self.length - 8)), (24, (1,)),
                               (64, (0, 1 << 31)),
                               (68, (8, 1 << 31)), (72, (1, 1 << 31)), (76, (16, 0xFFFFFFFF))):
            for value in values:
                self.corrupt(at + offset, "<I", value)
        slot = fake_block.SLOT_AT
        for offset, values in ((0, (1, 8, 4095, self.length, 0xFFFFFFF8)),
                               (4, (0, 143, 1 << 20, 0xFFFFFFFF))):
            for value in values:
                self.corrupt(slot + offset, "<I", value)

    def test_values(self):
        """Enums and bools with values that do not exist."""
        [log] = [o for o in self.look().objects if o.component == "log"]
        at = self.records[-1] + fake_block.RECORD.size
        for name, value in (("level", 5), ("level", -1), ("sync", 2)):
            self.corrupt(at + log.schema.settings[name].offset, "<q", value)

    def test_cut_off(self):
        for length in (0, 1, 183, 184, 4095, 4096, self.records[0] + 8, self.length - 1):
            self.write(self.whole[:length])
            self.assertIsNone(self.look(), length)

    def test_cut_off_while_it_is_read(self):
        [process] = leat_tune.processes(self.dir, all=True)
        with process:
            process.snapshot()
            os.truncate(self.path, 5000)
            with self.assertRaises(Corrupt):
                process.snapshot()
            os.truncate(self.path, 0)
            with self.assertRaises(Corrupt):
                process.snapshot()

    def test_many_of_one(self):
        """All slots name the same record: a reader must not read more bytes than the file has."""
        data = bytearray(self.whole)
        for slot in range(fake_block.SLOTS):
            data[fake_block.SLOT_AT + slot * 16 : fake_block.SLOT_AT + slot * 16 + 16] = \
                self.whole[fake_block.SLOT_AT : fake_block.SLOT_AT + 16]
        self.write(data)
        self.assertIsNone(self.look())

    def test_all_odd(self):
        """Every record, change and lease looks as if it was being written, for ever."""
        data = bytearray(self.whole)
        for at in self.records:
            data[at] |= 1
        for i in range(fake_block.CHANGES):
            data[fake_block.CHANGE_AT + i * fake_block.CHANGE.size] |= 1
        for i in range(fake_block.LEASES):
            data[fake_block.LEASE_AT + i * fake_block.LEASE.size] |= 1
        self.write(data)
        snapshot = self.look()
        self.assertEqual((snapshot.objects, snapshot.changes, snapshot.leases), ([], [], []))

    def test_random(self):
        """Random changes anywhere in the block: the outcome is an error or a reading."""
        seed = secrets.randbits(32)
        rnd = random.Random(seed)
        places = [*range(0, 184, 4)]
        places += [fake_block.SLOT_AT + i for i in range(0, len(self.records) * 16, 4)]
        places += [at + i for at in self.records for i in range(0, 80, 4)]
        places += [at + i for at in self.texts for i in range(0, 400, 4)]
        places += [fake_block.CHANGE_AT + i for i in range(0, 48, 4)]
        places += [fake_block.LEASE_AT + i for i in range(0, 32, 4)]
        outcomes = {True: 0, False: 0}
        for round in range(ROUNDS):
            with self.subTest(seed=seed, round=round):
                data = bytearray(self.whole)
                for _ in range(rnd.randint(1, 4)):
                    at = rnd.choice(places)
                    value = rnd.choice((rnd.choice(EXTREMES), rnd.getrandbits(32),
                                        data[at] ^ 1 << rnd.randint(0, 7),
                                        rnd.choice(self.records),
                                        self.length - rnd.randint(0, 512)))
                    struct.pack_into("<I", data, at, value & 0xFFFFFFFF)
                self.write(data)
                outcomes[self.look() is None] += 1
        # Both outcomes occurred, or the test tests nothing.
        self.assertGreater(min(outcomes.values()), ROUNDS // 50, outcomes)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 400 << 10)  # KiB


class Schemas(unittest.TestCase):
    def wrong(self, text):
        if not isinstance(text, bytes):
            text = json.dumps(text).encode()
        with self.assertRaises(Corrupt, msg=text[:200]):
            Schema.parse(text)

    def test_text(self):
        for text in (b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff", b"[" * 100000,
                     b'{"a":' * 50000, b"9" * 100000, b" " * (1 << 19), b"{}", b'{"component":5}'):
            self.wrong(text)

    def test_fields(self):
        def changed(**what):
            tree = schema_of(DESCRIPTIONS["endpoint"])
            for key, value in what.items():
                tree["settings"][0][key] = value
            return tree

        Schema.parse(json.dumps(changed()).encode())
        for what in (
            {"name": "Bad"}, {"name": "x" * 32}, {"name": 5}, {"name": "inline_max"},
            {"type": "int"}, {"type": None},
            {"offset": 8}, {"offset": -8}, {"offset": "0"}, {"bytes": 4}, {"bytes": 1 << 40},
            {"when": "later"},
            {"min": "x"}, {"max": None}, {"max": 1.5}, {"default": "x"}, {"default": None},
            {"default": True},
            {"special": 5}, {"special": {"a": "b"}}, {"special": [1]}, {"aliases": [5]},
            {"aliases": 5}, {"unit": 5},
            {"help": []}, {"values": 5}, {"group": 7},
            {"type": "string", "size": 1 << 30, "bytes": 1 << 30},
            {"type": "enum", "values": []}, {"type": "enum", "values": [1]}, {"quantum": "x"},
            {"unknown": float("nan")}, {"max": float("inf")},
        ):
            self.wrong(changed(**what))
        tree = changed()
        for key, value in (("hash", "x"), ("hash", 5), ("settings", {}), ("settings", [5]),
                           ("reports", [[]]),
                           ("groups", [{"name": "g", "settings": ["none"]}]), ("component", "../x"),
                           ("settings", tree["settings"] * 40)):
            self.wrong({**tree, key: value})

    def test_random(self):
        seed = secrets.randbits(32)
        rnd = random.Random(seed)
        for component, description in DESCRIPTIONS.items():
            text = schema_text(description)
            for round in range(60):
                with self.subTest(seed=seed, component=component, round=round):
                    data = bytearray(text)
                    for _ in range(rnd.randint(1, 3)):
                        at = rnd.randrange(len(data))
                        if rnd.random() < 0.3:
                            del data[at : at + rnd.randint(1, 40)]
                        else:
                            data[at] = rnd.choice(b'0123456789-"{}[],:xeE. ')
                    try:
                        schema = Schema.parse(bytes(data))
                    except Corrupt:
                        continue
                    self.assertLessEqual(schema.settings_size, 16384)
                    schema.pack({})


class Processes(Case):
    """A socket whose other end is no process of leat."""

    def served(self, serve, timeout=0.4):
        """Open a session with that process; return the outcome."""
        fake = FakeProcess(self.dir)
        path = fake.path.replace(".block", ".sock")
        os.unlink(path)
        listen = socket.socket(socket.AF_UNIX)
        listen.bind(path)
        listen.listen(1)

        def run():
            s, _ = listen.accept()
            with s:
                try:
                    serve(s)
                    s.settimeout(20)
                    s.recv(1)  # until the agent disconnects
                except OSError:
                    pass

        thread = threading.Thread(target=run)
        thread.start()
        begin = time.monotonic()
        try:
            with self.only() as process, self.assertRaises(TuneError) as caught:
                with process.session(timeout=timeout) as session:
                    session.set("log.log", {"sync": True})
            return caught.exception
        finally:
            self.assertLess(time.monotonic() - begin, SECONDS)
            thread.join()
            listen.close()
            fake.stop()

    def test_says_nothing(self):
        self.assertIsInstance(self.served(lambda s: None), TimedOut)

    def test_leaves(self):
        self.assertIsInstance(self.served(lambda s: s.shutdown(socket.SHUT_RDWR)), Gone)

    def test_bytes(self):
        self.served(lambda s: s.sendall(b"x" * 4096))

    def test_files(self):
        def serve(s):
            for path in ("/dev/zero", "/dev/null"):
                fd = os.open(path, os.O_RDWR)
                socket.send_fds(s, [b"\1"], [fd])
                os.close(fd)

        self.served(serve)

    def channels(self, *frames):
        kept = []

        def serve(s):
            for n in range(2):
                channel = Channel.memfd(size=1 << 16)
                channel.pass_to(s)
                kept.append(channel)
            for frame in frames:
                kept[1].send(*frame)

        try:
            return self.served(serve)
        finally:
            for channel in kept:
                channel.close()

    def test_no_welcome(self):
        self.assertIsInstance(self.channels(), TimedOut)

    def test_other_frames(self):
        """Frames of unknown types are skipped."""
        self.assertIsInstance(self.channels(*[(77, b"x", 0)] * 50), TimedOut)

    def test_short(self):
        for number in (protocol.Welcome.NUMBER, protocol.Answer.NUMBER, protocol.Sample.NUMBER):
            self.assertIsInstance(self.channels((number, b"x", 0)), Corrupt)

    def test_version(self):
        welcome = protocol.Welcome(version=2, session=1).pack()
        self.assertRegex(str(self.channels((protocol.Welcome.NUMBER, welcome, protocol.HASH))),
                         "version 2")

    def test_answers(self):
        welcome = (protocol.Welcome.NUMBER, protocol.Welcome(version=1, session=1).pack(),
                   protocol.HASH)
        answer = protocol.Answer(request=1, status=0, object=1, epoch=1, mask=1, text="",
                                 payload=b"x")
        self.assertIsInstance(self.channels(welcome, (protocol.Answer.NUMBER, answer.pack(), 5)),
                              Corrupt)
        other = protocol.Answer(request=9, status=0, object=1, epoch=1, mask=1, text="")
        self.assertIsInstance(self.channels(welcome, (protocol.Answer.NUMBER, other.pack(), 5)),
                              TimedOut)
        sample = protocol.Sample(object=1, time_ns=1, epoch=1, payload=b"x" * 8)
        self.assertIsInstance(self.channels(welcome, (protocol.Sample.NUMBER, sample.pack(), 5)),
                              Corrupt)


if __name__ == "__main__":
    unittest.main()
