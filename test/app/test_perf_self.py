# SPDX-License-Identifier: BSD-3-Clause
"""leat-perf --self on the ring device: test_perf_self.py LEAT_PERF"""

import os
import re
import tempfile

from perf_lib import (ALL_OPS, CPU_A, CPU_B, case, check, clean, expect_ok, light, main, results,
                      run)

RING = "--vdev=fabric_ring0"
SIZES = [0, 1, 8, 95, 96, 97, 511, 512, 513, 519, 520, 521, 4095, 4096, 4097, 65536, 1048576]


def lcores(n):
    # Two lcores even if there is one CPU: they share it.
    cpus = [CPU_A, CPU_B][:n]
    return ["--lcores", ",".join("%d@%d" % (i, c) for i, c in enumerate(cpus))]


def self_run(n, app):
    return run(lcores(n) + [RING], ["--self"] + light(RING) + app)


def every_op(n, test, count, idle="block"):
    sizes = [x for x in SIZES if test != "rate" or x <= 65536]
    p = self_run(n, ["--test", test, "--op", "all", "--check", "--json", "-n", str(count),
                     "--size", ",".join(map(str, sizes)), "--idle", idle])
    clean(p, ALL_OPS, sizes)


@case
def lat_of_every_op_on_two_lcores():
    every_op(2, "lat", 20)


@case
def bw_of_every_op_on_two_lcores():
    every_op(2, "bw", 150)


@case
def rate_of_every_op_on_two_lcores():
    every_op(2, "rate", 300)


@case
def lat_of_every_op_on_one_lcore():
    every_op(1, "lat", 20)


@case
def bw_of_every_op_on_one_lcore():
    every_op(1, "bw", 150)


@case
def rate_of_every_op_on_one_lcore():
    every_op(1, "rate", 300, "yield")


@case
def messages():
    for n in (1, 2):
        for test, count in (("lat", 20), ("bw", 150), ("rate", 300)):
            sizes = [x for x in SIZES if test != "rate" or x <= 65536]
            p = self_run(n, ["--test", test, "--op", "send,msg,read", "--check", "--json",
                             "-n", str(count), "--size", ",".join(map(str, sizes))])
            clean(p, ["send", "msg", "read"], sizes)
    p = self_run(2, ["--rate", "2K", "-D", "0.2", "--op", "msg", "--size", "0,8,4K", "--json",
                     "--check"])
    clean(p, ["msg"], [0, 8, 4096])
    p = self_run(2, ["--test", "bw", "--op", "msg", "--size", "8", "-n", "100", "--check",
                     "--corrupt", "50", "--json"])
    check(p.code == 1 and results(p)["errors"] == 1, p.text())


@case
def messages_over_the_library_s_tagged_ops():
    p = run(lcores(2) + [RING + ",tags=0"],
            ["--self", "--idle", "block", "--tags", "--op", "msg", "--check", "--json", "-n", "50",
             "--size", "0,8,64K"])
    clean(p, ["msg"], [0, 8, 65536])
    p = run(lcores(2) + [RING + ",tags=0"], ["--self", "--op", "msg", "--size", "8"])
    check(p.code == 1 and "does not offer msg (see --tags)" in p.err(), p.text())


@case
def all_with_others():
    """--op takes "all" in any place, with ops that it includes or not; an op that is named must be
    one that the device offers."""
    for ops in ("all,msg", "msg,write,all"):
        clean(self_run(2, ["--op", ops, "--check", "--json", "-n", "20", "--size", "8"]),
              ALL_OPS[:2] + ["msg"] + ALL_OPS[2:], [8])
    plain = lcores(2) + [RING + ",tags=0"]
    j = results(expect_ok(run(plain, ["--self", "--idle", "yield", "--op", "send,all", "-n", "20",
                                      "--size", "8", "--json"])))
    check({r["op"] for r in j["results"]} == set(ALL_OPS) - {"tagged"}, str(j))
    p = run(plain, ["--self", "--op", "all,msg", "--size", "8"])
    check(p.code == 1 and "does not offer msg (see --tags)" in p.err(), p.text())


@case
def without_check():
    for test in ("lat", "bw", "rate"):
        j = clean(self_run(2, ["--test", test, "--op", "all", "--json", "-n", "500",
                               "--size", "1,8,4K"]), ALL_OPS, [1, 8, 4096])
        check(all(r["iterations"] == 500 for r in j["results"]), str(j))


@case
def the_default_sweep():
    j = results(expect_ok(self_run(2, ["-n", "20", "--warmup", "0", "--json"])))
    check([r["bytes"] for r in j["results"]] == [1 << i for i in range(21)], str(j))


@case
def by_duration():
    for test in ("lat", "bw"):
        j = results(expect_ok(self_run(2, ["--test", test, "--op", "all", "-D", "0.05", "--json",
                                           "--size", "8"])))
        check(len(j["results"]) == len(ALL_OPS), str(j))
        for r in j["results"]:
            # Slightly less, because of rounding between cycles and times.
            check(r["elapsed_s"] >= 0.0499 and r["iterations"] > 0, str(r))


