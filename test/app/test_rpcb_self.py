# SPDX-License-Identifier: BSD-3-Clause
"""leat-rpc-bench between lcores of a process: test_rpcb_self.py LEAT_RPC_BENCH"""

import os
import re
import tempfile

from perf_lib import SIGINT, SIGTERM
from rpcb_lib import (CPU_A, CPU_B, TWO, Proc, case, check, clean, expect_ok, main, results, run,
                      self_run)

RING = "fabric_ring0"
DATAGRAMS = "fabric_ring0,type=datagram"


@case
def as_many_calls_as_asked_for():
    for calls, app in ((30001, []), (30001, ["--batch", "1", "--tasks", "1"]),
                       (7, ["--batch", "256"]),
                       (5000, ["--batch", "256", "--tasks", "4"]), (1, []),
                       (3000, ["--warmup", "0"])):
        warmup = 0 if "--warmup" in app else 2000
        j = self_run(RING, ["-n", str(calls)] + app)
        j = clean(j, calls, warmup if calls > 1 else 1000)
        per_lcore = [lcore["calls"] for lcore in j["ranks"][0]["lcores"]]
        check(max(per_lcore) - min(per_lcore) <= 1, str(per_lcore))
        check(j["rpc"]["sessions"] == 1 and j["type"] == "reliable", str(j["rpc"]))


@case
def all_to_all_on_too_few_cpus():
    eal = ["--lcores", ",".join("%d@%d" % (i, (CPU_A, CPU_B)[i % 2]) for i in range(6))]
    j = clean(self_run(RING, ["-n", "12000", "--idle", "auto"], eal), 12000, 6000)
    check(j["rpc"]["sessions"] == 5 and j["idle"] == "yield" and j["shared_cpus"], str(j))


@case
def sizes():
    for req, resp in (("0", "0"), ("1", "7"), ("7,8,9", "0-20"), ("8", "8"), ("0-64", "4056"),
                      ("4056", "1"), ("4057", "10000"), ("100K", "3"), ("3", "100K")):
        clean(self_run(RING, ["-n", "600", "--size", req, "--resp-size", resp]), 600, 2000)
    clean(self_run(RING,
                   ["-n", "600", "--packet", "256", "--size", "0-2000", "--resp-size", "0-2000"]),
          600, 2000)


@case
def kinds():
    j = clean(self_run(RING, ["-n", "4000", "--oneway"]), 4000, 2000)
    check([k["kind"] for k in j["plan"]["kinds"]] == ["oneway"], str(j["plan"]))
    j = clean(self_run(RING, ["-n", "4000", "--oneway=30", "--long", "10K-40K:10"]), 4000, 2000)
    check([(k["kind"], k["percent"]) for k in j["plan"]["kinds"]] ==
          [("call", 60), ("oneway", 30), ("long", 10)], str(j["plan"]))
    check(all(r["batches"] > 0 for r in j["total"]["latency"]), str(j["total"]["latency"]))
    clean(self_run(RING, ["-n", "300", "--oneway", "--size", "0-20K"]), 300, 2000)


@case
def bulk():
    j = clean(self_run(RING, ["-n", "600", "--bulk", "1-100K:100"]), 600, 2000)
    t = j["total"]
    check(t["pulled"] > 0 and t["pushed"] > 0 and t["by_message"] == 0, str(t))
    j = clean(self_run(RING, ["-n", "3000", "--bulk", "64K:10", "--oneway=30", "--batch", "64"]),
              3000, 2000)
    check([(k["kind"], k["percent"]) for k in j["plan"]["kinds"]] ==
          [("call", 60), ("oneway", 30), ("bulk", 10)], str(j["plan"]))
    t = clean(self_run(DATAGRAMS, ["-n", "300", "--bulk", "10K:50", "--warmup", "10"]), 300,
              20)["total"]
    check(t["by_message"] == t["pulled"] + t["pushed"] > 0, str(t))


@case
def little_of_everything():
    clean(self_run(RING, ["-n", "3000", "--credits", "3", "--slots", "1"]), 3000, 2000)
    clean(self_run(RING,
                   ["-n", "300", "--credits", "3", "--long", "64K:100", "--tasks", "2", "--warmup",
                    "10"]),
          300, 20)


@case
def datagrams():
    j = clean(self_run(DATAGRAMS, ["-n", "6000", "--oneway=30", "--long", "20K:5"]), 6000, 2000)
    check(j["type"] == "datagram", str(j))
    # Few calls: on a busy machine round trips are long, so that swift makes the window small.
    j = clean(self_run(DATAGRAMS, ["-n", "300", "--tasks", "1", "--cc", "swift", "--warmup", "0"]),
              300, 0)
    check(j["rpc"]["cc"] == "swift", str(j["rpc"]))
    lossy = "fabric_fault0,lower=fabric_ring0,seed=3,loss=0.02,dup=0.02,overtake=4"
    j = clean(self_run([DATAGRAMS, lossy], ["--dev", "fabric_fault0", "-n", "6000", "--oneway=30"]),
              6000, 2000)
    check(j["total"]["retransmissions"] > 0 and j["total"]["duplicates"] > 0, str(j["total"]))


@case
def by_time():
    t = results(expect_ok(self_run(RING, ["-D", "0.3"])))["total"]
    check(t["calls"] > 0 and t["failed"] == 0 and 0.3 <= t["elapsed_s"] < 30, str(t))


