# SPDX-License-Identifier: BSD-3-Clause
"""leat_channel, call by call: results, and refused arguments."""

import asyncio
import errno
import os
import select
import socket
import struct
import threading
import time
import unittest

import leat_channel as lc
from leat_channel import Channel, Frame, Full, Notify, OnDeath, WaitHow

COUNT = iter(range(1 << 30))


def unused_name():
    """Return a name that no channel had before: other processes may use the same /dev/shm."""
    return f"/leat-test-{os.getpid()}-{time.time_ns()}-{next(COUNT)}"


class Case(unittest.TestCase):
    def setUp(self):
        self.name = unused_name()

    def create(self, **options):
        ch = Channel.create(self.name, **({"size": 4096} | options))
        self.addCleanup(ch.close)
        self.addCleanup(lc.unlink, self.name)
        return ch

    def open(self, **options):
        ch = Channel.open(self.name, **options)
        self.addCleanup(ch.close)
        return ch

    def refused(self, kind, number, words=""):
        test = self

        class Context:
            def __enter__(self):
                self.raised = test.assertRaisesRegex(kind, words)
                self.context = self.raised.__enter__()

            def __exit__(self, *args):
                end = self.raised.__exit__(*args)
                test.assertEqual(self.context.exception.errno, number)
                test.assertIsInstance(self.context.exception, OSError)
                return end

        return Context()


class Sending(Case):
    def test_a_frame_arrives(self):
        a = self.create()
        b = self.open()
        self.assertTrue(a.send(7, b"hello", 0xFFFF_FFFF_FFFF_FFFF))
        self.assertEqual(b.recv(), Frame(7, b"hello", 0xFFFF_FFFF_FFFF_FFFF))

    def test_all_that_is_like_bytes(self):
        ch = self.create()
        for data in (b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"cba")[::-1]):
            ch.send(1, data)
            self.assertEqual(ch.recv().data, b"abc")

    def test_nonsense(self):
        ch = self.create()
        for args in ((1, "text"), (1, 5), (1, None), ("1", b"x"), (1.5, b"x"), (1, b"x", "y")):
            self.assertRaises(TypeError, ch.send, *args)
        for args in ((-1, b"x"), (1 << 32, b"x"), (1, b"x", -1), (1, b"x", 1 << 64)):
            self.assertRaises(ValueError, ch.send, *args)
        with self.refused(lc.ChannelError, errno.EINVAL, "type 0"):
            ch.send(0, b"x")
        with self.refused(lc.ChannelError, errno.EINVAL, "no length"):
            ch.send(1, b"")
        with self.refused(lc.ChannelError, errno.EMSGSIZE, "at most 2032"):
            ch.send(1, bytes(2033))
        self.assertEqual(ch.max, 2032)
        self.assertEqual(ch.inspect().write, 0)

    def test_bursts(self):
        ch = self.create()
        frames = [Frame(1, b"a"), (2, b"bb"), (3, b"ccc", 4)]
        self.assertEqual(ch.send_burst(frames), 3)
        self.assertEqual(ch.send_burst([]), 0)
        self.assertEqual([ch.recv() for _ in frames],
                         [Frame(1, b"a", 0), Frame(2, b"bb", 0), Frame(3, b"ccc", 4)])
        self.assertRaises(TypeError, ch.send_burst, [(1,)])
        self.assertRaises(TypeError, ch.send_burst, [5])
        self.assertRaises(ValueError, ch.send_burst, [(1 << 40, b"x")])
        with self.refused(lc.ChannelError, errno.EINVAL):
            ch.send_burst([(1, b"")])
        # Frames before the invalid one are sent.
        self.assertEqual(ch.send_burst([(1, b"x"), (0, b"x"), (1, b"x")]), 1)

    def test_reserving(self):
        ch = self.create()
        with ch.reserve(2, 8, 3) as data:
            self.assertEqual(len(data), 8)
            struct.pack_into("<Q", data, 0, 42)
            with self.refused(lc.Busy, errno.EBUSY):
                ch.send(1, b"x")
        self.assertEqual(ch.recv(), Frame(2, struct.pack("<Q", 42), 3))
        self.assertRaises(ValueError, data.__setitem__, 0, 1)
        with self.assertRaises(KeyError):
            with ch.reserve(2, 8):
                raise KeyError("on the way")
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            ch.recv(0)
        r = ch.reserve(1, 1)
        r.data[0] = 5
        r.commit()
        self.assertRaises(ValueError, r.commit)
        self.assertRaises(ValueError, r.abort)
        self.assertEqual(ch.recv().data, b"\5")
        with self.assertRaises(IndexError):
            with ch.reserve(1, 4) as data:
                data[4] = 1
        self.assertRaises(ValueError, ch.reserve, 1, -1)
        with self.refused(lc.ChannelError, errno.EMSGSIZE):
            ch.reserve(1, 1 << 31)

    def test_full(self):
        self.create()
        fail, newest = self.open(), self.open(full=Full.DROP_NEWEST)
        oldest, waits = self.open(full=Full.DROP_OLDEST), self.open(full=Full.WAIT,
                                                                    full_timeout=0.05)
        for i in range(63):
            fail.send(1, bytes([i]))
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            fail.send(1, b"x")
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            waits.send(1, b"x")
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            waits.reserve(1, 1)
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            newest.reserve(1, 1)
        self.assertFalse(newest.send(1, b"x"))
        self.assertFalse(fail.wait_room(1, 0))
        self.assertFalse(fail.wait_room(1, 0.01))
        self.assertTrue(oldest.send(1, b"new"))
        self.assertEqual(fail.recv().data, b"\1")
        self.assertTrue(fail.wait_room(1))
        self.assertEqual(waits.send_burst([(1, b"a"), (1, b"b")]), 1)
        count = fail.inspect().count
        self.assertEqual((count["overwritten"], count["received"], count["sent"]), (1, 1, 65))

    def test_waiting_for_room(self):
        ch = self.create()
        writer = self.open(full=Full.WAIT)
        sent = [(1, struct.pack("<I", i)) for i in range(1000)]
        thread = threading.Thread(target=lambda: (writer.send_burst(sent), writer.terminate()))
        thread.start()
        got = [struct.unpack("<I", f.data)[0] for f in ch]
        thread.join()
        self.assertEqual(got, list(range(1000)))


