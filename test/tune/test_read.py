# SPDX-License-Identifier: BSD-3-Clause
"""leat_tune: the directory, blocks that are complete, torn or old, schemas, histograms."""

import contextlib
import errno
import io
import os
import re
import socket
import stat
import sys
import threading
import unittest
import unittest.mock

import leat_tune
from fake_process import FakeProcess
from leat_tune import (Corrupt, DirError, Histogram, Schema, TuneError, Unknown, bucket_begin,
                       bucket_of)
from fake_schemas import DESCRIPTIONS, schema_text
from tune_case import Case

GUIDE = sys.argv.pop(1)


class Directory(Case):
    def refused(self, path, number):
        with self.assertRaises(DirError) as caught:
            leat_tune.processes(path)
        self.assertEqual(caught.exception.errno, number)

    def test_link(self):
        link = self.dir + "/link"
        os.mkdir(self.dir + "/real", 0o700)
        os.symlink("real", link)
        self.assertEqual(leat_tune.processes(self.dir + "/real"), [])
        for path in (link, link + "/"):
            with self.assertRaisesRegex(DirError, "symbolic link"):
                leat_tune.processes(path)

    def test_mode(self):
        for mode in (0o755, 0o770, 0o701):
            os.chmod(self.dir, mode)
            self.refused(self.dir, errno.EACCES)
        os.chmod(self.dir, 0o700)
        self.assertEqual(leat_tune.processes(self.dir), [])

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_owner(self):
        with FakeProcess(self.dir) as fake:
            os.chown(fake.path, 65534, -1)
            found, problems = leat_tune.scan(self.dir)
            self.assertEqual((found, len(problems)), ([], 1))
            self.assertRegex(str(problems[0]), "owned by uid 65534")
            os.chown(fake.path, 0, -1)
            os.chown(self.dir, 65534, -1)
            self.refused(self.dir, errno.EACCES)
            os.chown(self.dir, 0, -1)
            self.assertEqual(self.only().pid, os.getpid())
            socket_path = fake.path.replace(".block", ".sock")
            os.chown(socket_path, 65534, -1)
            with self.assertRaises(Corrupt):
                self.only().session()
            os.chown(socket_path, 0, -1)

    @unittest.skipIf(os.geteuid() != 0, "only root becomes another user")
    def test_other_user(self):
        """Another user can't read it."""
        with FakeProcess(self.dir) as fake:
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    os.setgroups([])
                    os.setresgid(65534, 65534, 65534)
                    os.setresuid(65534, 65534, 65534)
                    status = self.tried_by_another(fake.path)
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def tried_by_another(self, path):
        """Return how often another user got further than permitted: the exit status."""
        through = 0
        try:
            leat_tune.scan(self.dir)
            through += 1
        except DirError as e:
            through += e.errno != errno.EACCES
        with socket.socket(socket.AF_UNIX) as s:
            for call in (lambda: open(path, "rb").close(),
                         lambda: s.connect(path.replace(".block", ".sock"))):
                try:
                    call()
                    through += 1
                except PermissionError:
                    pass
        return through

    def test_missing(self):
        with self.assertRaises(TuneError) as caught:
            leat_tune.processes(self.dir + "/none")
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        with open(self.dir + "/file", "w"):
            pass
        self.refused(self.dir + "/file", errno.ENOTDIR)

    def test_files(self):
        """Files in a block's place that are no blocks."""
        with FakeProcess(self.dir) as fake:
            stem = f"{self.dir}/123-0123456789abcde"
            os.symlink(fake.path, stem + "0.block")
            os.mkfifo(stem + "1.block", 0o600)
            os.mkdir(stem + "2.block", 0o700)
            with open(stem + "3.block", "wb") as short:
                os.fchmod(short.fileno(), 0o600)
            with open(stem + "4.block", "wb") as other, open(fake.path, "rb") as block:
                os.fchmod(other.fileno(), 0o600)
                other.write(block.read())  # another pid and instance
            with open(stem + "5.block", "wb") as open_to_all:
                os.fchmod(open_to_all.fileno(), 0o644)
            with open(self.dir + "/readme", "w"):
                pass
            found, problems = leat_tune.scan(self.dir, all=True)
            self.assertEqual([p.pid for p in found], [os.getpid()])
            self.assertEqual(len(problems), 6)
            for problem in problems:
                self.assertIsInstance(problem, Corrupt)

    def test_dead(self):
        fake = FakeProcess(self.dir)
        process = self.only()
        self.assertTrue(process.alive())
        fake.die()
        self.assertFalse(process.alive())
        self.assertEqual(leat_tune.processes(self.dir), [])
        [dead] = leat_tune.processes(self.dir, all=True)
        with dead:
            self.assertIn("log.log", [o.path for o in dead.snapshot().objects])
            with self.assertRaises(leat_tune.Gone):
                dead.session()

    def test_sweep(self):
        FakeProcess(self.dir).die()
        FakeProcess(self.dir).die()
        lone = socket.socket(socket.AF_UNIX)
        lone.bind(f"{self.dir}/1-0123456789abcdef.sock")
        lone.close()
        with open(self.dir + "/readme", "w"):
            pass
        with FakeProcess(self.dir) as fake:
            self.assertEqual(leat_tune.sweep(self.dir), 5)
            self.assertEqual(sorted(os.listdir(self.dir)),
                             sorted(["readme", fake.stem + ".block", fake.stem + ".sock"]))
            self.assertEqual(leat_tune.sweep(self.dir), 0)

    def test_descriptors(self):
        """No descriptor is left open."""
        before = len(os.listdir("/proc/self/fd"))
        with FakeProcess(self.dir):
            for _ in range(3):
                for process in leat_tune.processes(self.dir):
                    with process.session():
                        pass
                    process.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Reading(Case):
    def test_snapshot(self):
        with FakeProcess(self.dir, program="some program", objects=2) as fake:
            process = self.only()
            self.assertEqual((process.pid, process.program, process.path),
                             (os.getpid(), "some program", fake.path))
            self.assertEqual(process.instance, fake.instance)
            self.assertFalse(process.hung)
            fake.report("reactor.lcore1", turns=(1 << 64) - 1, lcore=-1, state="stopped",
                        running="x" * 200)
            fake.report("endpoint.ep0", listening=False, load=0.25)
            s = process.snapshot()
            self.assertEqual([o.path for o in s.find("reactor")],
                             ["reactor.lcore0", "reactor.lcore1"])
            o = s.object("reactor.lcore1")
            self.assertEqual((o.report["turns"], o.report["lcore"], o.report["state"],
                              o.report["running"]),
                             ((1 << 64) - 1, -1, "stopped", "x" * 95))
            self.assertEqual(o.settings["idle_policy"], "auto")
            o = s.object("endpoint.ep0")
            self.assertEqual((o.report["listening"], o.report["load"]), (False, 0.25))
            self.assertEqual(o.settings["inline_max"], -1)
            self.assertEqual(o.schema.settings["inline_max"].format(-1), "automatic")
            rows = [r for r in s.objects if r.row and r.parent == o.id and r.component == "peer"]
            self.assertEqual([r.path for r in rows],
                             ["endpoint.ep0/10.0.0.0:1234", "endpoint.ep0/10.0.0.1:1234"])
            self.assertEqual(len([r for r in process.snapshot(rows=False).objects if r.row]), 0)
            self.assertEqual([r.path for r in s.find("endpoint.ep0/*")], [r.path for r in rows])
            self.assertEqual(len(s.find("peer")), 4)

    def test_come_and_go(self):
        with FakeProcess(self.dir, objects=1) as fake:
            process = self.only()
            for i in range(20):
                path = fake.add("log", f"extra{i}")
                self.assertEqual(process.snapshot().object(path).report, {})  # no report yet
                fake.report(path, lines=i)
                self.assertEqual(process.snapshot().object(path).report["lines"], i)
                fake.remove(path)
                with self.assertRaises(Unknown):
                    process.snapshot().object(path)

    def test_names(self):
        with FakeProcess(self.dir, objects=2) as fake:
            fake.add("log", "a.b.c")
            s = self.only().snapshot()

            def names(pattern):
                return [f"{o.path}.{setting.name}" for o, setting in s.resolve(pattern)]

            self.assertEqual(names("reactor.lcore0.spin_us"), ["reactor.lcore0.spin_us"])
            self.assertEqual(names("reactor.spin_us"),
                             ["reactor.lcore0.spin_us", "reactor.lcore1.spin_us"])
            self.assertEqual(names("reactor.*.idle"),
                             ["reactor.lcore0.idle_policy", "reactor.lcore1.idle_policy"])
            self.assertEqual(names("reactor.lcore1.sleep_*"),
                             ["reactor.lcore1.sleep_min_us", "reactor.lcore1.sleep_max_us"])
            self.assertEqual(names("log.a.b.c.level"), ["log.a.b.c.level"])
            for wrong, near in (("reactor.lcore0.spin", "spin_us"),
                                ("reacter.lcore0.spin_us", "reactor"),
                                ("reactor.lcor0.spin_us", "lcore0"), ("log.log.levle", "level")):
                with self.assertRaises(Unknown) as caught:
                    s.resolve(wrong)
                self.assertIn(near, caught.exception.nearest)
            for wrong in ("", "reactor", "reactor.", ".x", "reactor.lcore0.", "peer.state"):
                with self.assertRaises(Unknown):
                    s.resolve(wrong)

    def test_terminal(self):
        """Control characters of names and texts don't reach a terminal."""
        with FakeProcess(self.dir, program="a\x1b[2Jb", objects=1) as fake:
            fake.add("log", "evil\n\x9b31m")
            fake.report("reactor.lcore0", running="\x1b]0;title\x07")
            process = self.only()
            s = process.snapshot()
            for text in (process.program, s.object("reactor.lcore0").report["running"],
                         *(o.path for o in s.objects)):
                self.assertTrue(text.isprintable(), repr(text))

    def test_a_writer_without_cpu(self):
        """The first reading waits for a record whose writer was interrupted."""
        with FakeProcess(self.dir, objects=1) as fake, fake._lock:
            record = fake._at("reactor.lcore0").record
            fake.block.begin(record)
            reader = self.only()
            reads = []

            def sleep(seconds):
                reads.append(seconds)
                if len(reads) == 50:
                    fake.block.end(record)

            with unittest.mock.patch("leat_tune._block.time.sleep", sleep):
                self.assertEqual(reader.snapshot().object("reactor.lcore0").name, "lcore0")
                self.assertGreaterEqual(len(reads), 50)
                # Now there is a copy: only the short waits.
                fake.block.begin(record)
                reads.clear()
                reader.snapshot().object("reactor.lcore0")
                self.assertLess(max(reads), 1e-3)
                fake.block.end(record)

    def test_torn(self):
        """A reader never sees half of a report."""
        fake = FakeProcess(self.dir, objects=1)
        self.addCleanup(fake.stop)
        process = self.only()
        ended = threading.Event()

        def write():
            n = 0
            while not ended.is_set():
                n += 1
                fake.report("reactor.lcore0", turns=n, busy_ns=n, idle_ns=n, sleep_ns=n,
                            running=str(n))

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=write)
        thread.start()
        try:
            seen = set()

            def look():
                r = process.snapshot().object("reactor.lcore0").report
                if r["turns"]:
                    self.assertEqual({r["busy_ns"], r["idle_ns"], r["sleep_ns"], int(r["running"])},
                                     {r["turns"]})
                    seen.add(r["turns"])
                return len(seen) > 200

            # At first there may be no object, or the previous report.
            self.eventually(
                lambda: any(o.path == "reactor.lcore0" and o.report["running"].isdigit()
                            for o in process.snapshot().objects))
            self.eventually(look)
        finally:
            sys.setswitchinterval(switch)
            ended.set()
            thread.join()

    def test_stopped_in_the_middle(self):
        """A record that stays half written: the last complete report is returned, or none."""
        fake = FakeProcess(self.dir, objects=1)
        self.addCleanup(fake.stop)
        fake.report("reactor.lcore0", turns=7)
        before = self.only()
        self.assertEqual(before.snapshot().object("reactor.lcore0").report["turns"], 7)
        fake.block.begin(fake._at("reactor.lcore0").record)
        later = self.only()
        for _ in range(2):
            self.assertEqual(before.snapshot().object("reactor.lcore0").report["turns"], 7)
            self.assertNotIn("reactor.lcore0", [o.path for o in later.snapshot().objects])
            self.assertIn("endpoint.ep0", [o.path for o in later.snapshot().objects])

    def test_history(self):
        """The block keeps the newest changes, as many as there is room for, in order."""
        fake = FakeProcess(self.dir, objects=1)
        self.addCleanup(fake.stop)
        process = self.only()
        self.assertEqual(process.snapshot().changes, [])
        for n in range(300):
            fake.block.change(n, 1, 1, "set", "me[1]", "reactor.lcore0", "spin_us", str(n),
                              str(n + 1))
        changes = process.snapshot().changes
        self.assertEqual([c.number for c in changes], list(range(45, 301)))
        self.assertEqual((changes[-1].old, changes[-1].new, changes[-1].who, changes[-1].object,
                          changes[-1].name),
                         ("299", "300", "me[1]", "reactor.lcore0", "spin_us"))