@case
def large_messages():
    # The message exceeds the budget for buffers: send one at a time.
    p = self_run(2, ["--op", "send", "--check", "-n", "1", "--warmup", "0", "--size", "300M",
                     "--json", "--timeout", "60"])
    clean(p, ["send"], [300 << 20])
    p = self_run(2, ["--test", "bw", "--op", "write,read", "--check", "-n", "2", "--warmup", "0",
                     "--size", "300M", "--json", "--timeout", "60"])
    clean(p, ["write", "read"], [300 << 20])


@case
def open_loop():
    p = self_run(2, ["--rate", "2K", "-D", "0.3", "--op", "all", "--size", "0,8,4K", "--json"])
    j = clean(p, ALL_OPS, [0, 8, 4096])
    for r in j["results"]:
        check(r["round_trip"] and r["iterations"] + r["unsent"] == 600, str(r))
        check(0 < r["rate_achieved"] <= 2100, str(r))
    p = self_run(2, ["--rate", "2K", "-n", "100", "--op", "send,tagged,read,fetch_add,cmp_swap",
                     "--size", "8", "--json", "--check"])
    clean(p, ["send", "tagged", "read", "fetch_add", "cmp_swap"], [8])


@case
def an_open_loop_that_cannot_keep_up_says_so():
    p = self_run(2, ["--rate", "1G", "-D", "0.1", "--size", "1M", "--window", "4", "--json"])
    r = results(expect_ok(p))["results"][0]
    check(r["unsent"] > 0 and r["late"] > 0 and r["max_us"] > 1000, str(r))


@case
def check_finds_a_spoiled_message():
    for test in ("lat", "bw"):
        for op in ALL_OPS:
            p = self_run(2, ["--test", test, "--op", op, "--size", "8", "-n", "100", "--check",
                             "--corrupt", "7", "--json"])
            j = results(p)
            check(p.code == 1, "exit code %s\n%s" % (p.code, p.text()))
            check(j["errors"] > 0 and j["results"][0]["errors"] == j["errors"], str(j))
            check(re.search(r"check: %s of 8 B: \d+ errors at the \w+ side; the first: message "
                            r"\d+, offset \d+, \w+ expected 0x[0-9a-f]+, got 0x" % op, p.err()),
                  p.err())


@case
def tables():
    out = expect_ok(self_run(2, ["-n", "50", "--size", "8,64"])).out()
    check(re.search(r"here +fabric_ring0 \(driver fabric_ring\), CPU %d" % CPU_A, out), out)
    check("half of a round trip" in out, out)
    check(re.search(r"bytes +iterations +min\[us\] +p50\[us\] +avg\[us\] +p99\[us\] +p99\.9\[us\] "
                    r"+max\[us\] +stdev\[us\]", out), out)
    check(re.search(r"^ +64 +50( +[0-9.]+){7}$", out, re.M), out)
    out = expect_ok(self_run(2, ["--test", "bw", "-n", "50", "--size", "8"])).out()
    check(re.search(r"bytes +iterations +MB/s +Gb/s +Mmsg/s", out), out)
    check(re.search(r"^ +8 +50( +[0-9.]+){3}$", out, re.M), out)


@case
def histogram_file():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "h")
        j = results(expect_ok(self_run(2, ["-n", "1000", "--size", "8,64", "--json",
                                           "--histogram", path])))
        with open(path, encoding="ascii") as f:
            text = f.read()
    check(text.startswith("# leat-perf histogram, version 1\n"), text[:200])
    blocks = text.split("\n\n\n")[1:]
    check(len(blocks) == 2, "%d blocks" % len(blocks))
    for block, row in zip(blocks, j["results"]):
        lines = block.splitlines()
        check(lines[0] == "# op send, bytes %d, samples 1000, half round trips" % row["bytes"],
              lines[0])
        rows = [tuple(map(int, x.split())) for x in lines[1:]]
        check(sum(c for _, _, c in rows) == 1000, block)
        check(all(a <= b for a, b, _ in rows), block)
        check(all(x[1] < y[0] for x, y in zip(rows, rows[1:])), block)
        check(rows[0][0] <= row["min_us"] * 1000 + 0.5 <= rows[0][1] + 1, block)


@case
def says_when_it_is_not_alone():
    p = run(["--lcores", "0@%d" % CPU_A, RING], ["--self", "-n", "10", "--size", "8"])
    check("both sides run on CPU %d" % CPU_A in expect_ok(p).err(), p.err())
    check(re.search(r"idle +yield \(the sides may share a CPU\)", p.out()), p.out())
    if CPU_A != CPU_B:
        p = run(["--lcores", "0@(%d,%d)" % (CPU_A, CPU_B), RING], ["--self", "-n", "10", "--size",
                                                                 "8"])
        check("not pinned" in expect_ok(p).err(), p.err())
        p = run(lcores(2) + [RING], ["--self", "-n", "10", "--size", "8"])
        check(re.search(r"idle +spin \(each side has a CPU of its own\)", expect_ok(p).out()),
              p.out())


@case
def sleeps_instead_of_polling():
    # If a round had to wait for the next read of events, it would take 4 ms.
    p = run(lcores(2) + [RING], ["--self", "--idle", "block", "--op", "all", "--check", "--json",
                                 "-n", "200", "--size", "8,65536"])
    clean(p, ALL_OPS, [8, 65536])
    p = run(lcores(2) + [RING], ["--self", "--idle", "block", "-n", "200", "--size", "8"])
    check(re.search(r"idle +block \(as asked for\)", expect_ok(p).out()), p.out())


if __name__ == "__main__":
    main()
