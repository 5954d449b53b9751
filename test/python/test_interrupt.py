# SPDX-License-Identifier: BSD-3-Clause
"""leat_channel and KeyboardInterrupt, which may come whenever Python looks for signals.

Steps: an interrupt at each place where CPython looks for signals, one after the other: after a
call, at the begin of a function, when a loop repeats. Signals: real ones, as many as possible, at
any time.
"""

import dis
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

import leat_channel as lc
from leat_channel import Channel, Full, WaitHow

MODULE = os.path.dirname(lc.__file__)
LOOKS = {"RESUME", "JUMP_BACKWARD"}
INTERRUPTED = 600
SECONDS = 4


def places(code, known={}):
    """Return offsets of the instructions before which CPython has looked for signals."""
    if code not in known:
        last, found = None, set()
        for i in dis.get_instructions(code):
            if last is not None and (last in LOOKS or last.startswith("CALL")):
                found.add(i.offset)
            last = i.opname
        known[code] = found
    return known[code]


class Interrupter:
    """Raise KeyboardInterrupt at the kth place in the module."""

    def __init__(self, k):
        self.left = k
        self.where = None
        self.back = None

    def __enter__(self):
        sys.settrace(self.call)
        return self

    def __exit__(self, *args):
        sys.settrace(None)

    def call(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(MODULE) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, arg):
        if event == "return":
            # CPython does not look for signals when a Python function returns to another one; it
            # does when __init__() or __new__() returns to the call of a type.
            self.back = frame.f_back if frame.f_code.co_name not in ("__init__",
                                                                     "__new__") else None
            return self.step
        if event == "opcode" and frame is self.back:
            self.back = None
        elif event == "opcode" and frame.f_lasti in places(frame.f_code):
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.step