class Guide(Case):
    def test_examples(self):
        """The examples of the guide run, and print something."""
        with open(GUIDE, encoding="utf-8") as file:
            examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(examples), 4)
        with FakeProcess(self.dir, objects=1, load=True), \
                unittest.mock.patch("leat_tune._process.default_dir", lambda: self.dir):
            for example in examples:
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(example, GUIDE, "exec"), {})
                if "print(" in example:
                    self.assertNotEqual(out.getvalue(), "")
            # The last example is the search.
            self.assertIn(self.only().snapshot().object("reactor.lcore0").settings["ep_burst"],
                          (8, 16, 32))


class Values(unittest.TestCase):
    def test_histogram(self):
        for ns in (0, 31, 32, 39, 40, 63, 64, 1000, 12345, 1 << 33, 1 << 60):
            i = bucket_of(ns)
            if i and i < leat_tune.BUCKETS - 1:
                self.assertLessEqual(bucket_begin(i), ns)
                self.assertLess(ns, bucket_begin(i + 1))
        self.assertEqual((bucket_of(31), bucket_of(32), bucket_of(1 << 63)),
                         (0, 0, leat_tune.BUCKETS - 1))
        self.assertEqual([bucket_begin(i) for i in (0, 1, 4, 5)], [32, 40, 64, 80])
        empty = Histogram(0, 0, (0,) * leat_tune.BUCKETS)
        self.assertEqual((empty.percentile(50), empty.mean), (0.0, 0.0))
        buckets = [0] * leat_tune.BUCKETS
        buckets[4], buckets[8] = 90, 10  # 64 to 80, 128 to 160
        h = Histogram(100, 90 * 70 + 10 * 130, tuple(buckets))
        self.assertEqual(h.percentile(45), 72.0)
        self.assertEqual(h.percentile(90), 80.0)
        self.assertEqual(h.percentile(95), 144.0)
        self.assertEqual(h.percentile(100), 160.0)
        self.assertEqual(h.delta(empty), h)
        self.assertEqual(h.delta(h).count, 0)
        self.assertEqual(empty.delta(h), empty)  # the histogram was reset
        self.assertEqual(h.add(h).count, 200)
        self.assertEqual(Histogram.unpack(h.pack()), h)
        many = Histogram(0, 0, ((1 << 64) - 1,) * leat_tune.BUCKETS)
        self.assertLessEqual(many.percentile(100), bucket_begin(leat_tune.BUCKETS))

    def test_values(self):
        schema = Schema.parse(schema_text(DESCRIPTIONS["endpoint"]))
        inline = schema.settings["inline_max"]
        for given, wanted in ((5, 5), ("5", 5), (" 5 ", 5), ("0x10", 16), ("automatic", -1),
                              ("-1", -1), (5.0, 5)):
            self.assertEqual(inline.parse(given), wanted)
        for wrong in ("", "5us", "five", True, 5.5, "1_000x", "9" * 30, 1 << 63, None, float("nan"),
                      float("inf")):
            with self.assertRaises(leat_tune.Refused, msg=wrong) as caught:
                inline.parse(wrong)
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        log = Schema.parse(schema_text(DESCRIPTIONS["log"])).settings
        for given, wanted in (("on", True), (1, True), (False, False), ("FALSE", False)):
            self.assertIs(log["sync"].parse(given), wanted)
        self.assertEqual(log["share"].parse("0.25"), 0.25)
        self.assertEqual(log["prefix"].parse("x" * 31), "x" * 31)
        for name, wrong in (("sync", "maybe"), ("sync", 2), ("share", "nan"), ("share", "x"),
                            ("prefix", "x" * 32),
                            ("prefix", "a\0b"), ("prefix", 5), ("level", "loud"), ("level", 3)):
            with self.assertRaises(leat_tune.Refused, msg=(name, wrong)):
                log[name].parse(wrong)

    def test_round_trip(self):
        schema = Schema.parse(schema_text(DESCRIPTIONS["log"]))
        values = {"level": "debug", "sync": True, "share": 0.125, "prefix": "grüße"}
        message, mask = schema.pack(values)
        self.assertEqual((schema.unpack_settings(message), mask, len(message)),
                         (values, 15, schema.settings_size))
        with self.assertRaises(Corrupt):
            schema.unpack_settings(message + b"\0" * 8)

    def test_default_dir(self):
        path = leat_tune.default_dir()
        self.assertIn(str(os.geteuid()), path)
        self.assertTrue(stat.S_ISDIR(os.stat(os.path.dirname(path)).st_mode))


if __name__ == "__main__":
    unittest.main()
