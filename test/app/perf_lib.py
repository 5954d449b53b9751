# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-perf for tests: processes with deadlines, lines waited for, results as TAP."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

PERF = sys.argv[1]
DEADLINE = 120  # longest wait, seconds; only a program that hangs takes so long
CPUS = sorted(os.sched_getaffinity(0))
CPU_A, CPU_B = CPUS[0], CPUS[-1]
QUIET = ["--no-pci", "--log-level=lib.*:error"]


def light(vdev):
    """Return arguments with which both sides leave the CPUs to each other, and start quickly."""
    wakes = "shm" not in vdev and "efa" not in vdev
    return ["--idle", "block" if wakes else "yield", "--mbufs", "1024"]


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(cond, text):
    if not cond:
        raise Failed(text)


class Proc:
    """A leat-perf process; two threads collect its output."""

    all = []
    before = []  # words before leat-perf's command: a program that runs it

    def __init__(self, eal, app=None):
        plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
        self.args = self.before + [PERF] + plugins + QUIET + eal
        if app is not None:
            self.args += ["--"] + app
        self.lines = {"out": [], "err": []}
        self.cond = threading.Condition()
        self.p = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, errors="replace")
        self.readers = []
        for name, stream in (("out", self.p.stdout), ("err", self.p.stderr)):
            t = threading.Thread(target=self._read, args=(name, stream), daemon=True)
            t.start()
            self.readers.append(t)
        Proc.all.append(self)

    def _read(self, name, stream):
        for line in stream:
            with self.cond:
                self.lines[name].append(line.rstrip("\n"))
                self.cond.notify_all()
        with self.cond:
            self.lines[name].append(None)
            self.cond.notify_all()

    def expect(self, pattern, which="out", nth=1, timeout=DEADLINE):
        """Wait for the nth line that matches, and return the match."""
        rx = re.compile(pattern)
        end = time.monotonic() + timeout
        with self.cond:
            while True:
                hits = [m for m in (rx.search(x) for x in self.lines[which] if x is not None) if m]
                if len(hits) >= nth:
                    return hits[nth - 1]
                left = end - time.monotonic()
                if None in self.lines[which] or left <= 0:
                    raise Failed("'%s' did not come on std%s of %s\n%s" %
                                 (pattern, which, " ".join(self.args), self.text()))
                self.cond.wait(left)

    def wait(self, timeout=DEADLINE):
        try:
            code = self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("still running after %d s: %s\n%s" %
                         (timeout, " ".join(self.args), self.text())) from None
        for t in self.readers:
            t.join(10)
        return code

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()

    def signal(self, sig):
        self.p.send_signal(sig)

    def out(self):
        return "\n".join(x for x in self.lines["out"] if x is not None)

    def err(self):
        return "\n".join(x for x in self.lines["err"] if x is not None)

    def text(self):
        tail = ["\n".join(t.splitlines()[-40:]) for t in (self.out(), self.err())]
        return "--- end of stdout\n%s\n--- end of stderr\n%s" % tuple(tail)


def run(eal, app=None, timeout=DEADLINE):
    p = Proc(eal, app)
    p.code = p.wait(timeout)
    return p


def expect_ok(p):
    check(p.code == 0, "exit code %s of %s\n%s" % (p.code, " ".join(p.args), p.text()))
    return p


def results(p):
    """Return the JSON of a run, with its form checked."""
    try:
        j = json.loads(p.out())
    except ValueError as e:
        raise Failed("no JSON (%s) from %s\n%s" % (e, " ".join(p.args), p.text())) from None
    check(j["schema"] == "leat-perf" and j["version"] == 1, "schema of " + p.out())
    for r in j["results"]:
        for key, want in (("op", str), ("bytes", int), ("iterations", int), ("errors", int),
                          ("elapsed_s", float), ("interrupted", bool)):
            check(isinstance(r[key], want), "%s is no %s: %s" % (key, want, r))
        for key in (("min_us", "p50_us", "avg_us", "p99_us", "p99_9_us", "max_us", "stdev_us")
                    if j["test"] == "lat" else ("mb_per_s", "gbit_per_s", "mmsg_per_s")):
            check(isinstance(r[key], float), "%s is no number: %s" % (key, r))
    return j


