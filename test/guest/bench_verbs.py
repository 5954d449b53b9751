#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""leat compared with perftest in the guest.

bench_verbs.py [OPTION]... LEAT_PERF STREAM_WIRE PLUGIN [NAME]...

Runs inside, on the network wire-rxe; devtools/bench --verbs starts it there. For each test and size
leat-perf and perftest's program take turns, each between two processes pinned to the same two CPUs,
server on x_vb and client on x_va, with the same size, inline limit, depth, and completions per
request. One line of JSON per comparison, as devtools/bench reads them.

    name                 leat-perf                     perftest
    send-lat, write-lat  --test lat, p50               ib_*_lat, t_typical: half round trips
    read-lat, atomic-lat --test lat, p50               ib_*_lat, t_typical: whole round trips
    *-bw                 --test bw, window W, burst 1  ib_*_bw -t W -Q 1: each one is signaled
    *-rate               --test rate, window W,        ib_*_bw -t W -l B -Q B: the last of a list
                         burst B                       is signaled
    stream-lat           bench-stream-wire --test lat  same program with --bare: WRITE_IMM to and
                                                       fro by ibverbs alone, as perftest's newer
                                                       releases do it; whole round trips
    stream-bw            --test bw: no copy            ib_write_bw
    stream-copy-bw       --test copy: one copy         ib_write_bw

All programs spin, except the servers that only wait, of reads, atomics, and streams of writes: the
NIC does their work. perftest's server sleeps, and so leat-perf's must (--idle block): the NIC is
the kernel here, and a loop that finds nothing would take its CPU away.

With --count it runs in a guest with one CPU whose clock counts instructions (devtools/guest
--count): only comparisons whose servers sleep. They differ only by the instructions of the programs
and of the kernel below them, with next to no noise. Both sides of stream-lat are one thread there,
which runs them in turn.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import time

GID_INDEX = "1"
NEAR, FAR = "x_va", "x_vb"
FAR_IP = "10.97.0.2"
PORT = 7710
INLINE = 220  # bytes that both may send inline
BURST = 16
DEADLINE = 120  # seconds, for one program
TRIES = 8

LAT_TARGET, BW_TARGET = 1.05, 0.97
STREAM_LAT_TARGET, STREAM_BW_TARGET = 1.15, 0.9

# [name, --op, --test, perftest's program, idle mode of both servers]
TESTS = [
    ("send-lat", "send", "lat", "ib_send_lat", "spin"),
    ("write-lat", "write", "lat", "ib_write_lat", "spin"),
    ("read-lat", "read", "lat", "ib_read_lat", "block"),
    ("atomic-lat", "fetch_add", "lat", "ib_atomic_lat", "block"),
    ("send-bw", "send", "bw", "ib_send_bw", "spin"),
    ("write-bw", "write", "bw", "ib_write_bw", "block"),
    ("read-bw", "read", "bw", "ib_read_bw", "block"),
    ("send-rate", "send", "rate", "ib_send_bw", "spin"),
    ("write-rate", "write", "rate", "ib_write_bw", "block"),
    ("stream-lat", "lat", "lat", "bare", "block"),
    ("stream-bw", "bw", "bw", "ib_write_bw", "spin"),
    ("stream-copy-bw", "copy", "bw", "ib_write_bw", "spin"),
]
SIZES = [8, 4096, 1 << 20]


class Failed(Exception):
    """A failure, with a text for the user."""


