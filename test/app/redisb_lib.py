# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-redis-bench and servers for tests; perf_lib.py has processes and results as TAP."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading

from perf_lib import (CPU_A, CPU_B, DEADLINE, SIGINT, SIGTERM, Failed, Proc, Skipped, case, check,
                      expect_ok, main, need_device, run)

__all__ = ["CPU_A", "CPU_B", "DEADLINE", "SIGINT", "SIGTERM", "Failed", "Fake", "Proc", "Redis",
           "Skipped", "bench",
           "case", "check", "clean", "expect_ok", "main", "need_device", "need_redis", "one",
           "results", "run", "start"]

ONE = ["-l", str(CPU_A)]
# Servers need the CPU, too; and a busy machine answers late.
LIGHT = ["--idle", "sleep", "--timeout", "60"]

COUNTERS = ("requests", "request_bytes", "bytes_sent", "bytes_received", "errors", "wrong", "nil",
            "cut", "lost_clients", "unsent", "delayed")
LATENCIES = ("min_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")


def start(where, app, eal=None):
    return Proc(eal or ONE, where + LIGHT + ["--json"] + app)


def bench(where, app, eal=None):
    p = start(where, app, eal)
    p.code = p.wait()
    return p


def results(p):
    """Return the JSON of a run, with its form checked."""
    try:
        j = json.loads(p.out())
    except ValueError as e:
        raise Failed("no JSON (%s) from %s\n%s" % (e, " ".join(p.args), p.text())) from None
    check(j["schema"] == "leat-redis-bench" and j["version"] == 1, "schema of " + p.out())
    for r in [j["connect"]] + [r["latency"] for r in j["results"]]:
        values = [r[key] for key in LATENCIES]
        check(values == sorted(values) and r["avg_us"] <= r["max_us"], str(r))
    for r in j["results"]:
        check(all(isinstance(r[key], int) and r[key] >= 0 for key in COUNTERS), str(r))
        check(isinstance(r["elapsed_s"], float) and isinstance(r["requests_per_s"], float), str(r))
    return j


def clean(p, requests=None):
    """Check a run without errors; each test made `requests` requests, unless None."""
    j = results(expect_ok(p))
    check([r["test"] for r in j["results"]] == j["plan"]["tests"], p.out())
    check(j["connect"]["clients"] == j["plan"]["clients"], p.out())
    check("error" not in j and not j["interrupted"], p.out())
    for r in j["results"]:
        for key in ("errors", "wrong", "cut", "lost_clients", "unsent"):
            check(r[key] == 0, "%s: %s" % (key, r))
        check(requests is None or r["requests"] == requests, "%s requests: %s" % (requests, r))
        check(r["bytes_sent"] == r["requests"] * r["request_bytes"], str(r))
    return j


def one(p):
    """Return the only result of a run."""
    j = results(p)
    check(len(j["results"]) == 1, p.out())
    return j["results"][0]


# ---- a server of Redis ----

def need_redis():
    if shutil.which("redis-server") is None:
        raise Skipped("there is no redis-server")


class Connection:
    """A connection by which the test itself sends commands and reads replies."""

    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(DEADLINE)
        self.s.connect(path)
        self.f = self.s.makefile("rb")

    def reply(self):
        line = self.f.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self.f.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        check(kind in (b"+", b":"), "the server says %s" % line)
        return int(rest) if kind == b":" else rest.decode()

    def send(self, *args):
        args = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        self.s.sendall(b"*%d\r\n" % len(args) +
                       b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args))

    def call(self, *args):
        self.send(*args)
        return self.reply()

    def calls(self, command):
        """Return how often the command was called."""
        for line in self.call("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_%s:calls=" % command):
                return int(line.split("=")[1].split(",")[0])
        return 0

    def close(self):
        self.f.close()
        self.s.close()


class Redis:
    def __init__(self, *args):
        self.dir = tempfile.mkdtemp(prefix="leat-redis-")
        atexit.register(shutil.rmtree, self.dir, True)
        self.path = os.path.join(self.dir, "s")
        self.log = []
        self.p = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir",
             self.dir, "--enable-debug-command", "yes", *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.p.stdout:
            self.log.append(line)
            if "eady to accept connections" in line or "server is now ready" in line:
                break
        else:
            raise Failed("redis-server did not start:\n" + "".join(self.log))
        # The rest of the server's output is not read; it is short.
        self.where = ["--connect", "unix:" + self.path]

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.kill()

    def connect(self):
        return Connection(self.path)

    def wait_calls(self, command, n):
        """Wait until a command has been called that often."""
        c = self.connect()
        while c.calls(command) < n:
            pass
        c.close()

    def signal(self, sig):
        self.p.send_signal(sig)

    def kill(self):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()


# ---- a server that answers wrongly ----

class Fake:
    """A server whose answer(args, n) gives the bytes of the nth reply of a connection; None closes
    it. step: bytes sent at a time."""

    def __init__(self, answer, greeting=b"", step=1 << 20):
        self.dir = tempfile.mkdtemp(prefix="leat-redis-")
        atexit.register(shutil.rmtree, self.dir, True)
        self.answer = answer
        self.greeting = greeting
        self.step = step
        self.s = socket.socket(socket.AF_UNIX)
        self.s.bind(os.path.join(self.dir, "s"))
        self.s.listen(64)
        self.where = ["--connect", "unix:" + os.path.join(self.dir, "s")]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        # close() alone would leave the thread in accept(), which could later accept connections of
        # another socket with the same number.
        self.s.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.s.close()

    def _accept(self):
        while True:
            try:
                conn, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        with conn, conn.makefile("rb") as f:
            try:
                conn.sendall(self.greeting)
                n = 0
                while True:
                    line = f.readline()
                    if not line:
                        return
                    args = []
                    for _ in range(int(line[1:])):
                        size = int(f.readline()[1:])
                        args.append(f.read(size + 2)[:-2])
                    reply = self.answer(args, n)
                    if reply is None:
                        return
                    for i in range(0, len(reply), self.step):
                        conn.sendall(reply[i:i + self.step])
                    n += 1
            except OSError:
                return