def clean(p, ops, sizes, atomics=("fetch_add", "cmp_swap")):
    """Check a run with --json --check: every op and size was measured, and nothing was wrong."""
    expect_ok(p)
    j = results(p)
    got = [(r["op"], r["bytes"]) for r in j["results"]]
    want = []
    for op in ops:
        if op in atomics:
            want.append((op, 8))
            continue
        want += [(op, s) for s in sizes
                 if s > 0 or not (op == "write" and j["test"] == "lat" and not j["open_loop"])]
    check(got == want, "measured %s instead of %s" % (got, want))
    for r in j["results"]:
        check(r["errors"] == 0 and not r["interrupted"] and r["iterations"] > 0, str(r))
        if j["test"] == "lat":
            check(r["min_us"] <= r["p50_us"] <= r["p99_us"] <= r["max_us"], str(r))
    return j


ALL_OPS = ["send", "tagged", "write", "write_imm", "read", "fetch_add", "cmp_swap"]


class Listener(Proc):
    def __init__(self, vdev, app=None, addr="127.0.0.1:0"):
        super().__init__(["-l", str(CPU_A), "--vdev=" + vdev],
                         ["--listen", addr] + light(vdev) + (app or []))
        self.addr = self.listening(1)

    def listening(self, nth):
        return self.expect(r"^listening on (\S+)$", nth=nth).group(1)


class Port:
    """A port on which nothing listens, reserved: no other program gets it, but a leat-perf that is
    given its number can listen on it."""

    def __enter__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % self.socket.getsockname()[1]

    def __exit__(self, *args):
        self.socket.close()


def client(vdev, addr, app, wait=True):
    p = Proc(["-l", str(CPU_B), "--vdev=" + vdev], ["--connect", addr] + light(vdev) + app)
    if wait:
        p.code = p.wait()
    return p


def need_device(vdev):
    p = run(["-l", str(CPU_A), "--vdev=" + vdev, "--list-devices"])
    if p.code != 0:
        raise Skipped("no device %s here: %s" % (vdev, p.err().splitlines()[-1:] or p.code))


CASES = []


def case(fn):
    CASES.append(fn)
    return fn


def main(before=None):
    """Run all cases; skip them all if before() raises Skipped."""
    skip_all = None
    if before is not None:
        try:
            before()
        except Skipped as e:
            skip_all = str(e)
    print("TAP version 13\n1..%d" % len(CASES), flush=True)
    failed = 0
    for i, fn in enumerate(CASES, 1):
        name = fn.__name__.replace("_", " ")
        begin = time.monotonic()
        try:
            if skip_all:
                raise Skipped(skip_all)
            fn()
            print("ok %d - %s" % (i, name))
        except Skipped as e:
            print("ok %d - %s # SKIP %s" % (i, name, str(e).replace("\n", " ")))
        except Exception as e:  # a test's own mistake fails it, too
            failed += 1
            print("not ok %d - %s" % (i, name))
            text = str(e) if isinstance(e, Failed) else traceback.format_exc()
            # The output of the other processes may show the cause.
            for p in Proc.all:
                p.kill()
                if p.text() not in text:
                    text += "\n%s\n%s" % (" ".join(p.args), p.text())
            for line in text.splitlines():
                print("# " + line)
        finally:
            for p in Proc.all:
                p.kill()
            Proc.all.clear()
        print("# %.1f s" % (time.monotonic() - begin), flush=True)
    sys.exit(1 if failed else 0)


SIGINT, SIGTERM, SIGKILL, SIGSTOP, SIGCONT = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL,
                                              signal.SIGSTOP, signal.SIGCONT)
