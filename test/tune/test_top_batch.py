# SPDX-License-Identifier: BSD-3-Clause
"""leat-top --batch and --json, against fake processes and a real one; and its arguments.

    test_top_batch.py TUNE-PROCESS
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from tune_case import Case

import leat_tune
from leat_top.main import main

TOP = [sys.executable, "-B", "-W", "error", "-m", "leat_top"]


class Batch(Case):
    def top(self, *options, code=0):
        """Run leat-top in this process; return its output. run_top() starts the whole program."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        before = signal.getsignal(signal.SIGPIPE)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    status = main(["--tune-dir", self.dir, *options])
                except SystemExit as e:
                    status = e.code or 0
        finally:
            signal.signal(signal.SIGPIPE, before)
        self.assertEqual(status, code, err.getvalue())
        out.flush()
        if code != 0:
            return err.getvalue()
        self.assertEqual(err.getvalue(), "")
        return out.buffer.getvalue().decode()

    def run_top(self, *options, code=0, **more):
        """Run leat-top in a process of its own."""
        command = [*TOP, "--tune-dir", self.dir, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def documents(self, *options):
        return [json.loads(line) for line in self.top("--json", *options).splitlines()]

    def test_json(self):
        fake = self.fake("--program", "leat-perf", "--load")
        first, second = self.documents("-n", "2", "-d", "0.2")
        self.assertGreater(second["time"], first["time"])
        for document in (first, second):
            [process] = document["processes"]
            self.assertEqual((process["pid"], process["program"]), (fake.pid, "leat-perf"))
            self.assertFalse(process["hung"])
            self.assertIsNone(process["trouble"])
            objects = {o["path"]: o for o in process["objects"]}
            lcore, ep = objects["reactor.lcore0"], objects["endpoint.ep0"]
            # The fake process is busy for 30 to 90 %, and idle for the rest.
            self.assertTrue(0.25 <= lcore["load"]["busy"] <= 0.95, lcore["load"])
            self.assertAlmostEqual(sum(lcore["load"].values()), 1.0, delta=0.05)
            self.assertEqual(lcore["settings"]["idle_policy"], "auto")
            self.assertGreater(ep["rates"]["posted"], 1000)
            window = ep["percentiles"]["latency_write"]
            self.assertGreater(window["count"], 0)
            self.assertTrue(500 < window["p50_ns"] < window["p99_ns"] <= window["p99_9_ns"] <
                            100_000, window)
            self.assertEqual(len(ep["rows"]), 2)
            self.assertIn("posted", ep["rows"][0]["rates"])
        self.assertGreaterEqual(
            next(o for o in second["processes"][0]["objects"]
                 if o["path"] == "endpoint.ep0")["report"]["posted"],
            next(o for o in first["processes"][0]["objects"]
                 if o["path"] == "endpoint.ep0")["report"]["posted"],
        )

    def test_a_process_of_lib_tune(self):
        p = self.spawn([PROCESS, "--tune-dir", self.dir, "--workers", "2", "--rows", "3"])
        self.assertEqual(p.stdout.readline(), "ready\n")
        for _ in range(20):
            [document] = self.documents("-n", "1", "-d", "0.3")
            [process] = document["processes"]
            self.assertEqual((process["pid"], process["trouble"]), (p.pid, None))
            workers = [o for o in process["objects"] if o["component"] == "worker"]
            self.assertEqual([o["name"] for o in workers], ["w0", "w1"])
            # On a busy machine the process may have reported nothing new meanwhile.
            if all("calls" in worker["rates"] for worker in workers):
                break
        for worker in workers:
            self.assertGreater(worker["rates"]["calls"], 0)
            self.assertGreater(worker["percentiles"]["latency"]["count"], 0)
            self.assertEqual(worker["settings"]["batch"], 32)
        self.assertTrue(workers[0]["rows"])
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(10), 0)

    def test_a_change_is_seen(self):
        self.fake()
        p = self.spawn([*TOP, "--tune-dir", self.dir, "--json", "-d", "0.05"])

        def spin():
            [process] = json.loads(p.stdout.readline())["processes"]
            lcore = next(o for o in process["objects"] if o["path"] == "reactor.lcore1")
            return lcore["settings"]["spin_us"], process

        self.assertEqual(spin()[0], 50)
        with self.only().session("tester") as session:
            session.set("reactor.lcore1", {"spin_us": 77}, lease=leat_tune.SESSION)
            value, process = self.eventually(lambda: next((v for v in [spin()] if v[0] == 77),
                                                          None))
            [change] = process["changes"]
            self.assertEqual((change["from"], change["to"], change["object"]),
                             ("50", "77", "reactor.lcore1"))
            self.assertIn("tester", change["who"])
            [lease] = process["leases"]
            self.assertEqual(lease["settings"], ["spin_us"])
        self.eventually(lambda: spin()[0] == 50)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(10), 130)

    def test_text(self):
        self.fake("--program", "leat-perf", "--load")
        page = self.top("--batch", "-n", "1", "-d", "0.2")
        for text in ("leat-perf", "Reactors", "lcore2", "Endpoints", "net_fake0", "p99.9", "Logs"):
            self.assertIn(text, page)
        self.assertNotIn("\x1b", page)
        self.assertIn("\x1b[", self.top("--batch", "-n", "1", "-d", "0.1", "--color", "always"))
        env = {**os.environ, "LC_ALL": "C"}
        self.assertTrue(self.run_top("--batch", "-n", "1", "-d", "0.1", env=env).isascii())
        page = self.top("--batch", "-n", "1", "-d", "0.1", "--filter", "ep1", "--sort", "name",
                        "--reverse")
        self.assertIn("ep1", page)
        self.assertNotIn("ep2", page)

    def test_which_processes(self):
        a, b = self.fake("--program", "leat-perf"), self.fake("--program", "kv-server")

        def pids(*options):
            [document] = self.documents("-n", "1", "-d", "0.05", *options)
            return sorted(p["pid"] for p in document["processes"])

        self.assertEqual(pids(), sorted([a.pid, b.pid]))
        self.assertEqual(pids("--pid", str(a.pid)), [a.pid])
        self.assertEqual(pids("--program", "kv-*"), [b.pid])
        self.assertEqual(pids("--program", "kv-*", "--pid", str(a.pid)), [])
        b.kill()
        b.wait()
        self.assertEqual(pids(), [a.pid])

    def test_a_process_that_was_stopped(self):
        fake = self.fake("--load")
        self.documents("-n", "1", "-d", "0.05")
        fake.send_signal(signal.SIGSTOP)
        process = self.only()
        self.eventually(lambda: process.hung)
        begin = time.monotonic()
        [document] = self.documents("-n", "1", "-d", "0.05")
        # The stopped process is not asked for anything, so nothing waits.
        self.assertLess(time.monotonic() - begin, 4)
        [found] = document["processes"]
        self.assertTrue(found["hung"])
        self.assertIn("no sign of life for", found["trouble"])
        self.assertEqual(len([o for o in found["objects"] if o["component"] == "reactor"]), 3)
        self.assertIn("no sign of life", self.top("--batch", "-n", "1", "-d", "0.05"))

    def test_none(self):
        [document] = self.documents("-n", "1", "-d", "0.05")
        self.assertEqual((document["processes"], document["problems"]), ([], []))
        self.assertIn("0 processes", self.top("--batch", "-n", "1", "-d", "0.05"))

    def test_a_pid_of_no_process(self):
        fake = self.fake("--program", "leat-perf")
        for how in ("--batch", "--json"):
            self.assertIn(f"no such process; there are: {fake.pid} (leat-perf)",
                          self.top(how, "-n", "1", "-d", "0.05", "--pid", "1", code=1))
        self.documents("-n", "1", "-d", "0.05", "--pid", "1", "--pid", str(fake.pid))

    def test_a_corrupt_block_is_named(self):
        path = os.path.join(self.dir, f"{os.getpid()}-0123456789abcdef.block")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as f:
            f.write("not a block" * 1000)
        [document] = self.documents("-n", "1", "-d", "0.05")
        self.assertEqual(document["processes"], [])
        self.assertIn("0123456789abcdef", document["problems"][0])

    def test_a_directory_of_others(self):
        os.chmod(self.dir, 0o755)
        self.assertIn("lets others in", self.top("--json", "-n", "1", code=1))
        os.chmod(self.dir, 0o700)
        link = self.dir + ".link"
        os.symlink(self.dir, link)
        self.addCleanup(os.unlink, link)
        self.assertIn("symbolic link", self.top("--json", "-n", "1", "--tune-dir", link, code=1))
        self.assertIn("no such directory",
                      self.top("--json", "-n", "1", "--tune-dir", self.dir + "/x", code=1))

    def test_nobody_reads(self):
        self.fake()
        p = self.spawn([*TOP, "--tune-dir", self.dir, "--batch", "-d", "0.02"],
                       stderr=subprocess.PIPE)
        p.stdout.readline()
        p.stdout.close()
        self.assertEqual(p.stderr.read(), "")
        self.assertEqual(p.wait(10), -signal.SIGPIPE)

    def test_arguments(self):
        for options, text in (
            (["--wrong"], "--wrong"), (["-d", "0"], "'0' is not a number"),
            (["-d", "nan", "--json"], "'nan'"),
            (["-n", "0", "--json"], "'0'"), (["-n", "1"], "for --batch and --json"),
            (["--json", "--batch"], "not allowed"),
            (["--pid", "x"], "'x'"), (["--sort", "wrong"], "invalid choice"),
            (["--reverse"], "needs --sort"),
            (["--filter", "x"], "press /"), (["--color", "some"], "invalid choice"),
            (["more"], "more"), ):
            self.assertIn(text, self.top(*options, code=2), options)
        self.assertIn("use --batch or --json", self.run_top(code=1, stdin=subprocess.DEVNULL))
        self.assertIn("--tune-dir", self.top("--help"))
        self.assertIn("leat-top ", self.top("--version"))


if __name__ == "__main__":
    PROCESS = sys.argv.pop(1)
    sys.exit(unittest.main(verbosity=1))