def size_name(size):
    for unit, name in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if size >= unit:
            return "%d%s" % (size // unit, name)
    return str(size)


def sizes_of(name):
    if name == "atomic-lat":
        return [8]
    if name.startswith("stream-"):
        return [64] if name.endswith("-lat") else [1 << 20]
    return SIZES[:2] if name.endswith("-rate") else SIZES


def plan(test, size, scale):
    """Return (iterations, window) of a comparison."""
    # for about a second: a shorter run would mostly measure its start
    if test == "lat":
        n = {8: 6000, 64: 3000, 4096: 3000}.get(size, 60)
        return max(10, int(n * scale)), 1
    n = {8: 16384, 4096: 4096}.get(size, 32)
    window = 64 if size < 1 << 20 else 16
    # a multiple of the burst, and more than the window
    return max(2, int(n * scale) // window) * window, window


class Leat:
    """leat-perf: a listener that serves all runs of a comparison, and a client for each."""

    def __init__(self, perf, plugin, port, idle, cpu):
        # Little memory, for a short start.
        self.eal = [perf, "--no-pci", "--no-telemetry", "--no-huge", "-m", "128",
                    "--log-level=lib.*:error", "-d", plugin]
        self.addr = "%s:%d" % (FAR_IP, port)
        self.cpu = cpu  # the client's; the server is on CPU 0
        self.server = subprocess.Popen(
            self.eal + ["-l", "0", "--vdev=fabric_verbs0,inline=%d,dev=%s" % (INLINE, FAR), "--",
                        "--listen", self.addr, "--idle", idle, "--mbufs", "1024"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def measure(self, op, test, size, n, window):
        args = ["--connect", self.addr, "--idle", "spin", "--json", "--op", op, "--test", test,
                "--size", str(size), "-n", str(n), "--timeout", "60", "--mbufs", "1024"]
        if test != "lat":
            args += ["--window", str(window), "--burst", str(BURST if test == "rate" else 1)]
        vdev = "--vdev=fabric_verbs0,inline=%d,dev=%s" % (INLINE, NEAR)
        done = subprocess.run(
            self.eal + ["-l", self.cpu, vdev, "--"] + args,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, timeout=DEADLINE, check=False)
        if done.returncode != 0:
            raise Failed("leat-perf %s: %s" % (" ".join(args), done.stderr.strip()))
        row = json.loads(done.stdout)["results"][0]
        if test == "lat":
            return row["p50_us"], row["min_us"]
        # this quotient has more digits than the rate in the output
        rate = row["iterations"] / row["elapsed_s"] / 1e3
        return rate, rate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.server.communicate()


class Stream:
    """bench-stream-wire, a server that is stopped between the runs, and a client for each."""

    def __init__(self, program, plugin, port, cpu, both):
        self.eal = ["--no-pci", "--no-telemetry", "--no-huge", "-m", "128",
                    "--log-level=lib.*:error", "--log-level=leat.*:error", "-d", plugin]
        self.program = program
        self.addr = "%s:%d" % (FAR_IP, port)
        self.cpu = cpu
        self.server = None
        if not both:
            self.server = self.serve(self.own("0", FAR))
            self.server.send_signal(signal.SIGSTOP)

    def own(self, cpu, *devices):
        vdevs = ["--vdev=fabric_verbs%d,inline=%d,dev=%s" % (i, INLINE, dev)
                 for i, dev in enumerate(devices)]
        return [self.program], self.eal + ["-l", cpu] + vdevs

    def serve(self, how):
        server = subprocess.Popen(how[0] + ["--listen", self.addr] + how[1],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        # EAL may print something first
        for line in server.stdout:
            if line == "listening\n":
                return server
        raise Failed("%s does not listen" % self.program)

    def client(self, how, test, size, n):
        args = ["--connect", self.addr, "--test", test, "--size", str(size), "--count", str(n)]
        if self.server is None:
            args += ["--listen", self.addr]
        done = subprocess.run(how[0] + args + how[1], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=DEADLINE, check=False)
        rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not rows:
            raise Failed("%s %s: %s" % (how[0], " ".join(args), done.stderr.strip()))
        row = json.loads(rows[0])
        if test == "lat":
            return row["p50_us"], row["min_us"]
        rate = row["mb_s"] * 1e6 / size / 1e3
        return rate, rate

    def measure(self, op, _test, size, n, _window):
        if self.server is None:
            return self.client(self.own("0", NEAR, FAR), op, size, n)
        self.server.send_signal(signal.SIGCONT)
        try:
            return self.client(self.own(self.cpu, NEAR), op, size, n)
        finally:
            self.server.send_signal(signal.SIGSTOP)

    def bare(self, size, n):
        if self.server is None:
            return self.client(([self.program, "--bare"], []), "lat", size, n)
        pinned = ["taskset", "-c", "0", self.program, "--bare"]
        self.addr, addr = "%s:%d" % (FAR_IP, PORT - 1), self.addr
        server = self.serve((pinned, []))
        try:
            pinned[2] = self.cpu
            return self.client((pinned, []), "lat", size, n)
        finally:
            self.addr = addr
            server.kill()
            server.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server is not None:
            self.server.kill()
            self.server.communicate()


def perftest_once(program, opts, cpu):
    server = subprocess.Popen(["taskset", "-c", "0", program, "-d", FAR] + opts,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + 30
        while not listening(18515):
            if server.poll() is not None or time.monotonic() > end:
                raise Failed("%s does not listen: %s" % (program, server.communicate()[0]))
            time.sleep(0.05)
        return subprocess.run(["taskset", "-c", cpu, program, "-d", NEAR] + opts + [FAR_IP],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=DEADLINE,
                              check=False).stdout
    finally:
        server.kill()
        server.communicate()


def listening(port):
    with open("/proc/net/tcp", encoding="ascii") as tcp:
        if any(re.match(r" *\d+: [0-9A-F]+:%04X [0-9A-F:]+ 0A " % port, x) for x in tcp):
            return True
    with open("/proc/net/tcp6", encoding="ascii") as tcp:
        return any(re.match(r" *\d+: [0-9A-F]+:%04X [0-9A-F:]+ 0A " % port, x) for x in tcp)


def mhz():
    with open("/proc/cpuinfo", encoding="ascii") as info:
        return float(re.search(r"^cpu MHz\s*: ([0-9.]+)$", info.read(), re.M).group(1))


def perftest(program, test, size, n, window, cpu):
    opts = ["-x", GID_INDEX, "-F", "-s", str(size), "-n", str(n)]
    if program in ("ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_write_bw"):
        opts += ["-I", str(INLINE)] if size <= INLINE else ["-I", "0"]
    if test == "lat":
        # times in cycles: perftest then needs no quiet moment to measure the clock
        opts += ["-C"]
    if program == "ib_atomic_lat":
        opts += ["-A", "FETCH_AND_ADD"]
    if test != "lat":
        opts += ["-N", "-t", str(window), "-Q", str(BURST if test == "rate" else 1)]
        if program == "ib_send_bw":
            opts += ["-r", str(2 * window)]
        if test == "rate":
            opts += ["-l", str(BURST)]
    # For rates perftest measures the speed of the clock. Without a quiet moment it can't, and gives
    # up, or says 0.
    for _ in range(TRIES):
        out = perftest_once(program, opts, cpu)
        row = re.search(r"^ *%d +%d +(.*)$" % (size, n), out, re.M)
        if row:
            fields = row.group(1).split()
            if test == "lat":
                return float(fields[2]) / mhz(), float(fields[0]) / mhz()
            # messages/s, from the printed number that has more digits
            rate = (float(fields[-1]) * 1e3 if size < 4096 else
                    float(fields[-2]) * (1 << 20) / size / 1e3)
            if rate > 0:
                return rate, rate
    raise Failed("%s %s: %s" % (program, " ".join(opts), out))


def result(name, test, ours, theirs):
    """Return the line of a comparison, from its rounds: (value that counts, best value)."""
    lat, stream = test == "lat", "-stream-" in name
    ratios = [a[0] / b[0] for a, b in zip(ours, theirs)]
    best = [(min if lat else max)(x[1] for x in who) for who in (ours, theirs)]
    return {
        "name": name,
        "leat": statistics.median(x[0] for x in ours),
        "reference": statistics.median(x[0] for x in theirs),
        "ratio": statistics.median(ratios),
        "unit": "us" if lat else "kmsg/s",
        "target": ((STREAM_LAT_TARGET if lat else STREAM_BW_TARGET) if stream else
                   LAT_TARGET if lat else BW_TARGET),
        "better": "lower" if lat else "higher",
        "low": min(ratios), "high": max(ratios), "rounds": len(ratios),
        "note": "best %.4g / %.4g = %.3f" % (best[0], best[1], best[0] / best[1]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf", metavar="LEAT_PERF")
    parser.add_argument("stream", metavar="STREAM_WIRE")
    parser.add_argument("plugin", metavar="PLUGIN", help="the verbs driver")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only those that begin like this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1, help="of the numbers of messages")
    parser.add_argument("--count", action="store_true", help="the guest has one CPU")
    args = parser.parse_intermixed_args()

    cpu = "0" if args.count else "1"
    everything = [("wire-%s-%s" % (t[0], size_name(s)), t, s) for t in TESTS
                  for s in sizes_of(t[0]) if t[4] == "block" or not args.count]
    chosen = [c for c in everything
              if not args.names or any(c[0].startswith(n) for n in args.names)]
    if not chosen:
        raise Failed("no comparison begins with %s; there are: %s" %
                     (" or ".join(args.names), " ".join(c[0] for c in everything)))
    for i, (name, (kind, op, test, program, idle), size) in enumerate(chosen):
        n, window = plan(test, size, args.scale)
        with (Stream(args.stream, args.plugin, PORT + i, cpu, args.count)
              if kind.startswith("stream-") else
              Leat(args.perf, args.plugin, PORT + i, idle, cpu)) as leat:
            ours, theirs = [], []
            for turn in range(args.rounds):
                # in changing order, so that drift affects both alike
                for who in ("leat", "perftest")[::1 if turn % 2 == 0 else -1]:
                    if who == "leat":
                        ours.append(leat.measure(op, test, size, n, window))
                    elif program == "bare":
                        theirs.append(leat.bare(size, n))
                    else:
                        theirs.append(perftest(program, test, size, n, window, cpu))
        print(json.dumps(result(name, test, ours, theirs)), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.TimeoutExpired) as err:
        print("bench_verbs: %s" % err, file=sys.stderr)
        sys.exit(1)
