# SPDX-License-Identifier: BSD-3-Clause
"""leat-perf in two processes: test_perf_pair.py LEAT_PERF DEVICE"""

import re
import sys

from perf_lib import (ALL_OPS, Listener, case, check, clean, client, expect_ok, main, need_device,
                      results, run, CPU_A, CPU_B)

VDEV = sys.argv[2]
# Around the limits of inlining, of the mempool's buffers, and of control messages.
SIZES = [0, 1, 8, 512, 520, 4095, 4096, 4097, 65536, 1048576]


def inline_sizes():
    p = expect_ok(run(["-l", str(CPU_A), "--vdev=" + VDEV, "--list-devices"]))
    n = int(re.search(r"copied when posted up to (\d+) B", p.out()).group(1))
    return sorted(set(SIZES + [max(n - 1, 0), n, n + 1]))


def offered():
    p = expect_ok(run(["-l", str(CPU_A), "--vdev=" + VDEV, "--list-devices"]))
    ops = re.search(r"ops +(.*)", p.out()).group(1).split()
    return [o for o in ALL_OPS if {"tagged": "tsend"}.get(o, o) in ops]


def every_op(test, count):
    srv = Listener(VDEV, ["--once"])
    sizes = [x for x in inline_sizes() if test != "rate" or x <= 65536]
    p = client(VDEV, srv.addr, ["--test", test, "--op", "all", "--check", "--json", "-n",
                                str(count), "--size", ",".join(map(str, sizes)), "--timeout", "30"])
    clean(p, offered(), sizes)
    check(srv.wait() == 0, srv.text())
    check(re.search(r"^client \S+: done, \d+ runs, \d+ messages, 0 errors$", srv.out(), re.M),
          srv.out())


@case
def lat_of_every_op():
    every_op("lat", 20)


@case
def bw_of_every_op():
    every_op("bw", 150)


@case
def rate_of_every_op():
    every_op("rate", 300)


@case
def messages():
    srv = Listener(VDEV)
    for nth, test in enumerate(("lat", "bw", "rate"), 2):
        p = client(VDEV, srv.addr, ["--test", test, "--op", "tagged,msg,write", "--check", "--json",
                                    "-n", "50", "--size", "1,8,2032,2033,64K"])
        clean(p, ["tagged", "msg", "write"], [1, 8, 2032, 2033, 65536])
        check(srv.listening(nth) == srv.addr, srv.text())


@case
def open_loop():
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["--rate", "500", "-D", "0.5", "--op", "all", "--size", "8",
                                "--json"])
    for r in clean(p, offered(), [8])["results"]:
        check(r["iterations"] + r["unsent"] == 250, str(r))
    check(srv.wait() == 0, srv.text())


@case
def one_client_after_another():
    srv = Listener(VDEV)
    for nth in range(2, 5):
        p = client(VDEV, srv.addr, ["--size", "8,1M", "-n", "20", "--check", "--json"])
        clean(p, ["send"], [8, 1 << 20])
        check(srv.listening(nth) == srv.addr, srv.text())


@case
def the_listener_shows_who_it_is():
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["--size", "8", "-n", "20"])
    out = expect_ok(p).out()
    device = VDEV.split(",")[0]
    what = r"%s \(driver %s[^)]*\), " % (device, device.rstrip("0123456789"))
    check(re.search(r"here +%sCPU %d" % (what, CPU_B), out), out)
    check(re.search(r"there +%s: %sCPU %d" % (re.escape(srv.addr), what, CPU_A), out), out)
    check(srv.wait() == 0, srv.text())


@case
def errors_that_check_finds_end_both_sides_with_1():
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["--size", "4K", "-n", "50", "--check", "--corrupt", "3", "--json"])
    check(p.code == 1 and results(p)["errors"] == 1, p.text())
    check("4096 B: 1 errors at the listening side; the first: message 3, offset 2047" in p.err(),
          p.err())
    check(srv.wait() == 1, srv.text())


@case
def options_of_the_client_are_ignored_by_the_listener():
    srv = Listener(VDEV, ["--once", "--size", "8"])
    srv.expect("--size is ignored: only the connecting side decides it", "err")
    expect_ok(client(VDEV, srv.addr, ["--size", "16", "-n", "5"]))
    check(srv.wait() == 0, srv.text())


if __name__ == "__main__":
    main(lambda: need_device(VDEV))
