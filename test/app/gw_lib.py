# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-redis-gateway for tests, before a redis-server of their own; perf_lib.py has processes
and TAP."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

from perf_lib import (CPU_A, CPU_B, DEADLINE, Failed, Port, Proc, Skipped, case, check, expect_ok,
                      main, run)

__all__ = ["CPU_A", "CPU_B", "DEADLINE", "Failed", "Gateways", "Port", "Proc", "Resp", "Server",
           "Skipped", "case",
           "check", "cli", "command", "expect_ok", "main", "need_redis", "run", "until"]


def need_redis():
    missing = [p for p in ("redis-server", "redis-cli", "redis-benchmark")
               if shutil.which(p) is None]
    if not missing:
        return
    text = "%s: not installed (redis-server, redis-tools)" % ", ".join(missing)
    if os.environ.get("CI") == "true":
        raise Failed(text)
    raise Skipped(text)


def until(what, fn):
    """Wait until fn() is true, and return its value."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        got = fn()
        if got:
            return got
        time.sleep(0.005)
    raise Failed("never: " + what)


def command(*args):
    """Encode a command in RESP."""
    out = [b"*%d\r\n" % len(args)]
    for a in args:
        a = a if isinstance(a, bytes) else str(a).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(a), a))
    return b"".join(out)


class Resp:
    """A connection that speaks RESP, and checks every byte."""

    def __init__(self, where, rcvbuf=None):
        if where.startswith("unix:"):
            self.s = socket.socket(socket.AF_UNIX)
            addr = where[5:]
        else:
            self.s = socket.socket()
            host, port = where.rsplit(":", 1)
            addr = (host, int(port))
        if rcvbuf:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.s.settimeout(DEADLINE)
        self.s.connect(addr)
        self.f = self.s.makefile("rb", buffering=1 << 16)

    def send(self, *args):
        self.s.sendall(command(*args))

    def read(self):
        line = self.f.readline()
        if not line:
            raise EOFError
        check(line.endswith(b"\r\n"), "a line ends in the middle: %r" % line)
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-":
            return line[:-2].decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            n = int(rest)
            if n < 0:
                return None
            data = self.f.read(n + 2)
            check(len(data) == n + 2 and data.endswith(b"\r\n"),
                  "a string of %d B ends after %d" % (n, len(data)))
            return data[:-2]
        check(kind == b"*", "not RESP: %r" % line[:80])
        n = int(rest)
        return None if n < 0 else [self.read() for _ in range(n)]

    def call(self, *args):
        self.send(*args)
        return self.read()

    def ended(self):
        """Return whether the other side ends the connection, without another byte."""
        try:
            return self.f.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.f.close()
        self.s.close()


class Server:
    """A redis-server at a UNIX socket and a TCP port, and the directory of both."""

    def __init__(self, *conf, dir=None):
        self.dir = dir or tempfile.mkdtemp(prefix="gw-")
        self.sock = "unix:" + self.dir + "/r"
        with Port() as addr:
            self.port = addr.rsplit(":", 1)[1]
        self.conf = conf
        self.start()

    def start(self):
        self.p = subprocess.Popen(["redis-server", "--port", self.port, "--bind", "127.0.0.1",
                                   "--unixsocket",
                                   self.sock[5:], "--save", "", "--appendonly", "no", "--dir",
                                   self.dir,
                                   "--client-output-buffer-limit", "pubsub 0 0 0", *self.conf],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

        def up():
            check(self.p.poll() is None, "redis-server ended with %s" % self.p.poll())
            try:
                return Resp(self.sock)
            except OSError:
                return None

        self.direct = until("redis-server", up)

    def clients(self):
        """Return the number of clients, without this test's own connection."""
        return self.direct.call("CLIENT", "LIST").decode().count("\n") - 1

    def kill(self):
        self.p.kill()
        self.p.wait()

    def close(self):
        if self.p.poll() is None:
            self.kill()
        self.direct.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


class Gateways:
    """A forward and a reverse leg in front of a server: over ring in one process, else in two."""

    def __init__(self, vdev, backend, app=(), listen="127.0.0.1:0"):
        app = list(app)
        if vdev.startswith("fabric_ring"):
            g = Proc(["-l", str(CPU_A), "--vdev=" + vdev],
                     ["--listen", "gw:1", "--backend", backend, "--reverse", "--listen", listen,
                      "--to", "gw:1"] + app)
            self.all = [g]
            self.where = g.expect(r"^listening on (\S+)$", nth=2).group(1)
        else:
            g = Proc(["-l", str(CPU_A), "--vdev=" + vdev],
                     ["--listen", "127.0.0.1:0", "--backend", backend] + app)
            addr = g.expect(r"^listening on (\S+)$").group(1)
            h = Proc(["-l", str(CPU_B), "--vdev=" + vdev],
                     ["--reverse", "--listen", listen, "--to", addr] + app)
            self.all = [g, h]
            self.where = h.expect(r"^listening on (\S+)$").group(1)
        self.forward, self.reverse = self.all[0], self.all[-1]

    def connect(self, **how):
        return Resp(self.where, **how)

    def fds(self):
        return sum(len(os.listdir("/proc/%d/fd" % g.p.pid)) for g in self.all)

    def cpu(self):
        """Return seconds of CPU time."""
        total = 0
        for g in self.all:
            with open("/proc/%d/stat" % g.p.pid) as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def stop(self, sig=2):
        """Stop the gateways by a signal, the last one first; each must exit with 0."""
        for g in reversed(self.all):
            g.signal(sig)
            code = g.wait()
            check(code == 0, "exit code %s\n%s" % (code, g.text()))

    def __enter__(self):
        return self

    def __exit__(self, kind, *args):
        if kind is None:
            self.stop()


def cli(where, *args, stdin=None):
    """Run redis-cli as a client of the address where, and return its output."""
    at = ["-s", where[5:]] if where.startswith("unix:") else ["-h", where.rsplit(":", 1)[0], "-p",
                                                              where.rsplit(":", 1)[1]]
    p = subprocess.run(["redis-cli", *at, *args], input=stdin, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT,
                       timeout=DEADLINE, stdin=subprocess.DEVNULL if stdin is None else None)
    check(p.returncode == 0, "redis-cli %s: %s: %s" % (args, p.returncode, p.stdout))
    return p.stdout.decode()