@case
def open_loop():
    j = clean(self_run(RING, ["--rate", "3K", "-n", "900", "--warmup", "30"]), 900, 60)
    check(j["total"]["elapsed_s"] > 0.25, str(j["total"]))
    # A rate that can't be reached: calls that never began are counted as unsent, in batches of 3.
    t = results(expect_ok(self_run(RING, ["--rate", "1G", "-D", "0.1", "--warmup", "0"])))["total"]
    check(t["unsent"] > 0 and 3 * t["unsent"] + t["calls"] in range(100000000, 100000010), str(t))


@case
def deadlines():
    t = results(expect_ok(self_run(RING, ["-n", "3000", "--deadline", "60M"])))["total"]
    check(t["calls"] == 3000 and t["expired"] == 0, str(t))
    slow = "fabric_fault0,lower=fabric_ring0,seed=3,delay=2000"
    t = results(expect_ok(self_run([RING, slow],
                                   ["--dev", "fabric_fault0", "-n", "3000", "--deadline",
                                    "100", "--warmup", "0"])))["total"]
    check(t["expired"] > 0 and t["expired"] + t["calls"] == 3000 and t["failed"] == 0, str(t))


@case
def what_is_spoilt_is_found():
    for app, what in ((["--size", "32"], "response of kind call, .*: byte at offset 16 "),
                      (["--resp-size", "1"], "response of kind call, .*: byte at offset 0 "),
                      (["--bulk", "20K:100"], "response of kind bulk, .*: byte at offset 10240 "),
                      (["--long", "20K:100"], "response of kind long, .*: byte at offset 10240 "),
                      (["--oneway", "--size", "100"],
                       "request of kind oneway, .*: byte at offset 50 "),
                      (["--oneway", "--size", "8"], "request of kind oneway, .*: caller ")):
        p = self_run(RING, ["-n", "600", "--corrupt", "5"] + app)
        check(p.code == 1 and results(p)["total"]["wrong"] == 2, p.text())
        check(re.search("^leat-rpc-bench: 2 messages were wrong; the first: " + what, p.err(),
                        re.M), p.text())
    p = self_run(RING, ["-n", "600", "--no-check"])
    check(not clean(p, 600, 2000)["plan"]["check"], p.text())


@case
def a_device_with_faults():
    late = "fabric_fault0,lower=fabric_ring0,seed=5,reorder=16,delay=exp:20,refuse=0.2"
    clean(self_run([RING, late],
                   ["--dev", "fabric_fault0", "-n", "3000", "--oneway=20", "--long", "9K:5"]),
          3000, 2000)
    p = self_run([RING, "fabric_fault0,lower=fabric_ring0,seed=5,die=500"],
                 ["--dev", "fabric_fault0", "-n", "1M"])
    t = results(p)["total"]
    check(p.code == 1 and t["calls"] > 0 and t["cut"] > 0 and t["failed"] == 0, p.text())
    check(re.search(r"leat-rpc-bench: lcore 0\.[01]: the session with 0\.[01] ended: ", p.err()),
          p.text())


@case
def a_table():
    p = expect_ok(run(TWO + ["--vdev=" + RING], ["--self", "-n", "3000", "--idle", "sleep"]))
    for pattern in (r"^leat-rpc-bench \S+: 16 tasks, batches of 3, every byte is verified$",
                    r"^ call    32 B and 32 B back$",
                    r"^ here    fabric_ring0 \(driver fabric_ring\), reliable, 2 lcores, CPUs "
                    r"%d,%d$" % (CPU_A, CPU_B),
                    r"^ rpc     each lcore 1 session, \d+ credits, 32 slots, [\d.]+ MiB; \d+ B fit "
                    r"a packet$",
                    r"^ idle    sleep \(as asked for\)$",
                    r"^ +0\.0 +%d +1500 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +2500$" % CPU_A,
                    r"^ +0\.1 +%d +1500 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +2500$" % CPU_B,
                    r"^ +total +3000 ", r"^ latency of a batch of 3$", r"^ +call +1000 +[\d.]+ ",
                    r"^ packets \d+ sent, "):
        check(re.search(pattern, p.out(), re.M), "no '%s' in\n%s" % (pattern, p.out()))


@case
def a_histogram():
    with tempfile.TemporaryDirectory() as where:
        name = os.path.join(where, "h")
        p = expect_ok(self_run(RING,
                               ["-n", "3000", "--batch", "1", "--oneway=50", "--histogram", name]))
        with open(name, encoding="utf-8") as f:
            blocks = f.read().split("\n\n\n")
    want = {r["kind"]: r["batches"] for r in results(p)["total"]["latency"]}
    check(blocks[0].startswith("# leat-rpc-bench histogram, version 1\n") and len(blocks) == 3,
          str(blocks))
    for block in blocks[1:]:
        head, *lines = block.strip().split("\n")
        kind = re.match(r"# kind (\w+), batches of 1, samples \d+$", head).group(1)
        check(sum(int(x.split()[2]) for x in lines) == want[kind], block)


@case
def a_signal_ends_it_and_what_was_measured_is_printed():
    for sig, code, app in ((SIGINT, 130, []), (SIGTERM, 143, ["--oneway=50", "--long", "50K:10"]),
                           (SIGINT, 130, ["--rate", "10K"])):
        p = Proc(TWO + ["--vdev=" + RING],
                 ["--self", "-D", "3600", "--json", "--progress", "--idle", "sleep",
                     "--warmup", "10"] + app)
        p.expect("calls done", "err")
        p.signal(sig)
        check(p.wait() == code, p.text())
        j = results(p)
        check(j["interrupted"] and j["total"]["calls"] > 0 and j["total"]["wrong"] == 0, p.text())
        check("leat-rpc-bench: interrupted" in p.err() and "did not come to rest" not in p.err(),
              p.text())


if __name__ == "__main__":
    main()