class Receiving(Case):
    def test_nothing_there(self):
        ch = self.create()
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            ch.recv(timeout=0)
        with self.refused(lc.TimedOut, errno.ETIMEDOUT):
            ch.recv(timeout=0.01)
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            ch.peek(timeout=0)
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            ch.dispatch(print, timeout=0)
        self.assertFalse(ch.wait(0))
        self.assertFalse(ch.wait(0.01))
        self.assertRaises(ValueError, ch.recv, -1)
        self.assertRaises(ValueError, ch.wait, float("nan"))
        self.assertRaises(TypeError, ch.wait, "1")

    def test_peek(self):
        ch = self.create()
        ch.send_burst([(i, b"%d" % i) for i in range(1, 6)])
        with ch.peek(3) as frames:
            self.assertEqual([bytes(f.data) for f in frames], [b"1", b"2", b"3"])
            self.assertEqual((len(frames), frames[2].type), (3, 3))
            self.assertTrue(frames[0].data.readonly)
            with self.refused(lc.Busy, errno.EBUSY):
                ch.peek()
            first = frames[0].data
        self.assertRaises(ValueError, bytes, first)
        self.assertRaises(ValueError, frames.consume)
        with self.assertRaises(KeyError):
            with ch.peek():
                raise KeyError("on the way")
        frames = ch.peek()
        self.assertEqual({f.type for f in frames}, {4})  # out of order, so one by one
        frames.give_back()
        self.assertRaises(ValueError, frames.give_back)
        self.assertEqual({ch.recv().type, ch.recv().type}, {4, 5})
        for n in (0, 65):
            with self.refused(lc.ChannelError, errno.EINVAL):
                ch.peek(n, timeout=0)
        self.assertRaises(ValueError, ch.peek, -1)
        self.assertRaises(TypeError, ch.peek, "1")

    def test_dispatch(self):
        ch = self.create()
        ch.send_burst([(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")])
        seen = []

        def keep(frame):
            seen.append(frame.data)
            self.assertRaises(lc.Busy, ch.send, 1, b"x")
            self.assertRaises(lc.Busy, ch.close)
            return frame.type == 3

        self.assertEqual(ch.dispatch(keep), 2)
        self.assertEqual(len(seen), 3)
        self.assertRaises(ValueError, bytes, seen[0])
        self.assertEqual(ch.dispatch(lambda frame: True), 0)

        def fails(frame):
            raise KeyError(frame.type)

        self.assertRaises(KeyError, ch.dispatch, fails)
        self.assertEqual({ch.recv().type, ch.recv().type}, {3, 4})
        ch.send(5, b"e")
        self.assertRaises(TypeError, ch.dispatch, None)
        self.assertEqual(ch.recv().type, 5)

    def test_given_back_too_often(self):
        ch = self.create()
        ch.send(1, b"x")
        for _ in range(lc.DELIVERIES):
            ch.peek(timeout=0).give_back()
        with self.refused(lc.WouldBlock, errno.EAGAIN):
            ch.peek(timeout=0)
        self.assertEqual(ch.inspect().count["lost"], 1)

    def test_the_end(self):
        ch = self.create()
        ch.send(1, b"last")
        ch.terminate()
        ch.terminate()
        with self.refused(lc.Terminated, errno.ESHUTDOWN, "terminated"):
            ch.send(1, b"x")
        with self.refused(lc.Terminated, errno.ESHUTDOWN):
            ch.wait_room(1)
        self.assertEqual([f.data for f in ch], [b"last"])
        for call in (ch.recv, ch.peek, ch.wait, lambda: ch.dispatch(print)):
            with self.refused(lc.Terminated, errno.ESHUTDOWN):
                call()
        self.assertTrue(ch.inspect().ended)

    def test_who_waits_wakes(self):
        ch = self.create()
        for how in WaitHow:
            reader = self.open(wait=how)
            got = []
            thread = threading.Thread(target=lambda r=reader: got.append(r.recv()))
            thread.start()
            ch.send(1, b"x")
            thread.join()
            self.assertEqual(got, [Frame(1, b"x", 0)])


class Making(Case):
    def test_names(self):
        with self.refused(lc.NotFound, errno.ENOENT, self.name):
            Channel.open(self.name)
        with self.refused(lc.NotFound, errno.ENOENT):
            lc.inspect(self.name)
        with self.refused(lc.NotFound, errno.ENOENT):
            lc.unlink(self.name)
        self.create()
        with self.refused(lc.Exists, errno.EEXIST):
            Channel.create(self.name)
        self.assertRaises(ValueError, Channel.create, "/a\0b")
        self.assertRaises(TypeError, Channel.create, 5)
        self.assertRaises(OSError, Channel.create, "/a/b")
        self.assertRaises(OSError, Channel.create, "")
        with Channel.open(os.fsencode(self.name)) as ch:
            self.assertEqual(ch.inspect().size, 4096)

    def test_options(self):
        for bad in ({"size": 5000}, {"participants": 65}, {"start": 1}, {"check_ms": 60001},
                    {"notify": Notify.EVENTFD}):
            with self.refused(lc.ChannelError, errno.EINVAL):
                Channel.create(self.name, **bad)
        for bad in ({"size": -1}, {"size": 1 << 64}, {"notify": 9}, {"full": 9}, {"wait": -1},
                    {"full_timeout": -1}, {"invalid": "end"}):
            self.assertRaises(ValueError, Channel.create, self.name, **bad)
        self.assertRaises(TypeError, Channel.create, self.name, bogus=1)
        self.assertRaises(TypeError, Channel.create, self.name, size="1M")
        with self.refused(lc.NotFound, errno.ENOENT):
            lc.inspect(self.name)
        ch = self.create(participants=2, notify=Notify.NONE, on_death=OnDeath.DROP,
                         start=-64 & (1 << 64) - 1)
        info = ch.inspect()
        self.assertEqual((info.participants_max, info.notify, info.on_death, info.write),
                         (2, Notify.NONE, OnDeath.DROP, (1 << 64) - 64))
        ch.send(1, b"round")
        self.assertEqual((ch.recv().data, ch.inspect().read), (b"round", 0))
        self.open()
        with self.refused(lc.ChannelError, errno.EUSERS):
            Channel.open(self.name)

    def test_not_a_channel(self):
        path = "/dev/shm" + self.name
        with open(path, "wb") as file:
            self.addCleanup(os.unlink, path)
            with self.refused(lc.WouldBlock, errno.EAGAIN, "being made"):
                Channel.open(self.name)
            file.write(b"x" * 65536)
        with self.refused(lc.Corrupt, errno.EPROTO, "magic"):
            Channel.open(self.name)
        with self.refused(lc.Corrupt, errno.EPROTO):
            lc.inspect(self.name)

    def test_passing(self):
        for notify in (Notify.FUTEX, Notify.EVENTFD):
            a, b = socket.socketpair()
            with a, b, Channel.memfd(size=4096, notify=notify) as ch:
                ch.pass_to(a)
                with Channel.accept(b, timeout=60) as other:
                    ch.send(1, b"over there")
                    self.assertEqual(other.recv().data, b"over there")
                    ch.pass_to(a.fileno())
                    with Channel.accept(b.fileno()) as third:
                        self.assertEqual(third.inspect().participants, 3)
                with self.refused(lc.TimedOut, errno.ETIMEDOUT):
                    Channel.accept(b, timeout=0.01)
                a.send(b"x")
                with self.refused(lc.Corrupt, errno.EPROTO, "without descriptors"):
                    Channel.accept(b)
                with open("/dev/null", "rb") as null:
                    socket.send_fds(a, [b"x"], [null.fileno()])
                with self.refused(lc.Corrupt, errno.EPROTO):
                    Channel.accept(b)
                a.close()
                with self.refused(lc.ChannelError, errno.ECONNRESET):
                    Channel.accept(b)
                self.assertRaises(OSError, ch.pass_to, b)

    def test_joining(self):
        ch = self.create()
        other = ch.join(full=Full.DROP_NEWEST)
        ch.close()
        other.send(1, b"x")
        self.assertEqual(other.inspect().participants, 1)
        other.close()

    def test_inspect(self):
        ch = self.create()
        ch.send_burst([(1, b"a"), (1, b"b"), (1, b"c")])
        with ch.peek(1), ch.reserve(1, 1):
            info = lc.inspect(self.name)
            self.assertEqual(info, ch.inspect())
            self.assertEqual((info.committed, info.reading, info.reserved), (2, 1, 1))
            self.assertEqual((info.write, info.read, info.free), (256, 64, 0))
            self.assertEqual([(w.pid, w.alive) for w in info.who], [(os.getpid(), True)])
            self.assertEqual(info.who[0].count["sent"], 3)
        self.assertEqual(ch.recover(), 0)

    def test_event_loops(self):
        with Channel.memfd(notify=Notify.EVENTFD, participants=3) as ch:
            a, b = ch.join(), ch.join()
            with a, b:
                for reader in (a, b):
                    self.assertFalse(reader.arm())
                self.assertEqual(select.select([a, b], [], [], 0)[0], [])
                ch.send(1, b"x")
                self.assertEqual(select.select([a, b], [], [], 0)[0], [a, b])
                self.assertEqual(a.recv().data, b"x")
                self.assertEqual(select.select([b], [], [], 0)[0], [b])
                self.assertFalse(b.arm())
                self.assertEqual(ch.arm(lc.ArmFor.ROOM, 100), lc.ArmFor.ROOM)
                ch.terminate()
                self.assertEqual(select.select([b], [], [], 0)[0], [b])
                with self.refused(lc.Terminated, errno.ESHUTDOWN):
                    b.arm()
                with self.refused(lc.ChannelError, errno.EINVAL):
                    b.arm(8)
        with self.refused(lc.ChannelError, errno.EOPNOTSUPP):
            self.create().fileno()

    def test_asyncio(self):
        """The example of the guide: doc/guide/channel-use.md."""
        with open(os.path.join(os.path.dirname(__file__), "../../doc/guide/channel-use.md"),
                  encoding="utf-8") as file:
            code = file.read().split("```python\nimport asyncio", 1)[1].split("```")[0]
        names = {}
        exec("import asyncio" + code, names)

        async def read(ch, got):
            async for frame in names["frames"](ch):
                got.append(frame.type)

        async def write(ch):
            for i in range(1, 1001):
                while not ch.wait_room(1, 0):
                    await asyncio.sleep(0)
                ch.send(i, b"x")
                if i % 10 == 0:
                    await asyncio.sleep(0)
            ch.terminate()

        async def main(ch, readers):
            got = [[] for _ in readers]
            await asyncio.gather(write(ch), *(read(r, g) for r, g in zip(readers, got)))
            return got

        with Channel.memfd(size=4096, notify=Notify.EVENTFD, participants=4) as ch:
            readers = [ch.join(check_ms=60000) for _ in range(3)]
            got = asyncio.run(main(ch, readers))
            for reader in readers:
                reader.close()
        self.assertEqual(sorted(sum(got, [])), list(range(1, 1001)))

    def test_eventfds_wake(self):
        a, b = socket.socketpair()
        with a, b, Channel.memfd(notify=Notify.EVENTFD) as ch:
            ch.pass_to(a)
            self.assertTrue(select.select([b], [], [], 60)[0])
            reader = Channel.accept(b)
            got = []
            thread = threading.Thread(target=lambda: got.extend(reader))
            thread.start()
            ch.send(1, b"x")
            ch.terminate()
            thread.join()
            reader.close()
            self.assertEqual(got, [Frame(1, b"x", 0)])


if __name__ == "__main__":
    unittest.main()
