# SPDX-License-Identifier: BSD-3-Clause
"""Settings of leat-perf and leat-rpc-bench at full load: test_programs.py PERF RPC_BENCH CHANGES"""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import leat_tune

PERF, RPC_BENCH, CHANGES = sys.argv[1:4]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PLUGINS = os.environ.get("LEAT_TEST_PLUGINS", "").split()
QUIET = ["--no-pci", "--no-telemetry", "--log-level=lib.*:error", "--log-level=leat.tune:error"]
CPUS = sorted(os.sched_getaffinity(0))
# Two lcores even if there is one CPU: they share it.
LCORES = ["--lcores", "0@%d,1@%d" % (CPUS[0], CPUS[-1])]
DEADLINE = 120  # longest wait, seconds; only a program that hangs takes so long


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="leat-programs-")
        self.addCleanup(shutil.rmtree, self.dir)

    def start(self, program, *app, eal=()):
        child = subprocess.Popen([program, *PLUGINS, *QUIET, *LCORES, "--vdev=fabric_ring0",
                                  "--tune-dir", self.dir, *eal, "--", "--self", "--json", *app],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            child.kill()
            child.communicate()

        self.addCleanup(end)
        self.child = child
        return child

    def wait(self, what):
        """Call a function until its result is not None, and return that."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if self.child.poll() is not None:
                self.fail("it has ended: " + self.child.communicate()[1])
            got = what()
            if got is not None:
                return got
            time.sleep(0.01)
        self.fail("waited in vain")

    def process(self):
        process = self.wait(lambda: next(iter(leat_tune.processes(self.dir)), None))
        self.addCleanup(process.close)
        return process

    def object(self, process, path, ready):
        """Return an object when its report is as wanted."""
        def look():
            for o in process.snapshot().objects:
                if o.path == path and o.report and ready(o):
                    return o
            return None

        return self.wait(look)

    def documented(self, measure):
        """Run the commands of the guides and of --help that tune by a measure, as they are there.

        Only trials are shorter, and the budget smaller.
        """
        files = self.dir + ".files"
        os.mkdir(files)
        self.addCleanup(shutil.rmtree, files)
        environment = {**os.environ, "COLUMNS": "1000"}

        def tune(*words):
            return subprocess.run([sys.executable, "-B", "-m", "leat_tune._cli", *words], cwd=files,
                                  env=environment, capture_output=True, text=True,
                                  timeout=DEADLINE)

        texts = [tune(command, "--help").stdout for command in ("agent", "mlos")]
        for name in ("README.md", "doc/guide/tune.md", "doc/guide/tune-agent.md"):
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                texts.append(f.read())
        lines = {line.strip() for text in texts
                 for line in re.findall(r"^ *leat-tune (?:agent|mlos) .*$", text, re.MULTILINE)}
        commands = [shlex.split(line, comments=True) for line in sorted(lines)]
        commands = [words for words in commands if any(measure in word for word in words)]
        self.assertTrue(commands)
        for command in commands:
            short = ["--trials", "40", "--trial-seconds", "0.05", "--tune-dir", self.dir]
            done = tune(*command[1:], *short)
            allowed = (0, 3, 4) if command[1] == "agent" else (0,)
            self.assertIn(done.returncode, allowed, (command, done.stderr))

    def end(self):
        """End the program by SIGINT, in order; return its JSON."""
        self.child.send_signal(2)
        out, err = self.child.communicate(timeout=DEADLINE)
        self.assertEqual(self.child.returncode, 130, err)
        return json.loads(out)


class Perf(Case):
    def test_no_message_is_lost(self):
        rng = random.Random(1)
        self.start(PERF, "--test", "rate", "--idle", "yield", "--check", "--window", "256",
                   "--duration", "600")
        process = self.process()
        client = self.object(process, "perf.client",
                             lambda o: o.report["running"] and o.report["messages"] > 0)
        self.assertEqual((client.settings["window"], client.settings["burst"]), (256, 32))
        with process.session() as session:
            for _ in range(int(CHANGES)):
                window, burst = rng.randint(1, 400), rng.randint(1, 256)
                answer = session.set(client, {"window": window, "burst": burst})
                self.assertEqual(answer.effective,
                                 {"window": min(window, 256), "burst": min(burst, window, 256)})
        before = self.object(process, "perf.client", lambda o: True).report["messages"]
        after = self.object(process, "perf.client", lambda o: o.report["messages"] > before)
        self.assertEqual(after.report["errors"], 0)
        result = self.end()["results"][0]
        self.assertEqual(result["errors"], 0)

    def test_commands_of_the_guides(self):
        self.start(PERF, "--test", "rate", "--idle", "yield", "--duration", "600")
        self.object(self.process(), "perf.client", lambda o: o.report["running"])
        self.documented("messages_per_second")
        self.end()

    def test_what_a_run_has_not(self):
        self.start(PERF, "--test", "lat", "--idle", "yield", "--size", "8", "--duration", "600")
        process = self.process()
        client = self.object(process, "perf.client", lambda o: o.report["latency"].count > 0)
        server = self.object(process, "perf.server", lambda o: True)
        with process.session() as session:
            for which, change, word in ((client, {"window": 2}, "one message"),
                                        (client, {"rate": 10.0}, "kind of loop"),
                                        (server, {"window": 2}, "connecting side")):
                with self.assertRaises(leat_tune.Refused) as refused:
                    session.set(which, change)
                self.assertIn(word, str(refused.exception))
        self.end()

    def test_rate_of_an_open_loop(self):
        self.start(PERF, "--test", "lat", "--idle", "yield", "--size", "8", "--rate", "500",
                   "--check", "--duration", "600")
        process = self.process()
        client = self.object(process, "perf.client",
                             lambda o: o.report["running"] and o.report["latency"].count > 0)
        with process.session() as session:
            for rate in (20000.0, 1.0, 3000.0):
                self.assertEqual(session.set(client, {"rate": rate}).effective, {"rate": rate})
        # The new rate applies at once: at the old one, 1/s, this would take a quarter of an hour.
        count = self.object(process, "perf.client", lambda o: True).report["messages"]
        self.object(process, "perf.client", lambda o: o.report["messages"] > count + 1000)
        self.assertEqual(self.end()["results"][0]["errors"], 0)

    def test_settings_of_a_file(self):
        path = os.path.join(self.dir, "settings")

        def write(*lines):
            with open(path, "w", encoding="ascii") as f:
                f.writelines(line + "\n" for line in lines)

        write("perf.client.burst = 7", "perf.window = 100000")
        self.start(PERF, "--test", "rate", eal=["--settings", path])
        error = self.child.communicate(timeout=DEADLINE)[1]
        self.assertEqual(self.child.returncode, 2)
        self.assertIn(path + ":2", error)
        write("perf.client.burst = 7", "perf.window = 50", "endpoint.client.latency_sample = 16",
              "reactor.*.events_us = 2000", "log.levels.reactor = error")
        self.start(PERF, "--test", "rate", "--idle", "yield", "--window", "64", "--duration", "600",
                   eal=["--settings", path])
        process = self.process()
        client = self.object(process, "perf.client", lambda o: o.report["running"])
        self.assertEqual((client.settings["window"], client.settings["burst"]), (50, 7))
        endpoint = self.object(process, "endpoint.client",
                               lambda o: o.report["latency_send"].count > 0)
        self.assertEqual(endpoint.settings["latency_sample"], 16)
        self.assertEqual(process.snapshot().find("reactor.*")[0].settings["events_us"], 2000)
        self.assertEqual(process.snapshot().find("log.*")[0].settings["reactor"], "error")
        self.end()


class RpcBench(Case):
    def test_no_call_is_lost(self):
        rng = random.Random(2)
        self.start(RPC_BENCH, "--batch", "8", "--tasks", "8", "--idle", "yield", "--seconds", "600")
        process = self.process()
        lcores = [self.object(process, "rpc_bench.lcore%d" % i, lambda o: o.report["calls"] > 0)
                  for i in (0, 1)]
        self.assertEqual(lcores[0].settings, {"batch": 8, "window": 64})
        with process.session() as session:
            for _ in range(int(CHANGES)):
                batch, window = rng.randint(1, 16), rng.randint(1, 100)
                answer = session.set(rng.choice(lcores), {"batch": batch, "window": window})
                batch = min(batch, 8)
                self.assertEqual(answer.effective, {"batch": batch, "window": max(batch, window)})
        for i in (0, 1):
            path = "rpc_bench.lcore%d" % i
            before = self.object(process, path, lambda o: True).report["calls"]
            self.object(process, path, lambda o: o.report["calls"] > before)
        result = self.end()
        self.assertNotIn('"wrong": 1', json.dumps(result))

    def test_commands_of_the_guides(self):
        self.start(RPC_BENCH, "--idle", "yield", "--seconds", "600")
        self.object(self.process(), "rpc_bench.lcore0", lambda o: o.report["calls"] > 0)
        self.documented("calls_per_second")
        self.end()

    def test_a_plan_stays(self):
        self.start(RPC_BENCH, "--rate", "1000", "--idle", "yield", "--seconds", "600")
        process = self.process()
        lcore = self.object(process, "rpc_bench.lcore0", lambda o: o.report["latency"].count > 0)
        with process.session() as session:
            with self.assertRaises(leat_tune.Refused) as refused:
                session.set(lcore, {"batch": 2})
            self.assertIn("open loop", str(refused.exception))
            session.set(lcore, {"window": 3})
        self.end()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
