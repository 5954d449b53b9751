# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-rpc-bench for tests; perf_lib.py has processes and results as TAP."""

import json

from perf_lib import (CPU_A, CPU_B, Failed, Port, Proc, Skipped, case, check, expect_ok, main,
                      need_device, run)

__all__ = ["CPU_A", "CPU_B", "Failed", "Port", "Proc", "Skipped", "case", "check", "clean",
           "client", "expect_ok",
           "exact", "main", "need_device", "ranks_of", "results", "run", "self_run", "Listener",
           "TWO"]

# Two lcores, on two CPUs if there are two.
TWO = ["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B)]
# Loops of other tests need the CPUs, too. A busy machine takes long to connect, and for a call.
LIGHT = ["--idle", "sleep", "--timeout", "60"]
PATIENT = LIGHT + ["--deadline", "60M"]

COUNTERS = ("calls", "packets_sent", "packets_received", "items_sent", "credit_packets", "served",
            "busy", "expired", "late_responses", "refused", "failed", "cut", "lost", "wrong",
            "unsent", "delayed", "preempted", "retransmissions", "probes", "duplicates",
            "pulled", "pushed", "by_message")
REALS = ("elapsed_s", "mcalls_per_s", "mb_per_s", "items_per_packet", "delayed_max_us")
LATENCIES = ("min_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")


def tally(t):
    for key in COUNTERS:
        check(isinstance(t[key], int) and t[key] >= 0, "%s of %s" % (key, t))
    for key in REALS:
        check(isinstance(t[key], float), "%s of %s" % (key, t))
    check(all(isinstance(n, int) for n in t["errors"].values()), str(t))


def latency(rows, kinds):
    check([r["kind"] for r in rows] == kinds, "%s instead of %s" % (rows, kinds))
    for r in rows:
        values = [r[key] for key in LATENCIES]
        check(values == sorted(values), str(r))


def results(p):
    """Return the JSON of a run, with its form checked."""
    try:
        j = json.loads(p.out())
    except ValueError as e:
        raise Failed("no JSON (%s) from %s\n%s" % (e, " ".join(p.args), p.text())) from None
    check(j["schema"] == "leat-rpc-bench" and j["version"] == 1, "schema of " + p.out())
    kinds = [k["kind"] for k in j["plan"]["kinds"]]
    check(sum(k["percent"] for k in j["plan"]["kinds"]) == 100, str(j["plan"]))
    if "total" not in j:
        return j
    tally(j["total"])
    latency(j["total"]["latency"], kinds)
    for r in j["ranks"]:
        for lcore in r["lcores"]:
            tally(lcore)
        if r["lcores"]:
            latency(r["latency"], kinds)
    for key in COUNTERS:
        got = sum(lcore[key] for r in j["ranks"] for lcore in r["lcores"])
        check(got == j["total"][key], "%s of the lcores is %d in all: %s" % (key, got, p.out()))
    return j


def exact(j, calls, warmup):
    """Check that `calls` calls were made, all successful, and that each was served."""
    t = j["total"]
    check(t["calls"] == calls, "%d calls instead of %d" % (t["calls"], calls))
    check(t["served"] == calls + warmup, "%d served instead of %d" % (t["served"], calls + warmup))
    for key in ("failed", "cut", "lost", "wrong", "unsent", "expired"):
        check(t[key] == 0, "%s: %s" % (key, t))
    check(t["errors"] == {} and not j["interrupted"] and "error" not in j, str(j))


def clean(p, calls, warmup):
    j = results(expect_ok(p))
    exact(j, calls, warmup)
    return j


def self_run(vdev, app, eal=None):
    vdevs = [vdev] if isinstance(vdev, str) else vdev
    return run((eal or TWO) + ["--vdev=" + v for v in vdevs], ["--self", "--json"] + PATIENT + app)


class Listener(Proc):
    def __init__(self, vdev, app=None, addr="127.0.0.1:0", eal=None):
        super().__init__((eal or ["-l", str(CPU_A)]) + ["--vdev=" + vdev],
                         ["--listen", addr] + LIGHT + (app or []))
        self.addr = self.listening(1)

    def listening(self, nth):
        return self.expect(r"^listening on (\S+)$", nth=nth).group(1)


def client(vdev, addr, app, wait=True, eal=None):
    p = Proc((eal or ["-l", str(CPU_B)]) + ["--vdev=" + vdev], ["--connect", addr] + PATIENT + app)
    if wait:
        p.code = p.wait()
    return p


def ranks_of(vdev, n, where, app, lcores=1, first=0):
    """Start ranks first to n - 1 of n processes that meet in the directory where."""
    started = []
    for r in range(first, n):
        cpu = (CPU_A, CPU_B)[r % 2]
        eal = ["--lcores", ",".join("%d@%d" % (i, cpu) for i in range(lcores))]
        started.append(Proc(eal + ["--vdev=" + vdev],
                            ["--ranks-dir", where, "--rank", str(r), "--ranks", str(n)] + PATIENT +
                            app))
    return started