class Steps(unittest.TestCase):
    def setUp(self):
        self.ch = Channel.memfd(size=4096, full=Full.WAIT, full_timeout=5)
        self.addCleanup(self.ch.close)
        self.number = 0

    def send(self, n=1):
        """Send numbered frames, uninterrupted."""
        new = range(self.number, self.number + n)
        self.number += n
        for i in new:
            self.ch.send(1, struct.pack("<I", i))
        return list(new)

    def at_each_place(self, act, check, frames=0):
        """Interrupt act() at each of its places in turn, with so many frames sent before; then call
        check()."""
        k = 0
        while True:
            k += 1
            self.wanted = self.send(frames)
            with Interrupter(k) as it:
                try:
                    act()
                # In the except block the exception keeps alive what was on the stack.
                except KeyboardInterrupt:
                    sys.settrace(None)
                    try:
                        check()
                    except Exception as e:
                        raise AssertionError(f"interrupted at {it.where}") from e
            if it.left > 0:
                self.assertGreater(k, 5)
                return
            self.assertEqual(self.ch.inspect().count["lost"], 0)

    def drained(self):
        got = []
        while True:
            try:
                got.append(struct.unpack("<I", self.ch.recv(0).data)[0])
            except lc.WouldBlock:
                return got

    def test_recv(self):
        """Frames that an interrupted recv did not return are delivered to the next call, once, and
        in order."""
        got, want = [], []

        def act():
            want.extend(self.wanted)
            got.append(struct.unpack("<I", self.ch.recv().data)[0])

        def check():
            got.extend(self.drained())
            self.assertEqual(got, want)

        self.at_each_place(act, check, 3)

    def test_iterator(self):
        got, want = [], []

        def act():
            want.extend(self.wanted)
            for frame in self.ch:
                got.append(struct.unpack("<I", frame.data)[0])
                if got[-1] == want[-1]:
                    break

        def check():
            got.extend(self.drained())
            self.assertEqual(got, want)

        self.at_each_place(act, check, 3)

    def test_peek(self):
        """Frames of a peek are consumed at the end of the block, given back if the exception leaves
        the block, and held if the block never began."""
        seen, again = [], []

        def act():
            seen.clear()
            again.clear()
            with self.ch.peek() as frames:
                seen.extend(struct.unpack("<I", f.data)[0] for f in frames)

        def check():
            # peek and recv find the same held frames; all but those that a block had are new.
            try:
                with self.ch.peek(2, timeout=0) as frames:
                    again.extend(struct.unpack("<I", f.data)[0] for f in frames)
            except lc.WouldBlock:
                pass
            again.extend(self.drained())
            self.assertIn(sorted(again), ([], self.wanted))
            self.assertEqual(sorted(set(seen + again)), self.wanted)
            self.assertEqual(len(again) + (len(seen) if not again else 0), 3)

        self.at_each_place(act, check, 3)
        self.assertEqual(self.ch.inspect().reading, 0)

    def test_peek_then_recv(self):
        """Frames of an interrupted peek come out of recv, one by one, and none counts as
        redelivered."""

        def act():
            self.frames = None
            self.frames = self.ch.peek(5)
            self.frames.consume()

        def check():
            if self.frames is not None:
                # Interrupted in consume(): before or after it. (More frames may be behind the
                # buffer's end.)
                try:
                    self.frames.consume()
                except ValueError:
                    pass
                rest = self.drained()
                self.assertEqual(rest, self.wanted[5 - len(rest):])
                self.assertLess(len(rest), 5)
                return
            got = []
            while len(got) < 5:
                frame = self.ch.recv(0)
                self.assertEqual(frame.redelivered, 0)
                got.append(struct.unpack("<I", frame.data)[0])
            self.assertEqual(got, self.wanted)
            self.assertEqual(self.drained(), [])

        self.at_each_place(act, check, 5)

    def test_reserve(self):
        def act():
            self.block = False
            with self.ch.reserve(1, 4) as data:
                struct.pack_into("<I", data, 0, 7)
                self.block = True

        def check():
            self.assertIn(self.drained(), ([], [7]))
            self.send()
            self.assertEqual(len(self.drained()), 1)
            self.assertEqual(self.ch.inspect().reserved, 0)

        self.at_each_place(act, check)

    def test_send(self):
        """An interrupted frame is sent or not, but nothing blocks the next call."""

        def act():
            self.drained()
            self.ch.send(1, b"x" * 4)
            self.ch.send_burst([(1, b"y" * 4), (2, b"z" * 4)])

        def check():
            with lc.Channel.join(self.ch) as other:
                self.assertTrue(other.send(1, b"abcd"))
            self.assertIn(len(self.drained()), (1, 2, 3, 4))

        self.at_each_place(act, check)

    def test_dispatch(self):
        """Frames that were not passed to the function are delivered, and so is the one of the
        interrupted call."""
        seen = []

        def act():
            seen.clear()
            self.ch.dispatch(lambda f: seen.append(struct.unpack("<I", f.data)[0]))

        def check():
            got = self.drained()
            self.assertEqual(sorted(set(seen + got)), self.wanted)
            self.assertEqual(len(set(got)), len(got))
            self.assertLessEqual(len(seen) + len(got), 4)

        self.at_each_place(act, check, 3)

    def test_waits(self):
        def act():
            self.assertFalse(self.ch.wait(0))
            self.assertTrue(self.ch.wait_room(4))
            self.ch.recover()
            self.ch.inspect()

        def check():
            self.send()
            self.assertTrue(self.ch.wait(5))
            self.assertEqual(len(self.drained()), 1)

        self.at_each_place(act, check)

    def test_another_thread_goes_on(self):
        """An interrupted call must not look like one under way to another thread."""

        def act():
            self.ch.wait(0)

        def check():
            said = []
            thread = threading.Thread(target=lambda: said.append(self.ch.wait(0)))
            thread.start()
            thread.join()
            self.assertEqual(said, [False])

        self.at_each_place(act, check)

    def test_making(self):
        """An interrupted join leaves no participant behind."""

        def act():
            with self.ch.join() as other:
                other.wait(0)

        k = 0
        while True:
            k += 1
            with Interrupter(k) as it:
                try:
                    act()
                except KeyboardInterrupt:
                    pass
            sys.settrace(None)
            it.back = None
            self.assertEqual(self.ch.inspect().participants, 1, it.where)
            if it.left > 0:
                break


