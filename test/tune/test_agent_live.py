# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune agent on a running program: what it finds, and that settings always go back."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

import program
import leat_tune
from leat_tune.agent import Goal, GoalError, Live, SettingError, resolve, targets

HERE = os.path.dirname(os.path.abspath(__file__))
START = {"batch": 4, "policy": "yield", "low": 10, "high": 50, "room": 50}
GOAL = "max calls_per_second where p99_us < 40"
SHORT = ("--trial-seconds", "0.05", "--warm-up", "0.015")


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="leat-agent-")
        self.addCleanup(shutil.rmtree, self.dir)

    def file(self, name):
        return os.path.join(self.dir, name)

    def start(self, *args):
        """Start a program, and wait until it is ready."""
        child = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "program.py"), self.dir,
                                  *args],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            child.kill()
            child.communicate()

        self.addCleanup(end)
        self.assertTrue(child.stdout.readline())
        (self.process,) = leat_tune.processes(self.dir)
        self.addCleanup(self.process.close)
        return child

    def popen(self, *args):
        child = subprocess.Popen([sys.executable, "-B", "-m", "leat_tune._cli", "agent",
                                  "--tune-dir", self.dir, *args],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            child.kill()
            child.communicate()

        self.addCleanup(end)
        return child

    def agent(self, *args):
        child = self.popen(*args)
        out, err = child.communicate(timeout=120)
        return child.returncode, out, err

    def object(self):
        return self.process.snapshot().object("bench.main")

    def until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it never held")

    def changed(self):
        """Return whether settings differ from those at the start."""
        return self.object().settings != START


class Finds(Case):
    def test_the_best_and_keeps_it(self):
        self.start()
        status, out, err = self.agent("--goal", GOAL, "--set", "batch,policy", "--trials", "80",
                                      *SHORT, "--apply",
                                      "--json", "--svg", self.file("plot.svg"), "--log",
                                      self.file("log"))
        self.assertEqual(status, 0, err)
        tree = json.loads(out)
        best = {**START, **tree["best"]}
        self.assertLess(program.latency_us(best), 40)
        # The best of all values that keep the guard, by a sweep.
        sweep = max(program.rate({"batch": b, "policy": "spin"}) for b in range(1, 77))
        self.assertGreaterEqual(program.rate(best), 0.9 * sweep)
        self.assertGreater(tree["gain"], 1.0)
        self.assertTrue(tree["kept"])
        self.assertEqual(self.object().settings, best)
        self.assertEqual(self.process.snapshot().leases, [])
        self.assertEqual([one["setting"] for one in tree["ablation"] if one["real"]],
                         ["batch", "policy"])
        self.assertEqual(xml.dom.minidom.parse(self.file("plot.svg")).documentElement.tagName,
                         "svg")
        self.assertIn("compare: batch=", err)
        # The log has every trial, and the guard that broke.
        with open(self.file("log"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(len(lines), tree["trials"] + 1)
        self.assertTrue(any("p99_us < 40 broken" in line.get("words", "") for line in lines))

    def test_noise_alone(self):
        self.start("--flat", "--noise", "0.5")
        status, out, _ = self.agent("--goal", "max calls_per_second", "--set", "batch,policy",
                                    "--trials", "60", *SHORT)
        self.assertEqual(status, 3, out)
        self.assertIn("could be told", out)
        self.assertEqual(self.object().settings, START)

    def test_guards_that_can_not_be_kept(self):
        self.start()
        status, out, _ = self.agent("--goal", "max calls_per_second where p99_us < 1", "--set",
                                    "batch", "--trials", "40", *SHORT)
        self.assertEqual(status, 4, out)
        self.assertEqual(self.object().settings, START)

    def test_it_goes_on_from_a_log(self):
        self.start()
        log = self.file("log")
        args = ("--goal", GOAL, "--set", "batch=1:64,policy", "--trials", "60", *SHORT, "--log",
                log)
        child = self.popen(*args)
        for _ in range(12):
            self.assertTrue(child.stderr.readline())
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn(f"--resume {log}", err)
        self.until(lambda: not self.changed())
        with open(log, "a", encoding="utf-8") as file:
            file.write('{"trial": 13, "purp')  # it was killed in the middle of a line
        with open(log, encoding="utf-8") as file:
            before = file.read().count("\n")
        status, out, err = self.agent("--resume", log, "--json")
        self.assertEqual(status, 0, err)
        self.assertNotIn("another way", err)
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(len(lines), json.loads(out)["trials"] + 1)
        self.assertGreaterEqual(before, 12)
        # Trials that the log already had were not repeated.
        self.assertEqual([line["trial"] for line in lines[1:]], list(range(1, len(lines))))
        self.assertEqual(self.agent(*args)[0], 1)  # a log is not overwritten


class GoesBack(Case):
    def running(self, *args):
        """Start an agent, and wait until it is in the middle of a search."""
        child = self.popen("--goal", "max calls_per_second", "--set", "batch,low", "--trials",
                           "1000", *SHORT, *args)
        self.until(self.changed)
        return child

    def test_killed(self):
        self.start()
        for _ in range(2):
            child = self.running()
            child.kill()
            child.wait()
            self.until(lambda: not self.changed())
            self.assertEqual(self.process.snapshot().leases, [])

    def test_the_second_is_told_who_holds(self):
        self.start()
        child = self.running("--quiet")
        status, _, err = self.agent("--goal", "max calls_per_second", "--set", "batch", "--trials",
                                    "40", *SHORT)
        self.assertEqual(status, 1)
        self.assertIn(f"leat-tune agent[{child.pid}]", err)
        self.assertIn("bench.main.batch", err)
        self.assertIsNone(child.poll())

    def test_the_program_ends(self):
        process = self.start()
        child = self.running("--quiet")
        process.kill()
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 1)
        self.assertIn(f"process {process.pid} (fake-bench)", err)

    def test_a_guard_that_breaks_ends_a_trial(self):
        # The start settings break the guard too: every trial ends at once, not after 30 s.
        self.start()
        begin = time.monotonic()
        status, _, err = self.agent("--goal", "max calls_per_second where p99_us < 3", "--set",
                                    "batch=4|128",
                                    "--trials", "40", "--trial-seconds", "30", "--warm-up", "0.01")
        self.assertEqual(status, 4, err)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertFalse(self.changed())


class Late(Case):
    def test_reports_are_awaited(self):
        """The program reports less often than a trial takes: its rates are found all the same."""
        with program.Program(self.dir, noise=0) as fake:
            ended = threading.Event()
            reports = threading.Thread(target=fake.work, args=(lambda _: ended.wait(0.2),))
            reports.start()
            self.addCleanup(reports.join)
            self.addCleanup(ended.set)
            (process,) = leat_tune.processes(self.dir)
            self.addCleanup(process.close)
            snapshot = process.snapshot()
            found = targets(["batch=16|64", "policy"], snapshot)
            goal = Goal.parse("max calls_per_second")
            measures = {name: resolve(name, snapshot) for name in goal.measures}
            with Live(process, found, goal, measures, seconds=0.05, warm_up=0.01) as live:
                for batch, policy in ((16, "spin"), (64, "yield"), (16, "yield")):
                    wanted = {"batch": batch, "policy": policy}
                    value = live.trial(found.space.config(wanted)).value
                    self.assertAlmostEqual(value / program.rate(wanted), 1.0, delta=0.001)
            self.assertEqual(process.snapshot().object("bench.main").settings, START)


class OtherOptimisers(Case):
    def test_one_trial(self):
        self.start()
        args = ("--goal", GOAL, "--json", *SHORT)
        status, out, err = self.agent(*args, "--try", "batch=16,policy=spin")
        self.assertEqual((status, err), (0, ""))
        tree = json.loads(out)
        self.assertEqual(tree["settings"], {"batch": 16, "policy": "spin"})
        self.assertAlmostEqual(tree["value"], program.rate({"batch": 16, "policy": "spin"}),
                               delta=0.2 * tree["value"])
        self.assertEqual(set(tree["measures"]), {"calls_per_second", "p99_us"})
        status, out, _ = self.agent(*args, "--try", "batch=4,policy=yield")  # as the program is
        self.assertEqual(status, 0)
        status, out, _ = self.agent(*args, "--try", "batch=128")
        self.assertEqual(status, 4)
        self.assertTrue(json.loads(out)["broken"])
        status, out, _ = self.agent(*args, "--try", "low=80", "--try", "high=20")
        self.assertEqual(status, 1)
        self.assertIn("low <= high", json.loads(out)["words"])
        for words in ("batch", "batch=x", "nothing=1"):
            self.assertIn(self.agent(*args, "--try", words)[0], (1, 2))
        self.assertFalse(self.changed())

    def test_files_of_mlos_bench(self):
        self.start()
        where = self.file("mlos")
        done = subprocess.run([sys.executable, "-B", "-m", "leat_tune._cli", "mlos", where,
                               "--tune-dir", self.dir, "--goal",
                               GOAL, "--object", "bench.*", *SHORT], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        trees = {}
        for name in ("tunables", "environment", "service", "optimizer", "mlos_bench"):
            with open(os.path.join(where, name + ".json"), encoding="utf-8") as file:
                trees[name] = json.load(file)
        tunables = trees["tunables"]
        # Settings that take effect only at start are absent.
        self.assertEqual(set(tunables) - {"$schema"}, {"bench.main", "bench.main.bounds"})
        self.assertEqual(set(trees["environment"]["config"]["tunable_params"]),
                         set(tunables) - {"$schema"})
        batch = tunables["bench.main"]["params"]["bench.main.batch"]
        self.assertEqual({key: batch[key]
                          for key in ("type", "default", "range", "special", "log")},
                         {"type": "int", "default": 4, "range": [1, 256], "special": [0],
                          "log": True})
        self.assertEqual(set(tunables["bench.main.bounds"]["params"]),
                         {"bench.main.low", "bench.main.high"})
        self.assertEqual(trees["optimizer"]["config"]["optimization_targets"], {"score": "max"})
        # Run a trial as mlos_bench does.
        os.mkdir(self.file("bin"))
        with open(self.file("bin/leat-tune"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -B -m leat_tune._cli "$@"\n')
        os.chmod(file.name, 0o755)
        with open(self.file("settings.json"), "w", encoding="utf-8") as file:
            json.dump({name: one["default"] for group in tunables.values()
                       if isinstance(group, dict)
                       for name, one in group["params"].items()} | {"bench.main.batch": 32}, file)
        environment = {**os.environ, "PATH": self.file("bin") + ":" + os.environ["PATH"]}
        done = subprocess.run([sys.executable, "-B", os.path.join(where, "trial.py"),
                               self.file("settings.json"),
                               self.file("results.csv")], env=environment, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        with open(self.file("results.csv"), encoding="utf-8") as file:
            rows = dict(line.strip().split(",") for line in file)
        self.assertEqual(rows["metric"], "value")
        self.assertEqual(rows["score"], rows["calls_per_second"])
        self.assertGreater(float(rows["score"]),
                           1.2 * program.rate({"batch": 4, "policy": "yield"}))
        self.assertFalse(self.changed())


class Usage(Case):
    def test_goals_of_a_program(self):
        self.start()
        status, out, _ = self.agent("--list-goals")
        self.assertEqual(status, 0)
        for name in ("bench.calls_per_second", "bench.waiting", "bench.latency_p99_us",
                     "bench.latency_mean_us"):
            self.assertIn(name, out)
        self.assertNotIn("bench.state", out)
        snapshot = self.process.snapshot()
        for name in ("p99_us", "latency_p99_us", "bench.p99_us", "bench.main.latency_p99_us",
                     "bench.m*.latency_p99_us"):
            self.assertEqual(resolve(name, snapshot).name, "latency_p99_us")
        for name, words in (("p98_us", "did you mean"), ("per_second", "say which"),
                            ("bench.other.p99_us", "nothing"), ("nothing", "--list-goals")):
            with self.assertRaisesRegex(GoalError, words):
                resolve(name, snapshot)

    def test_settings_of_a_program(self):
        self.start()
        snapshot = self.process.snapshot()
        found = targets(["batch=8:64,policy", "low"], snapshot)
        batch, policy, low = (target.knob for target in found.targets)
        self.assertEqual((batch.values[batch.start], min(batch.values), max(batch.values)),
                         (4, 4, 64))
        self.assertEqual(policy.values, ("spin", "yield"))
        # A group is set as a whole, within its rule.
        self.assertEqual(found.changes({"batch": 8, "policy": "spin", "low": 20}),
                         {"bench.main": {"batch": 8, "policy": "spin", "low": 20, "high": 50}})
        self.assertFalse(found.space.allowed(found.space.config({"batch": 8, "policy": "spin",
                                                                 "low": low.values[-1]})))
        self.assertEqual(targets(["batch"], snapshot).targets[0].knob.values[-1], 0)
        self.assertEqual(targets(["batch=1|automatic"], snapshot).targets[0].knob.values, (1, 0, 4))
        for words, why in (
            (["room"], "only when the program starts"), (["batch=3"], "LOW:HIGH"),
            (["batch=9:5"], "not a part"),
            (["batch=1:999"], "not a part"), (["batch=x:y"], "not an integer"),
            (["policy=fast"], "one of spin, yield"),
            (["batch,batch"], "twice"), (["bench.main.batch,batch"], "twice"),
            (["batch,"], "name is missing"), (["batch=1|999"], "not an integer from"),
        ):
            with self.assertRaisesRegex(SettingError, why, msg=words):
                targets(words, snapshot)
        with self.assertRaisesRegex(leat_tune.Unknown, "did you mean batch"):
            targets(["bach"], snapshot)

    def test_refused(self):
        self.start()
        goal = ("--goal", "max calls_per_second")
        for args, status, words in (
            ((), 2, "--goal and --set"), (goal, 2, "--goal and --set"),
            ((*goal, "--set", "bach"), 1, "did you mean batch"),
            ((*goal, "--set", "room"), 2, "starts"),
            (("--goal", "max nothing", "--set", "batch"), 2, "nothing measures"),
            (("--goal", "best", "--set", "batch"), 2, "column 1"),
            ((*goal, "--set", "batch", "--trials", "10"), 2, "at least 40"),
            ((*goal, "--set", "batch", "--minutes", "0.1"), 2, "give more time"),
            ((*goal, "--set", "batch", "--pid", "1"), 1, "no such process"),
            (("--resume", self.file("none")), 1, "none"), (("--resume", __file__), 2, "not JSON"),
            (("--resume", __file__, *goal), 2, "takes --goal"),
            ((*goal, "--set", "batch", "--confidence", "100"), 2, "less"),
            ((*goal, "--set", "batch", "--trial-seconds", "nan"), 2, "not a number"),
        ):
            found, _, err = self.agent(*args)
            self.assertEqual(found, status, (args, err))
            self.assertIn(words, err, args)
        self.assertFalse(self.changed())

    def test_an_object_that_refuses(self):
        """bench.other refuses changes, and queue.main has measures of the same names."""
        self.start("--more")
        goal = ("--goal", "max calls_per_second where p99_us < 1000", *SHORT)
        status, out, err = self.agent(*goal, "--set", "batch=4|64", "--trials", "40", "--json")
        self.assertIn(status, (0, 3), err)
        self.assertIn("warning: bench.other is left out, since it refuses a change: the other side "
                      "decides", err)
        self.assertIn("calls_per_second", json.loads(out)["goal"])
        self.assertFalse(self.changed())
        status, out, err = self.agent(*goal, "--try", "batch=64,policy=spin", "--json")
        self.assertEqual(status, 0, err)
        self.assertGreater(json.loads(out)["value"],
                           1.2 * program.rate({"batch": 4, "policy": "yield"}))
        # What is named is not left out.
        for args in (("--set", "bench.other.batch"), ("--set", "batch", "--object", "bench.other"),
                     ("--try", "bench.other.batch=3")):
            status, _, err = self.agent(*goal, *args)
            self.assertEqual(status, 1, err)
            self.assertIn("is refused by bench.other: the other side decides", err)
        where = self.file("mlos")
        done = subprocess.run([sys.executable, "-B", "-m", "leat_tune._cli", "mlos", where,
                               "--tune-dir", self.dir, *goal[:2], "--set", "batch"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(where, "tunables.json"), encoding="utf-8") as file:
            self.assertEqual(set(json.load(file)) - {"$schema"}, {"bench.main"})
        self.assertFalse(self.changed())

    def test_which_component_is_meant(self):
        self.start("--more")
        snapshot = self.process.snapshot()
        for name in ("calls_per_second", "p99_us", "per_second"):
            with self.assertRaisesRegex(GoalError, "say which"):
                resolve(name, snapshot)
            with self.assertRaisesRegex(GoalError, "say which"):
                resolve(name, snapshot, components={"bench", "queue"})
        bench = {"components": {"bench"}, "without": {"bench.other"}}
        found = resolve("p99_us", snapshot, **bench)
        self.assertEqual((found.component, found.name, found.paths),
                         ("bench", "latency_p99_us", ("bench.main",)))
        self.assertEqual(resolve("p99_us", snapshot, components={"queue"}).name, "wait_p99_us")
        # Two measures of the component have this end.
        with self.assertRaisesRegex(GoalError, "bench.calls_per_second, bench.latency_per_second:"):
            resolve("per_second", snapshot, **bench)
        # A name with a component means what it says.
        self.assertEqual(resolve("queue.calls_per_second", snapshot, **bench).component, "queue")
        self.assertEqual(resolve("bench.calls_per_second", snapshot, **bench).paths,
                         ("bench.main", "bench.other"))

    def test_nothing_is_measured(self):
        self.start()
        status, _, err = self.agent("--goal", "max calls_per_second / (waiting - waiting)", "--set",
                                    "batch", "--trials", "40", *SHORT)
        self.assertEqual(status, 1)
        self.assertIn("no value", err)


if __name__ == "__main__":
    unittest.main()
