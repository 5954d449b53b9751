# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune, the program, with fake processes. Most commands run in this process, since Python
starts slowly."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import leat_tune
from fake_process import FakeProcess
from leat_tune import SESSION
from leat_tune._cli import main
from tune_case import Case

PROGRAM, COMPLETION = sys.argv[1:3]
del sys.argv[1:3]


class Cli(Case):
    def run_it(self, *words):
        """Run a command; return its status, output and errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([*words, "--tune-dir", self.dir])
            except SystemExit as e:
                status = e.code
        return status, out.getvalue(), err.getvalue()

    def ok(self, *words):
        status, out, err = self.run_it(*words)
        self.assertEqual((status, err), (0, ""), out)
        return out

    def fails(self, words, *parts, status=1):
        got, out, err = self.run_it(*words)
        self.assertEqual((got, out), (status, ""), err)
        for part in parts:
            self.assertIn(part, err)

    def program(self, *words, **options):
        return self.spawn([sys.executable, "-B", "-W", "error", PROGRAM, *words, "--tune-dir",
                           self.dir],
                          stderr=subprocess.PIPE, **options)


class One(Cli):
    """Tests with one process."""

    def setUp(self):
        super().setUp()
        self.fake = FakeProcess(self.dir, objects=2)
        self.fake.start()
        self.addCleanup(lambda: self.fake._ending or self.fake.stop())
        self.process = self.only()

    def spin(self):
        return [self.fake.settings(f"reactor.lcore{i}")["spin_us"] for i in range(2)]

    def test_list(self):
        out = self.ok("list")
        self.assertIn(f"{os.getpid()}  fake  since ", out)
        self.assertRegex(out, r"reactor\.lcore0\.max_pollers +64 +pollers +1 to 65535 +64 +start\n")
        self.assertRegex(out,
                         r"endpoint\.ep0\.inline_max +automatic +bytes +0 to 1048576, automatic "
                         r"+automatic +now\n")
        self.assertNotIn("posted", out)
        out = self.ok("list", "endpoint.ep1", "--reports")
        self.assertNotIn("reactor", out)
        self.assertRegex(out, r"endpoint\.ep1/10\.0\.1\.0:1234\.posted +\d+ +ops\n")
        with self.process.session("holder") as s:
            s.set("reactor.lcore0", {"spin_us": 9}, lease=100)
            s.set("reactor.lcore1", {"spin_us": 9}, lease=SESSION)
            out = self.ok("list", "reactor")
            self.assertRegex(out, rf"lcore0\.spin_us +9 .* holder\[{os.getpid()}\], \d+ s\n")
            self.assertRegex(out,
                             rf"lcore1\.spin_us +9 .* holder\[{os.getpid()}\], while connected\n")

    def test_json(self):
        with self.process.session("holder") as s:
            s.set("log.log", {"share": 1}, lease=SESSION)
            tree = json.loads(self.ok("list", "--reports", "--json"))
        [process] = tree["processes"]
        self.assertEqual((process["pid"], process["program"], process["hung"]),
                         (os.getpid(), "fake", False))
        objects = {o["path"]: o for o in process["objects"]}
        setting = objects["endpoint.ep0"]["settings"]["latency_sample"]
        self.assertEqual(setting,
                         {"value": 0, "type": "integer", "default": 0, "when": "now", "unit": "ops",
                          "min": 1, "max": 1000000, "special": {"off": 0}})
        self.assertEqual(objects["log.log"]["settings"]["share"]["held_by"]["who"],
                         f"holder[{os.getpid()}]")
        self.assertEqual(objects["endpoint.ep0"]["report"]["device"], "net_fake0")
        self.assertIn("p99_ns", objects["endpoint.ep0"]["report"]["latency_send"])
        self.assertEqual(objects["endpoint.ep0/10.0.0.0:1234"]["parent"],
                         objects["endpoint.ep0"]["id"])
        schemas = json.loads(self.ok("list", "--schema"))
        self.assertEqual([s["component"] for s in schemas], ["endpoint", "log", "reactor"])

    def test_get(self):
        self.fake.report("reactor.lcore0", turns=5)
        self.assertEqual(self.ok("get", "reactor.lcore0.spin_us", "reactor.lcore0.turns",
                                 "log.prefix"),
                         'reactor.lcore0.spin_us = 50  # us\nreactor.lcore0.turns = 5  # turns\n'
                         'log.log.prefix = "leat"\n')
        self.assertEqual(self.ok("get", f"{os.getpid()}:reactor.*.spin_us"),
                         "reactor.lcore0.spin_us = 50  # us\nreactor.lcore1.spin_us = 50  # us\n")
        self.assertEqual(self.ok("get", "endpoint.ep0/10.0.0.1:1234.state",
                                 "poller.state").count("\n"), 3)
        [one] = json.loads(self.ok("get", "--json", "endpoint.ep0.inline_max"))["values"]
        self.assertEqual(one,
                         {"pid": os.getpid(), "name": "endpoint.ep0.inline_max", "value": -1,
                          "unit": "bytes"})
        self.fails(["get", "reactor.lcore0.spin"], "no setting 'spin'", "spin_us")
        self.fails(["get", "reactor.lcore0.turn"], "turns")
        self.fails(["get", "1:reactor.spin_us"], "no process 1", f"{os.getpid()} (fake)")
        self.fails(["get", "spin_us"], "COMPONENT.OBJECT.SETTING")

    def test_set(self):
        self.assertEqual(self.ok("set", "reactor.spin_us=70", "endpoint.ep0.inline_max=100",
                                 "endpoint.ep1.tx_depth=8"),
                         "reactor.lcore0.spin_us = 70  # us\nreactor.lcore1.spin_us = 70  # us\n"
                         "endpoint.ep0.inline_max = 96  # bytes; asked for 100\n"
                         "endpoint.ep1.tx_depth = 8  # ops; for what is made from now on\n")
        self.assertEqual(self.spin(), [70, 70])
        [one] = json.loads(self.ok("set", "--json",
                                   "endpoint.ep0.inline_max=automatic"))["settings"]
        self.assertEqual((one["value"], one["was"], one["asked"], one["for_s"]), (-1, 96, -1, None))
        # A group is one change.
        self.ok("set", "reactor.lcore0.sleep_min_us=300", "reactor.lcore0.sleep_max_us=400")
        self.assertEqual(self.process.snapshot().leases, [])
        self.ok("set", 'log.prefix=a = "b"')
        self.assertEqual(self.fake.settings("log.log")["prefix"], 'a = "b"')

    def test_set_refused(self):
        self.fails(["set", "reactor.lcore0.spin_us=0"],
                   "reactor.lcore0: spin_us: 0 is not from 1 to 1000000")
        self.fails(["set", "reactor.lcore0.spin_us=x"],
                   "spin_us: 'x' is not an integer from 1 to 1000000")
        self.fails(["set", "reactor.lcore0.max_pollers=5"], "only at start")
        self.fails(["set", "reactor.lcore0.sleep_min_us=5"], "set together")
        self.fails(["set", "reactor.lcore0.spin=5"], "did you mean spin_us")
        self.fails(["set", "log.level=loud"], "one of off, error, warning, info, debug")
        # One of two objects refuses: the change of the object that accepted is undone.
        self.fails(["set", "reactor.lcore0.spin_us=70", "reactor.lcore1.spin_us=0"],
                   "reactor.lcore1: ", "goes back: reactor.lcore0")
        self.eventually(lambda: self.spin() == [50, 50])
        for i in range(40):
            self.fake.add("log", f"a{i}")
        self.fails(["set", "log.a*.share=0.25", "log.log.share=2"], "stays: log.a0, log.a1, ")
        with self.process.session("holder") as s:
            s.set("reactor.lcore1", {"spin_us": 9}, lease=SESSION)
            self.fails(["set", "reactor.spin_us=8"], f"holder[{os.getpid()}] holds it")
        self.eventually(lambda: self.spin() == [50, 50])

    def test_where_in_front(self):
        out = self.ok("list", "--json")
        for front in (["--tune-dir", self.dir], [f"--tune-dir={self.dir}", "--program", "*"]):
            again = io.StringIO()
            with contextlib.redirect_stdout(again):
                self.assertEqual(main([*front, "list", "--json"]), 0)
            names = [[o["name"] for o in p["objects"]]
                     for p in json.loads(again.getvalue())["processes"]]
            self.assertEqual(names,
                             [[o["name"] for o in p["objects"]]
                              for p in json.loads(out)["processes"]])
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as end:
            main(["--tune-dir", self.dir])
        self.assertEqual(end.exception.code, 2)

    def test_usage(self):
        for words in (["set"], ["set", "a.b.c"], ["set", "=5"], ["set", "a.b=1", "--for", "0"],
                      ["sett"], [],
                      ["set", "a.b=1", "--for", "5x"], ["set", "a.b=1", "--detach"], ["get"],
                      ["list", "--jso"],
                      ["watch", "a.b", "--interval", "-1"], ["watch", "a.b", "-n", "0"],
                      ["list", "--pid", "x"], ["history", "extra"], ["list", "--json", "--schema"]):
            status, _, err = self.run_it(*words)
            self.assertEqual(status, 2, words)
            self.assertIn("leat-tune", err)
        for words in (["list", "--bogus"], ["list", "--pid", "x"]):
            self.fails(words, words[1], "see leat-tune list --help", status=2)
        # Commands that only shells need, for completion, are not offered.
        self.assertNotIn("'complete'", self.run_it("nonsense")[2])

    def test_for(self):
        p = self.program("set", "reactor.lcore0.spin_us=70", "--for", "300ms")
        self.assertEqual(p.stdout.readline(), "reactor.lcore0.spin_us = 70  # us\n")
        self.assertIn("or Ctrl-C", p.stderr.readline())
        self.assertEqual(p.wait(30), 0)
        self.eventually(lambda: self.spin() == [50, 50])

    def test_for_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            p = self.program("set", "reactor.spin_us=70", "--for", "5m")
            self.assertIn("= 70", p.stdout.readline())
            self.assertEqual(self.spin(), [70, 70])
            self.fails(["set", "reactor.lcore1.spin_us=80"],
                       f"leat-tune[{p.pid}] holds it for another ")
            p.send_signal(number)
            self.assertIn(p.wait(30), (130, -number))
            self.eventually(lambda: self.spin() == [50, 50])

    def test_for_detached(self):
        begin = time.monotonic()
        p = self.program("set", "reactor.lcore0.spin_us=70", "--for", "1s", "--detach")
        out, err = p.communicate(timeout=30)
        self.assertEqual((p.returncode, out, err), (0, "reactor.lcore0.spin_us = 70  # us\n", ""))
        if self.spin() != [70, 50]:
            self.assertGreater(time.monotonic() - begin, 1.0)
        self.eventually(lambda: self.spin() == [50, 50])
        p = self.program("set", "reactor.lcore0.spin_us=0", "--for", "1s", "--detach")
        out, err = p.communicate(timeout=30)
        self.assertEqual((p.returncode, out), (1, ""))
        self.assertIn("not from 1", err)

    def test_for_without_process(self):
        p = self.program("set", "reactor.lcore0.spin_us=70", "--for", "5m")
        self.assertIn("= 70", p.stdout.readline())
        self.fake.stop()
        self.assertEqual(p.wait(30), 1)
        self.assertIn("ended the session", p.stderr.read())

    def test_watch(self):
        p = self.program("watch", "log.lines", "reactor.lcore0.spin_us", "--json", "--interval",
                         "10ms")
        first = [json.loads(p.stdout.readline()) for _ in range(2)]
        self.assertEqual({line["name"]: line["value"] for line in first},
                         {"log.log.lines": 0, "reactor.lcore0.spin_us": 50})
        self.ok("set", "reactor.lcore0.spin_us=71")
        change, value = sorted((json.loads(p.stdout.readline()) for _ in range(2)),
                               key=lambda line: "value" in line)
        change = change["change"]
        self.assertEqual((change["name"], change["from"], change["to"]),
                         ("reactor.lcore0.spin_us", "50", "71"))
        self.assertEqual(value["value"], 71)
        self.fake.report("log.log", lines=1000)
        line = json.loads(p.stdout.readline())
        self.assertEqual(line["value"], 1000)
        self.assertGreater(line["per_second"], 0)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(30), 130)
        self.assertEqual(p.stderr.read(), "")

    def test_watch_count(self):
        out = self.ok("watch", "log.lines", "-n", "2", "--interval", "5ms")
        self.assertRegex(out, r"^\S+ \S+  \d+  log\.log\.lines = 0 messages\n$")
        self.fails(["watch", "log.lin", "-n", "1"], "lines")

    def test_history(self):
        self.assertEqual(self.ok("history"), "")
        self.ok("set", "reactor.lcore0.spin_us=70")
        self.assertRegex(self.ok("history"),
                         r"reactor\.lcore0\.spin_us  50 -> 70  \(set, "
                         rf"leat-tune\[{os.getpid()}\]\)\n$")
        [one] = json.loads(self.ok("history", "--json"))["changes"]
        self.assertEqual((one["name"], one["from"], one["to"], one["why"], one["number"]),
                         ("reactor.lcore0.spin_us", "50", "70", "set", 1))
        p = self.program("history", "--follow", "--json")
        self.assertEqual(json.loads(p.stdout.readline())["to"], "70")
        self.ok("set", "reactor.lcore0.spin_us=80")
        self.assertEqual(json.loads(p.stdout.readline())["to"], "80")
        self.fake.stop()
        self.assertEqual(p.wait(30), 0)
        self.assertIn("has ended", p.stderr.read())

    def test_save(self):
        lines = self.ok("save").splitlines()
        self.assertEqual([line for line in lines if not line.startswith("#")], [])
        self.fake.add("log", "odd[1]*")
        self.ok("set", "reactor.lcore0.sleep_min_us=5", "reactor.lcore0.sleep_max_us=250",
                "endpoint.ep0.inline_max=64",
                "log.prefix=a # b", "log.log.level=debug")
        path = self.dir + "/settings"
        with open(path, "w") as old:
            old.write("old")
        self.assertEqual(self.ok("save", path), "")
        with open(path) as file:
            text = file.read()
        self.assertEqual(os.stat(path).st_mode & 0o111, 0)
        self.assertEqual(os.listdir(self.dir).count("settings"), 1)
        wanted = [line.partition("  #")[0].strip() for line in text.splitlines() if line and
                  not line.startswith("#")]
        self.assertEqual(wanted, [
            "endpoint.ep0.inline_max = 64", "log.log.level = debug", 'log.log.prefix = "a # b"',
            'log.odd\\[1]\\*.prefix = "a # b"', "reactor.lcore0.sleep_min_us = 5",
            "reactor.lcore0.sleep_max_us = 250", ])
        self.assertIn("# bytes, 0 to 1048576, automatic\n", text)
        self.assertRegex(self.ok("save", "--all"),
                         r"\nreactor\.lcore0\.max_pollers = 64 +# pollers, 1 to 65535; only at "
                         r"start\n")
        self.fails(["save", self.dir + "/none/settings"], "No such file")

    def test_killed_reader(self):
        """The reader has closed the pipe: the program ends by the signal, without a message."""
        p = self.program("watch", "log.lines", "reactor.*.*", "--interval", "5ms")
        p.stdout.readline()
        p.stdout.close()
        self.fake.report("log.log", lines=7)
        self.assertEqual(p.wait(30), -signal.SIGPIPE)
        self.assertEqual(p.stderr.read(), "")

    def complete(self, line):
        script = ('leat-tune() { "$PYTHON" -B "$PROGRAM" "$@"; }\n'
                  '. "$COMPLETION"\ncompopt() { :; }\n'
                  "COMP_LINE=$1\nCOMP_POINT=${#COMP_LINE}\n_leat_tune\n"
                  "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
        env = {**os.environ, "PYTHON": sys.executable, "PROGRAM": PROGRAM, "COMPLETION": COMPLETION}
        done = subprocess.run(["bash", "-c", script, "bash", line], env=env, capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    @unittest.skipIf(shutil.which("bash") is None, "no bash")
    def test_completion(self):
        where = f"--tune-dir {self.dir} "
        for line, wanted in (
            ("leat-tune s", ["set", "save", "sweep"]),
            ("leat-tune set --f", ["--for"]),
            (f"leat-tune set {where}reactor.lcore0.sp", ["reactor.lcore0.spin_us="]),
            (f"leat-tune set {where}reactor.lcore0.idle_policy=s", ["spin", "sleep"]),
            (f"leat-tune set {where}endpoint.ep0.inline_max=", ["automatic"]),
            (f"leat-tune get {where}log.log.l", ["log.log.level", "log.log.lines"]),
            (f"leat-tune list {where}react", ["reactor.lcore0", "reactor.lcore1"]),
            (f"leat-tune list {where}--pid ", [str(os.getpid())]),
        ):
            self.assertEqual(sorted(self.complete(line)), sorted(wanted), line)


class Several(Cli):
    def test_none(self):
        self.fails(["list"], "there is no leat process in ")
        self.fails(["set", "a.b.c=5"], "there is no leat process in ")
        self.assertEqual(self.ok("sweep"), "0 files removed\n")
        self.assertEqual(json.loads(self.ok("sweep", "--json")),
                         {"schema": "leat-tune", "version": 1, "leat": "", "removed": 0})
        os.chmod(self.dir, 0o755)
        self.fails(["list"], "lets others in")

    def test_two(self):
        with FakeProcess(self.dir, program="one", objects=1) as one, \
                FakeProcess(self.dir, program="two", objects=2) as two:
            other = self.fake("--program", "three", "--objects", "0")
            me = os.getpid()
            self.assertEqual(self.ok("list").count("since"), 3)
            self.assertEqual(self.ok("list", "--program", "t*").count("since"), 2)
            self.assertEqual(self.ok("list", "--pid", str(other.pid)).count("since"), 1)
            self.fails(["get", "log.level"], "several processes", f"{me} (one)",
                       f"{other.pid} (three)", "--program")
            self.fails(["save"], "several processes")
            self.fails(["list", "--program", "four"], "no such process", "(two)")
            # Only one process has reactor.lcore1, so the process need not be named.
            self.ok("set", "reactor.lcore1.spin_us=5", f"{other.pid}:log.level=off")
            self.assertEqual(two.settings("reactor.lcore1")["spin_us"], 5)
            self.ok("set", "--program", "one", "log.level=error")
            self.assertEqual((one.settings("log.log")["level"], two.settings("log.log")["level"]),
                             ("error", "info"))
            self.assertEqual(len(json.loads(self.ok("history", "--json"))["changes"]), 3)

    def test_corrupt(self):
        """A corrupt block of one process does not hide another process."""
        with FakeProcess(self.dir, objects=1):
            with open(f"{self.dir}/1-0123456789abcdef.block", "wb") as bad:
                os.fchmod(bad.fileno(), 0o600)
                bad.write(b"x" * 5000)
                bad.flush()
                # Lock the block like that of a live process: blocks of dead ones are removed.
                lock = struct.pack("@hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(bad, fcntl.F_OFD_SETLK, lock)
                status, out, err = self.run_it("list")
            self.assertEqual((status, out.count("since")), (0, 1))
            self.assertIn("warning: 1-0123456789abcdef.block: not a block", err)

    def test_sweep(self):
        FakeProcess(self.dir).die()
        self.assertEqual(self.ok("sweep"), "2 files removed\n")
        self.assertEqual(os.listdir(self.dir), [])

    def test_hangs(self):
        """A stopped process is listed as hanging; nothing waits for it long."""
        p = self.fake("--objects", "1")
        with self.only() as process, unittest.mock.patch("leat_tune._cli.common.HUNG", 0.2):
            p.send_signal(signal.SIGSTOP)
            self.eventually(lambda: (process.snapshot().time_ns -
                                     process.snapshot().heartbeat_ns > 300_000_000))
            status, out, err = self.run_it("list", "--reports")
            self.assertEqual(status, 0)
            self.assertIn("it is stopped, or hangs", out)
            self.assertIn("does not answer", err)
            self.assertIn("reactor.lcore0.turns", out)

    def test_two_agents(self):
        """Two agents change the same settings at once: each change is one agent's, and no lease is
        left."""
        with FakeProcess(self.dir, objects=1) as fake, self.only() as process:
            done = []

            def agent(n):
                with process.session(f"agent{n}") as s:
                    for i in range(40):
                        try:
                            s.set("reactor.lcore0", {"spin_us": 100 * n + i + 1}, lease=SESSION)
                            s.release()
                            done.append(n)
                        except leat_tune.Refused as e:
                            self.assertIn(f"agent{3 - n}[", str(e))

            threads = [threading.Thread(target=agent, args=(n,)) for n in (1, 2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(fake.settings("reactor.lcore0")["spin_us"], 50)
            self.assertEqual(set(done), {1, 2})


if __name__ == "__main__":
    unittest.main()
