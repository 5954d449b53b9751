# SPDX-License-Identifier: BSD-3-Clause
"""The example of the channel: test_channel.py WRITER READER"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

import leat_channel as lc

WRITER, READER = sys.argv[1:3]
DEADLINE = 60


class Example(unittest.TestCase):
    def setUp(self):
        # A name that no test had before: /dev/shm may be shared with others.
        self.name = f"/leat-test-{os.getpid()}-{time.time_ns()}"
        self.addCleanup(lambda: os.path.exists("/dev/shm" + self.name) and lc.unlink(self.name))

    def start(self, *args):
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def writer(self, *args):
        return self.start(WRITER, self.name, *args)

    def reader(self):
        return self.start(sys.executable, "-B", "-W", "error", READER, self.name)

    def ends(self, p, code=0, err=""):
        out, said = p.communicate(timeout=DEADLINE)
        self.assertEqual(p.returncode, code, out + said)
        self.assertRegex(said, f"^{err}$")
        return out

    def until(self, what):
        end = time.monotonic() + DEADLINE
        while True:
            try:
                if what(lc.inspect(self.name)):
                    return
            except (lc.NotFound, lc.WouldBlock):
                pass
            self.assertLess(time.monotonic(), end)

    def counted(self, out):
        """The numbers of samples received and lost."""
        m = re.match(
            r"(\d+) samples, (\d+) lost, in [\d.]+ s: (\d+) packets, depth ([\d.]+) on average, "
                     r"(\d+) at most\n$", out)
        self.assertIsNotNone(m, out)
        self.assertLess(int(m[5]), 32)
        return int(m[1]), int(m[2])

    def add_up(self, writer, reader):
        """Compare the counts of writer and reader. A refused sample shows at the next one."""
        sent, refused = map(int, re.match(r"(\d+) samples, (\d+) without room\n$",
                                          self.ends(writer)).groups())
        got, lost = self.counted(self.ends(reader))
        self.assertLessEqual(got + lost, sent)
        self.assertGreaterEqual(got + lost, sent - refused)
        return sent

    def test_the_reader_comes_first(self):
        reader = self.reader()
        self.until(lambda info: any(w.waiting for w in info.who))
        self.assertEqual(self.ends(self.writer("3000")), "3000 samples, 0 without room\n")
        self.assertEqual(self.counted(self.ends(reader)), (3000, 0))
        self.assertRaises(lc.NotFound, lc.inspect, self.name)

    def test_the_writer_comes_first(self):
        self.ends(self.writer("3000"))
        self.assertEqual(self.counted(self.ends(self.reader())), (3000, 0))

    def test_at_the_same_time(self):
        reader, writer = self.reader(), self.writer("200000")
        self.assertEqual(self.add_up(writer, reader), 200000)

    def test_the_writer_is_asked_to_end(self):
        reader, writer = self.reader(), self.writer()
        self.until(lambda info: info.count["received"] > 1000)
        writer.send_signal(signal.SIGINT)
        self.add_up(writer, reader)

    def test_the_writer_is_killed(self):
        reader, writer = self.reader(), self.writer()
        self.until(lambda info: info.count["received"] > 1000)
        writer.kill()
        out = self.ends(reader, 1, "reader: the writer died\n")
        self.assertGreater(self.counted(out)[0], 1000)

    def test_the_reader_is_killed(self):
        reader, writer = self.reader(), self.writer()
        self.until(lambda info: info.count["received"] > 1000)
        reader.kill()
        reader.communicate()
        reader = self.reader()
        self.until(lambda info: any(w.pid == reader.pid for w in info.who))
        writer.send_signal(signal.SIGTERM)
        self.ends(writer)
        self.counted(self.ends(reader))

    def test_a_writer_of_something_else(self):
        reader = self.reader()
        self.until(lambda info: any(w.waiting for w in info.who))
        with lc.Channel.open(self.name) as ch:
            ch.send(9, b"of a type that it does not know")
            ch.send(1, bytes(32), hash=5)
        self.ends(reader, 1, "reader: the writer means something else by a sample\n")

    def test_nonsense(self):
        self.ends(self.writer("0"), 2, "usage: .*\n")
        self.ends(self.writer("5"))
        self.ends(self.writer("5"), 1, "writer: .*leat-channel destroy\n")
        self.name += "/x"
        self.ends(self.writer(), 1, "writer: .*Invalid argument\n")
        self.ends(self.reader(), 1, "reader: .*Invalid argument\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
