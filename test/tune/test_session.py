# SPDX-License-Identifier: BSD-3-Clause
"""leat_tune's sessions, with a fake process, and with a real one if its path is given."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import leat_tune
from fake_process import FakeProcess
from leat_tune import SESSION, Gone, Refused, TimedOut, TuneError, Unknown
from leat_tune._cli import main
from tune_case import Case

REAL = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None

# An agent that takes a lease, prints so, and waits to be killed.
AGENT = """
import sys, leat_tune
[process] = leat_tune.processes(sys.argv[1])
with process.session("agent") as session:
    session.set(sys.argv[2], {sys.argv[3]: sys.argv[4]}, lease=leat_tune.SESSION)
    print("set", flush=True)
    for sample in session.samples():
        pass
"""


def settings_of(process, path):
    return process.snapshot(rows=False).object(path).settings


class Changes(Case):
    def setUp(self):
        super().setUp()
        self.fake = FakeProcess(self.dir, objects=2)
        self.fake.start()
        self.addCleanup(self.fake.stop)
        self.process = self.only()

    def session(self, name="test", **options):
        session = self.process.session(name, **options)
        self.addCleanup(session.close)
        return session

    def refused(self, number, words, call):
        with self.assertRaises(Refused) as caught:
            call()
        self.assertEqual(caught.exception.errno, number)
        self.assertRegex(str(caught.exception), words)

    def test_set(self):
        s = self.session()
        a = s.set("reactor.lcore0", {"idle": "sleep", "spin_us": "100"})
        self.assertEqual((a.effective, a.epoch), ({"idle_policy": "sleep", "spin_us": 100}, 1))
        self.assertEqual(a.settings["ep_burst"], 32)
        a = s.set("log.log", {"level": "debug", "sync": True, "share": 0.25, "prefix": "x"})
        self.assertEqual(a.effective,
                         {"level": "debug", "sync": True, "share": 0.25, "prefix": "x"})
        # The process rounds a value to the setting's quantum.
        self.assertEqual(s.set("endpoint.ep0", {"inline_max": 100}).effective, {"inline_max": 96})
        self.assertEqual(s.set("endpoint.ep0", {"inline_max": "automatic"}).effective,
                         {"inline_max": -1})
        snapshot = self.process.snapshot()
        self.assertEqual(snapshot.object("log.log").settings["prefix"], "x")
        self.assertEqual(snapshot.object("reactor.lcore0").epoch, 1)
        self.assertEqual(snapshot.leases, [])
        change = snapshot.changes[0]
        self.assertEqual((change.object, change.name, change.old, change.new, change.why,
                          change.who),
                         ("reactor.lcore0", "idle_policy", "auto", "sleep", "set",
                          f"test[{os.getpid()}]"))
        self.assertLess(abs(change.real_ns / 1e9 - time.time()), 60)

    def test_objects(self):
        s = self.session()
        o = self.process.snapshot().object("reactor.lcore1")
        for which in (o, o.id, o.path):
            s.set(which, {"ep_burst": 8})
        self.assertEqual(settings_of(self.process, "reactor.lcore1")["ep_burst"], 8)
        with self.assertRaises(Unknown) as caught:
            s.set("reactor.lcore9", {"ep_burst": 8})
        self.assertIn("reactor.lcore0", caught.exception.nearest)
        with self.assertRaises(Unknown):
            s.set(4711, {"ep_burst": 8})
        self.fake.remove("reactor.lcore1")
        self.refused(errno.ENOENT, "not there any more", lambda: s.set(o, {"ep_burst": 9}))

    def test_refused(self):
        s = self.session()

        def setting(**values):
            return lambda: s.set("reactor.lcore0", values)

        self.refused(errno.ERANGE, "0 is not from 1", setting(spin_us=0))
        self.refused(errno.EPERM, "only at start", setting(max_pollers=5))
        self.refused(errno.EINVAL, "together", setting(sleep_min_us=5))
        self.refused(errno.EINVAL, "does not hold", setting(sleep_min_us=5, sleep_max_us=4))
        self.refused(errno.EINVAL, "one of auto, spin", setting(idle_policy="hard"))
        self.refused(errno.EINVAL, "integer from 1 to 32", setting(ep_burst="many"))
        with self.assertRaises(Unknown) as caught:
            setting(spin=5)()
        self.assertIn("spin_us", caught.exception.nearest)
        for wrong in (0, -1, float("nan"), 1e10):
            with self.assertRaises(ValueError):
                s.set("reactor.lcore0", {"spin_us": 5}, lease=wrong)
        with self.assertRaises(ValueError):
            s.set("reactor.lcore0", {})
        # A group was refused as a whole: nothing was changed.
        self.refused(errno.ERANGE, "spin_us", setting(ep_burst=5, spin_us=0))
        self.assertEqual(self.process.snapshot().changes, [])

    def test_lease(self):
        first, second = self.session("first"), self.session("second")
        first.set("reactor.lcore0", {"spin_us": 60}, lease=SESSION)
        me = os.getpid()
        snapshot = self.process.snapshot()
        [lease] = snapshot.leases
        self.assertEqual((lease.object, lease.settings, lease.who, lease.expires_ns, lease.session),
                         ("reactor.lcore0", ("spin_us",), f"first[{me}]", 0, first.number))
        self.assertIs(snapshot.holder(snapshot.object("reactor.lcore0"), "spin_us"), lease)
        self.assertIsNone(snapshot.holder(snapshot.object("reactor.lcore0"), "ep_burst"))
        held = rf"first\[{me}\] holds it as long as it is connected"
        self.refused(errno.EBUSY, held, lambda: second.set("reactor.lcore0", {"spin_us": 70}))
        second.set("reactor.lcore0", {"ep_burst": 7})
        first.set("reactor.lcore0", {"spin_us": 80}, lease=500)
        self.refused(errno.EBUSY, rf"first\[{me}\] holds it for another \d+\.\d s",
                     lambda: second.set("reactor.lcore0", {"spin_us": 70}, lease=5))
        first.close()
        self.eventually(lambda: settings_of(self.process, "reactor.lcore0")["spin_us"] == 50)
        self.assertEqual(settings_of(self.process, "reactor.lcore0")["ep_burst"], 7)
        second.set("reactor.lcore0", {"spin_us": 70})
        self.assertEqual(self.process.snapshot().leases, [])

    def test_lease_runs_out(self):
        s = self.session()
        begin = time.monotonic()
        s.set("reactor.lcore0", {"spin_us": 60}, lease=0.2)
        self.eventually(lambda: settings_of(self.process, "reactor.lcore0")["spin_us"] == 50)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        self.assertEqual(self.process.snapshot().changes[-1].why, "lease over")

    def test_release(self):
        s = self.session()
        s.set("reactor.lcore0", {"spin_us": 60}, lease=SESSION)
        s.set("reactor.lcore1", {"spin_us": 61}, lease=SESSION)
        s.release("reactor.lcore0", keep=True)
        s.release()
        self.assertEqual(settings_of(self.process, "reactor.lcore0")["spin_us"], 60)
        self.assertEqual(settings_of(self.process, "reactor.lcore1")["spin_us"], 50)
        s.close()
        self.assertEqual(settings_of(self.process, "reactor.lcore0")["spin_us"], 60)

    def test_samples(self):
        s = self.session()
        s.watch(0.002, object="log.log")
        seen = []
        for sample in s.samples(20):
            # Between samples, answers still come.
            s.set("reactor.lcore0", {"spin_us": len(seen) + 1})
            self.fake.report("log.log", lines=len(seen))
            seen.append(sample.report["lines"])
            if len(seen) == 20:
                break
        self.assertEqual(len(seen), 20)
        s.watch(0)
        self.assertEqual(self.process.snapshot().object("reactor.lcore0").settings["spin_us"], 20)
        with self.assertRaises(ValueError):
            s.watch(0.0001)

    def test_refresh(self):
        s = self.session()
        begin = time.monotonic()
        self.assertIn("log.log", [o.path for o in s.refresh().objects])
        self.assertLess(time.monotonic() - begin, 0.9)

    def test_hangs(self):
        self.fake.hang.set()
        s = self.session(timeout=0.2)
        with self.assertRaises(TimedOut):
            s.set("reactor.lcore0", {"spin_us": 5})
        self.fake.hang.clear()
        # A late answer to a request that timed out is not taken for the next answer.
        self.assertEqual(s.set("reactor.lcore0", {"spin_us": 6}).effective, {"spin_us": 6})

    def test_closed(self):
        s = self.session()
        s.close()
        s.close()
        self.assertTrue(s.closed)
        for call in (lambda: s.set("log.log", {"sync": True}), lambda: next(s.samples(1)),
                     lambda: s.watch(1)):
            with self.assertRaises(Gone):
                call()

    def test_name(self):
        self.session("x" * 300).set("log.log", {"sync": True})
        self.assertRegex(self.process.snapshot().changes[-1].who, r"^x{48}\[\d+\]$")


class Places(Case):
    def test_long_path(self):
        path = self.dir
        while len(path) < 300:
            path += "/" + "d" * 60
            os.mkdir(path, 0o700)
        with FakeProcess(path):
            with leat_tune.processes(path)[0] as process, process.session() as s:
                self.assertEqual(s.set("log.log", {"sync": True}).effective, {"sync": True})

    def test_other_release(self):
        with FakeProcess(self.dir, protocol_hash=1):
            process = self.only()
            self.assertIn("log.log", [o.path for o in process.snapshot().objects])
            with self.assertRaises(TuneError) as caught:
                process.session()
            self.assertEqual(caught.exception.errno, errno.EPROTONOSUPPORT)

    def test_moved(self):
        """The directory that was checked is used, whatever its name points to now."""
        with FakeProcess(self.dir):
            process = self.only()
            os.rename(self.dir, self.dir + "-2")
            self.addCleanup(os.rename, self.dir + "-2", self.dir)
            with process.session() as s:
                s.set("log.log", {"sync": True})


class Deaths:
    """Tests with a process of their own."""

    def start(self) -> subprocess.Popen:
        raise NotImplementedError

    path, name, value, default = "", "", "", 0

    def now(self, process):
        return settings_of(process, self.path)[self.name]

    def agent(self):
        p = self.spawn([sys.executable, "-B", "-W", "error", "-c", AGENT, self.dir, self.path,
                        self.name, self.value])
        self.assertEqual(p.stdout.readline(), "set\n")
        return p

    def test_agent_killed(self):
        self.start()
        process = self.only()
        for _ in range(3):
            agent = self.agent()
            self.assertEqual(str(self.now(process)), self.value)
            [lease] = process.snapshot().leases
            self.assertEqual(lease.who, f"agent[{agent.pid}]")
            with process.session("other") as other, \
                    self.assertRaisesRegex(Refused, rf"agent\[{agent.pid}\]"):
                other.set(self.path, {self.name: self.value})
            agent.kill()
            agent.wait()
            self.eventually(lambda: self.now(process) == self.default)
            self.assertEqual(process.snapshot().leases, [])

    def test_agent_killed_at_random(self):
        self.start()
        process = self.only()
        rnd = random.Random(self._testMethodName)
        script = AGENT.replace('print("set", flush=True)',
                               'session.watch(0.001, rows=True, object=sys.argv[2])')
        for _ in range(6):
            agents = [subprocess.Popen([sys.executable, "-B", "-c", script, self.dir, self.path,
                                        self.name, self.value],
                                       stderr=subprocess.DEVNULL) for _ in range(2)]
            time.sleep(rnd.uniform(0.05, 0.25))
            for agent in agents:
                agent.kill()
                agent.wait()
        self.eventually(lambda: self.now(process) == self.default)
        self.eventually(lambda: not process.snapshot().leases)
        with process.session() as s:
            s.set(self.path, {self.name: self.value})
        self.assertEqual(len(os.listdir(self.dir)), 2)

    def test_process_killed(self):
        p = self.start()
        process = self.only()
        with process.session(timeout=20) as s:
            s.watch(0.01, object=self.path)
            next(s.samples(20))
            p.kill()
            p.wait()
            begin = time.monotonic()
            with self.assertRaises(Gone):
                for _ in s.samples():
                    pass
            with self.assertRaises(Gone):
                s.set(self.path, {self.name: self.value})
            self.assertLess(time.monotonic() - begin, 5)
        self.assertFalse(process.alive())
        self.assertIn(self.path, [o.path for o in process.snapshot().objects])
        with self.assertRaises(Gone):
            process.session()
        self.assertEqual(leat_tune.sweep(self.dir), 2)

    def test_process_stopped(self):
        p = self.start()
        process = self.only()
        with process.session(timeout=0.3) as s:
            p.send_signal(signal.SIGSTOP)
            self.addCleanup(p.send_signal, signal.SIGCONT)
            # Threads that run on other CPUs may answer until all of them have stopped.
            os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WNOWAIT)
            with self.assertRaises(TimedOut):
                s.set(self.path, {self.name: self.value})
            with self.assertRaises(TimedOut):
                s.refresh(timeout=0.1)
            # The stopped process can still be read.
            self.assertTrue(process.alive())
            self.assertIn(self.path, [o.path for o in process.snapshot().objects])
            for _ in range(2):
                with self.assertRaises(TimedOut):
                    process.session(timeout=0.1)
            with unittest.mock.patch("leat_tune._process.HUNG_NS", 300_000_000):
                self.eventually(lambda: process.hung)

    def test_process_ends(self):
        p = self.start()
        process = self.only()
        with process.session() as s:
            p.terminate()
            with self.assertRaises(Gone):
                for _ in s.samples():
                    pass
            self.assertEqual(p.wait(), 0)
        self.assertEqual(os.listdir(self.dir), [])
        with self.assertRaises(Gone):
            process.session()


class FakeDeaths(Deaths, Case):
    path, name, value, default = "reactor.lcore0", "spin_us", "60", 50

    def start(self):
        return self.fake("--objects", "1", "--load")


@unittest.skipIf(REAL is None, "no real process was given")
class RealDeaths(Deaths, Case):
    path, name, value, default = "worker.w0", "batch", "64", 32

    def start(self, *options):
        p = self.spawn([REAL, "--tune-dir", self.dir, "--workers", "1", "--rows", "4", *options],
                       stderr=subprocess.DEVNULL)
        self.assertEqual(p.stdout.readline(), "ready\n")
        # The control thread adds the object to the block a moment later.
        with self.only() as process:
            self.eventually(lambda: process.snapshot().find(self.path))
        return p

    def test_settings_file(self):
        """The program reads a file that leat-tune saved."""
        p = self.start()
        path = self.dir + "/settings"
        with self.only() as process, process.session() as s:
            s.set("worker.w0",
                  {"batch": "automatic", "mode": "slow", "low": 20, "high": 100, "ratio": 0.1})
            wanted = settings_of(process, "worker.w0")
            for options in ([], ["--all"]):
                self.assertEqual(main(["save", path + "".join(options), "--tune-dir", self.dir,
                                       *options]), 0)
        p.terminate()
        p.wait()
        for file in (path, path + "--all"):
            p = self.start("--settings", file)
            with self.only() as process:
                self.assertEqual(settings_of(process, "worker.w0"), wanted)
            p.terminate()
            p.wait()

    def test_lease_of_removed_object(self):
        """A lease ends with its object: a session can lease settings of any number of objects."""
        p = self.start()
        process = self.only()
        with process.session("test") as s:
            for _ in range(70):  # the process has 64 leases
                old = process.snapshot().object(self.path).id
                s.set(self.path, {self.name: self.value}, lease=SESSION)
                self.assertEqual(len(process.snapshot().leases), 1)
                p.send_signal(signal.SIGUSR1)
                self.eventually(lambda: [o.id for o in process.snapshot().find(self.path)
                                         if o.id != old])

    def test_talk(self):
        """The messages of the real process are those that leat_tune expects."""
        self.start()
        process = self.only()
        with process.session("test") as s:
            a = s.set("worker.w0", {"batch_size": 100, "low": 5, "high": 6})
            self.assertEqual(a.effective, {"batch": 96, "low": 5, "high": 6})
            for values, number in (({"batch": 4}, errno.ERANGE), ({"low": 5}, errno.EINVAL),
                                   ({"slots": 5}, errno.EPERM),
                                   ({"low": 9, "high": 3}, errno.EINVAL),
                                   ({"checked": True}, errno.EOPNOTSUPP)):
                with self.assertRaises(Refused, msg=values) as caught:
                    s.set("worker.w0", values)
                self.assertEqual(caught.exception.errno, number)
            snapshot = s.refresh()
            self.assertEqual([o.path for o in snapshot.objects],
                             ["worker.w0"] + [f"worker.w0/item{i}" for i in (0, 1, 2)])
            report = snapshot.object("worker.w0").report
            self.assertGreater(report["turns"], 0)
            self.assertGreater(report["latency"].count, 0)
            self.assertEqual(report["state"], "working")
            self.assertEqual([(c.name, c.old, c.new) for c in snapshot.changes],
                             [("batch", "32", "96"), ("low", "10", "5"), ("high", "100", "6")])


if __name__ == "__main__":
    unittest.main()