class Signals(unittest.TestCase):
    """SIGINT from another process, at any time, some hundred times: for each call in turn."""

    def setUp(self):
        self.armed = False
        self.raised = 0
        self.inbox = []
        was = signal.signal(signal.SIGINT, self.on_signal)
        self.addCleanup(signal.signal, signal.SIGINT, was)
        self.source = subprocess.Popen([sys.executable, "-c", (
            "import os, random, sys, time\n"
            "sys.stdin.readline()\n"
            "try:\n"
            "    while True:\n"
            "        os.kill(int(sys.argv[1]), 2)\n"
            "        time.sleep(random.random() / 1000)\n"
            "except ProcessLookupError:\n"
            "    pass\n"), str(os.getpid())], stdin=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.stop)

    def stop(self):
        self.source.kill()
        self.source.wait()
        self.source.stdin.close()

    def on_signal(self, number, frame):
        if self.armed:
            self.armed = False
            self.raised += 1
            raise KeyboardInterrupt

    def interrupted(self, steps):
        """Run the steps in turn, until enough of them were interrupted."""
        self.source.stdin.write(b"\n")
        self.source.stdin.flush()
        end = time.monotonic() + SECONDS
        k = 0
        while self.raised < INTERRUPTED and (time.monotonic() < end or self.raised < 50):
            step = steps[k % len(steps)]
            k += 1
            try:
                self.armed = True
                step()
                self.armed = False
            except KeyboardInterrupt:
                pass
            finally:
                self.armed = False
        self.stop()

    def check(self, reads):
        """Each sent frame arrives once; an interrupted send may have sent its frame."""
        with Channel.memfd(size=4096,
                           full=Full.DROP_NEWEST) as ch, ch.join(wait=WaitHow.NOTIFY) as reader:
            sure, maybe, got = set(), set(), []
            number = iter(range(1 << 30))

            def send():
                n = next(number)
                maybe.add(n)
                if not ch.send(1, struct.pack("<I", n)):
                    maybe.discard(n)
                else:
                    sure.add(n)

            def burst():
                n = [next(number) for _ in range(3)]
                maybe.update(n)
                ch.send_burst([(1, struct.pack("<I", i)) for i in n])

            def reserve():
                n = next(number)
                maybe.add(n)
                try:
                    with ch.reserve(1, 4) as data:
                        struct.pack_into("<I", data, 0, n)
                except lc.WouldBlock:
                    pass

            def take(frame):
                n = struct.unpack("<I", frame.data)[0]
                if not frame.redelivered or n not in got:
                    got.append(n)

            self.interrupted([send, lambda: reads(reader, take), reserve,
                              lambda: reads(reader, take), burst, lambda: reads(reader, take)])
            self.inbox, inbox = [], self.inbox
            for frame in inbox:
                take(frame)
            lost = ch.inspect().count["lost"]
            try:
                while True:
                    take(reader.recv(0))
            except lc.WouldBlock:
                pass
            self.assertEqual(len(set(got)), len(got))
            self.assertLessEqual(set(got), maybe)
            self.assertLessEqual(len(sure - set(got)), lost)
            info = ch.inspect()
            self.assertEqual((info.reserved, info.reading, info.committed), (0, 0, 0))
            self.assertGreater(self.raised, 10)
            return lost

    def test_recv(self):
        def reads(reader, take):
            try:
                # Python looks for signals only when the result of recv() is in the list.
                self.inbox.append(reader.recv(0.001))
            except lc.TimedOut:
                pass

        self.assertEqual(self.check(reads), 0)

    def test_peek_and_dispatch(self):
        turn = iter(range(1 << 30))

        def reads(reader, take):
            try:
                if next(turn) % 2 == 0:
                    with reader.peek(4, timeout=0.001) as frames:
                        for frame in frames:
                            take(frame)
                else:
                    reader.dispatch(take, 4, timeout=0)
            except (lc.TimedOut, lc.WouldBlock):
                pass

        self.check(reads)


if __name__ == "__main__":
    unittest.main()
