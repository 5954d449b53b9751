# SPDX-License-Identifier: BSD-3-Clause
"""leat_channel and the interpreter: no use from Python crashes it, or hangs it."""

import copy
import errno
import gc
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import unittest

import leat_channel as lc
from leat_channel import Channel, Full
from test_channel import Case

HEAD = "import sys, threading, leat_channel as lc\n" \
       "from leat_channel import Channel\nname = sys.argv[1]\n"


class Life(Case):
    def script(self, text, **options):
        """Run a script in another process with the module; its argument is the channel's name."""
        p = subprocess.Popen([sys.executable, "-B", "-W", "error", "-c", HEAD + text, self.name],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, **options)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def ends(self, p, code=0):
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err), (code, ""), out)
        return out

    def test_closed(self):
        ch = self.create()
        ch.close()
        ch.close()
        self.assertTrue(ch.closed)
        for call in (lambda: ch.send(1, b"x"), lambda: ch.send_burst([(1, b"x")]),
                     lambda: ch.reserve(1, 1), ch.recv, ch.peek, lambda: ch.dispatch(print),
                     ch.wait,
                     lambda: ch.wait_room(1), ch.recover, ch.inspect, ch.terminate, ch.join,
                     lambda: ch.pass_to(0), lambda: next(iter(ch))):
            with self.refused(lc.Closed, errno.EBADF, "closed"):
                call()
        self.assertRaises(ValueError, ch.recv)  # as with a closed file

    def test_a_copy_of_a_closed_one(self):
        ch = self.create()
        other = copy.copy(ch)
        ch.close()
        self.assertRaises(lc.Closed, other.send, 1, b"x")
        other.close()
        other.close()

    def test_frames_of_a_closed_one(self):
        ch, reader = self.create(), self.open()
        ch.send(1, b"abcdef")
        ch.send(1, b"ghi")
        frames = reader.peek()
        r = ch.reserve(1, 6)
        frame, part = frames[0], r.data[2:]
        slice_ = frame.data[2:4]
        ch.close()
        reader.close()
        self.assertRaises(ValueError, frames.consume)
        self.assertRaises(ValueError, r.commit)
        self.assertRaises(ValueError, bytes, frame.data)
        # A slice keeps its memory alive, though the channel is closed.
        self.assertEqual(bytes(slice_), b"cd")
        part[0] = 1
        info = lc.inspect(self.name)
        self.assertEqual((info.reserved, info.reading, info.returned), (0, 0, 2))
        self.assertEqual(info.participants, 2)
        del slice_, part
        self.assertEqual(lc.inspect(self.name).participants, 0)

    def test_closed_inside_of_a_block(self):
        ch, other = self.create(), self.open()
        ch.send(1, b"x")
        with ch.peek():
            ch.close()
        self.assertEqual(other.recv().data, b"x")
        with other.reserve(1, 1):
            other.close()
        self.assertEqual(lc.inspect(self.name).committed, 0)

    def test_forgotten(self):
        self.create().close()
        ch = Channel.open(self.name)
        ch.send(1, b"x")
        frames = ch.peek()
        data = frames[0].data
        del ch, frames
        gc.collect()
        self.assertEqual(bytes(data), b"x")
        self.assertEqual(lc.inspect(self.name).participants, 1)
        del data
        info = lc.inspect(self.name)
        self.assertEqual((info.participants, info.returned), (0, 1))

    def test_not_made_by_a_constructor(self):
        self.assertRaises((OSError, TypeError, AttributeError), Channel, None, None)
        self.assertRaises((OSError, TypeError), Channel)
        self.assertRaises(AttributeError, Channel.__new__(Channel).send, 1, b"x")

    def test_fork(self):
        ch = self.create()
        ch.send(1, b"x")
        frames = ch.peek()
        part = frames[0].data[:]
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.assertRaises(lc.Closed, ch.send, 1, b"x")
                self.assertRaises(lc.Closed, frames.consume)
                self.assertEqual(bytes(part), b"x")
                ch.close()
                del ch, frames, part
                gc.collect()
                with Channel.open(self.name) as own:
                    own.send(2, b"child")
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        # The child's end took nothing from its parent.
        self.assertEqual(ch.inspect().reading, 1)
        frames.consume()
        self.assertEqual(ch.recv().type, 2)

    def test_fork_while_another_thread_waits(self):
        ch = self.create()
        other = ch.join()
        thread = threading.Thread(target=lambda: self.assertRaises(lc.Terminated, other.wait))
        thread.start()
        while not any(w.waiting for w in ch.inspect().who):
            pass
        pid = os.fork()
        if pid == 0:
            try:
                other.close()
                ch.close()
                gc.collect()
            finally:
                os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        ch.terminate()
        thread.join()
        other.close()

    def test_two_threads_on_one(self):
        ch, writer = self.create(), self.open()
        got = []
        thread = threading.Thread(target=lambda: got.append(ch.recv()))
        thread.start()
        while not any(w.waiting for w in writer.inspect().who):
            pass
        for call in (ch.close, ch.inspect, lambda: ch.send(1, b"x"), lambda: ch.recv(0)):
            with self.refused(lc.Busy, errno.EBUSY, "join"):
                call()
        writer.send(1, b"x")
        thread.join()
        self.assertEqual(got[0].data, b"x")

    def test_many_threads(self):
        ch = self.create(full=Full.WAIT)
        got = []

        def read():
            with ch_of[threading.current_thread()] as mine:
                got.extend(f.data for f in mine)

        def write():
            with ch_of[threading.current_thread()] as mine:
                for i in range(500):
                    mine.send(1, b"%d" % i)

        readers = [threading.Thread(target=read) for _ in range(3)]
        writers = [threading.Thread(target=write) for _ in range(3)]
        ch_of = {t: ch.join(full=Full.WAIT) for t in readers + writers}
        for t in readers + writers:
            t.start()
        for t in writers:
            t.join()
        ch.terminate()
        for t in readers:
            t.join()
        self.assertEqual(sorted(got), sorted([b"%d" % i for i in range(500)] * 3))
        self.assertEqual(ch.inspect().participants, 1)

    def test_interrupted(self):
        """Ctrl-C ends each wait, and no frame stays held."""
        ch = self.create()
        for i in range(63):
            ch.send(1, b"x")
        for call in ("ch.wait_room(1)", "ch.send(1, b'x')", "ch.reserve(1, 1)",
                     "[ch.recv() for _ in range(99)]", "ch.wait()", "ch.peek()",
                     "ch.dispatch(print)", "Channel.accept(0)"):
            p = self.script("ch = Channel.open(name, full=lc.Full.WAIT)\n"
                            "try:\n    print('ready', flush=True)\n"
                            f"    {call}\nexcept KeyboardInterrupt:\n    ch.recover()\n")
            self.assertEqual(p.stdout.readline(), "ready\n")
            while "accept" not in call and not any(w.waiting and w.pid == p.pid
                                                   for w in ch.inspect().who):
                self.assertIsNone(p.poll(), call)
            p.send_signal(signal.SIGINT)
            self.ends(p)
        info = ch.inspect()
        self.assertEqual((info.reserved, info.reading, info.participants), (0, 0, 1))

    def test_exit_while_a_thread_waits(self):
        ch = self.create()
        p = self.script("ch = Channel.open(name)\n"
                        "threading.Thread(target=ch.recv, daemon=True).start()\n"
                        "sys.stdin.readline()\n")
        while not any(w.waiting and w.pid == p.pid for w in ch.inspect().who):
            self.assertIsNone(p.poll())
        self.ends(p)
        ch.recover()
        self.assertEqual(ch.inspect().participants, 1)

    def test_exit_with_all_of_it_in_hand(self):
        ch = self.create()
        ch.send(1, b"x")
        p = self.script("ch = Channel.open(name)\nframes = ch.peek()\nr = ch.reserve(1, 5)\n"
                        "part = frames[0].data[:]\n")
        self.ends(p)
        ch.recover()
        self.assertEqual(ch.recv(0).data, b"x")
        info = ch.inspect()
        self.assertEqual((info.reserved, info.participants), (0, 1))

    def test_killed(self):
        ch = self.create()
        ch.send(1, b"x")
        p = self.script("ch = Channel.open(name)\nframes = ch.peek()\nr = ch.reserve(1, 5)\n"
                        "print('ready', flush=True)\nsys.stdin.readline()\n")
        self.assertEqual(p.stdout.readline(), "ready\n")
        p.kill()
        p.wait()
        self.assertEqual(ch.recv().data, b"x")
        count = ch.inspect().count
        self.assertEqual((count["returned"], count["aborted"]), (1, 1))

    def test_memory_that_lies(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        for turn in range(300):
            with self.subTest(seed=seed, turn=turn):
                with Channel.create(self.name, size=4096) as ch:
                    with open("/dev/shm" + self.name, "r+b") as file:
                        memory = mmap.mmap(file.fileno(), 0)
                    lc.unlink(self.name)
                    ch.send_burst([(1, b"x" * 100)] * 5)
                    for _ in range(8):
                        # leave out the slots: they tell which participants are alive
                        at = rng.choice((rng.randrange(896), rng.randrange(9088, len(memory))))
                        memory[at] = rng.randrange(256)
                        for call in (lambda: ch.recv(0), lambda: ch.send(1, b"y"), ch.inspect,
                                     lambda: ch.peek(timeout=0).give_back(), ch.recover,
                                     lambda: ch.dispatch(lambda f: bytes(f.data), timeout=0)):
                            try:
                                call()
                            except lc.ChannelError:
                                pass
                    memory.close()

    def test_library_elsewhere(self):
        p = self.script("try:\n    lc.load('/nowhere/lib.so')\nexcept OSError as e:\n    print(e)\n"
                        "try:\n    lc.load('libc.so.6')\nexcept OSError as e:\n    print(e)\n"
                        "lc.load()\n"
                        "try:\n    lc.load('x')\nexcept OSError as e:\n    print(e)\n")
        out = self.ends(p)
        self.assertIn("is leat installed", out)
        self.assertIn("not the libleat-channel", out)
        self.assertIn("before", out)


if __name__ == "__main__":
    unittest.main()
