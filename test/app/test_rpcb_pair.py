# SPDX-License-Identifier: BSD-3-Clause
"""leat-rpc-bench in two processes, one of which ends: test_rpcb_pair.py LEAT_RPC_BENCH DEVICE"""

import re
import socket
import sys
import time

from perf_lib import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from rpcb_lib import (CPU_A, CPU_B, Listener, Port, TWO, case, check, clean, client, exact,
                      expect_ok, main, need_device, results)

VDEV = sys.argv[2]


def works(srv):
    clean(client(VDEV, srv.addr, ["-n", "600", "--json"]), 600, 1000)


def running(srv, app=None):
    p = client(VDEV, srv.addr, ["-D", "3600", "--progress"] + (app or []), wait=False)
    p.expect("calls done", "err")
    return p


@case
def one_client_after_another():
    srv = Listener(VDEV)
    for nth, app in enumerate((["-n", "2000"], ["-n", "900", "--oneway=30", "--long", "20K:10"],
                               ["-n", "900", "--size", "0-9000", "--resp-size", "0-9000"],
                               ["--rate", "1K", "-n", "300"],
                               ["-n", "600", "--packet", "512", "--credits", "8",
                                "--slots", "4"]), 2):
        j = results(expect_ok(client(VDEV, srv.addr, app + ["--json"])))
        check(j["total"]["calls"] == int(app[app.index("-n") + 1]) and j["total"]["wrong"] == 0,
              str(j))
        there, here = j["ranks"]
        check(there["lcores"][0]["calls"] == 0 and here["lcores"][0]["served"] == 0, str(j))
        check(there["pid"] == srv.p.pid, str(there))
        check(srv.listening(nth) == srv.addr, srv.text())
        srv.expect(r"^client \S+ \(pid \d+\): done, \d+ requests, 0 wrong$", nth=nth - 1)
    srv.signal(SIGINT)
    check(srv.wait() == 130 and "leat-rpc-bench: interrupted" in srv.err(), srv.text())


@case
def both_call_with_two_lcores_each():
    srv = Listener(VDEV, ["--once"], eal=TWO)
    p = client(VDEV, srv.addr, ["-n", "4000", "--both", "--json"], eal=TWO)
    j = clean(p, 4000, 4000)
    check([lcore["calls"] for r in j["ranks"] for lcore in r["lcores"]] == [1000] * 4, str(j))
    check(j["rpc"]["sessions"] == 2 and j["shared_cpus"], str(j))
    check(srv.wait() == 0, srv.text())


@case
def the_table_says_who_is_where():
    srv = Listener(VDEV, ["--once", "-n", "5"])
    srv.expect("--calls is ignored: only the connecting side decides it", "err")
    out = expect_ok(client(VDEV, srv.addr, ["-n", "600"])).out()
    device = (r"fabric_ofi0 \(driver fabric_ofi, provider \S+, interface \S+\), "
              r"reliable, 1 lcore, CPU ")
    check(re.search("^ here    " + device + "%d$" % CPU_B, out, re.M), out)
    check(re.search("^ there   %s: " % re.escape(srv.addr) + device + "%d$" % CPU_A, out, re.M),
          out)
    check(srv.wait() == 0, srv.text())


@case
def what_is_wrong_ends_both_with_1():
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["-n", "600", "--corrupt", "5", "--json"])
    check(p.code == 1 and results(p)["total"]["wrong"] == 1, p.text())
    check(srv.wait() == 0, srv.text())
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["-n", "600", "--corrupt", "5", "--oneway", "--json"])
    check(p.code == 1 and results(p)["total"]["wrong"] == 1, p.text())
    check(srv.wait() == 1, srv.text())


@case
def the_client_comes_before_the_listener():
    with Port() as addr:
        p = client(VDEV, addr, ["-n", "600", "--timeout", "60", "--json"], wait=False)
        p.expect(r"waiting for a listener at %s \(2 of 60 s\)" % re.escape(addr), "err")
        srv = Listener(VDEV, addr=addr)
        p.code = p.wait()
        clean(p, 600, 1000)
        srv.listening(2)


@case
def a_second_client_waits_for_its_turn():
    srv = Listener(VDEV)
    first = running(srv)
    second = client(VDEV, srv.addr, ["-n", "600"], wait=False)
    second.expect("waiting for a listener at .*, which is busy with another client", "err")
    second.signal(SIGINT)
    check(second.wait() == 130, second.text())
    third = client(VDEV, srv.addr, ["-n", "600", "--json"], wait=False)
    third.expect("waiting for a listener at .*, which is busy with another client", "err")
    first.signal(SIGINT)
    check(first.wait() == 130, first.text())
    third.code = third.wait()
    exact(results(expect_ok(third)), 600, 1000)


@case
def the_listener_is_killed():
    for app in ([], ["--both", "--oneway=30", "--long", "50K:10"]):
        srv = Listener(VDEV)
        p = running(srv, app + ["--json"])
        begin = time.monotonic()
        srv.signal(SIGKILL)
        check(p.wait() == 1, p.text())
        check(re.search(r"^leat-rpc-bench: the listener is gone: ", p.err(), re.M), p.text())
        check(time.monotonic() - begin < 30, "took %.1f s" % (time.monotonic() - begin))
        j = results(p)
        check("the listener is gone" in j["error"] and j["total"]["calls"] > 0, str(j))
        check(j["total"]["failed"] == 0 and j["total"]["wrong"] == 0, str(j["total"]))


@case
def clients_end_early_and_the_next_one_is_served():
    srv = Listener(VDEV)
    for nth, (sig, code,
              why) in enumerate(((SIGKILL, -9, "gone"), (SIGINT, 130, "it was interrupted"),
                                 (SIGTERM, 143, "it was interrupted")), 2):
        p = running(srv, ["--both"])
        p.signal(sig)
        check(p.wait() == code, p.text())
        srv.expect("the connecting side is gone: .*" + why, "err", nth=max(nth - 2, 1))
        srv.expect(r"^client \S+ \(pid %d\): ended early, \d+ requests, 0 wrong$" % p.p.pid)
        srv.listening(nth)
    works(srv)


@case
def a_listener_that_hangs_is_given_up():
    srv = Listener(VDEV)
    p = running(srv, ["--timeout", "8"])
    srv.signal(SIGSTOP)
    code = p.wait()
    srv.signal(SIGCONT)
    check(code == 1, p.text())
    check("the listener is gone: it has not answered for 8 s (--timeout)" in p.err(), p.text())
    srv.listening(2)
    works(srv)


@case
def signals_while_it_waits():
    p = client(VDEV, "127.0.0.1:1", ["--timeout", "3600", "--json"], wait=False)
    p.expect("waiting for a listener", "err")
    p.signal(SIGINT)
    check(p.wait() == 130, p.text())
    check(results(p)["interrupted"], p.out())
    srv = Listener(VDEV)
    p = running(srv)
    srv.signal(SIGTERM)
    check(srv.wait() == 143, srv.text())
    check(p.wait() == 1 and "the listener is gone: it was interrupted" in p.err(), p.text())


@case
def garbage_on_the_port_does_no_harm():
    srv = Listener(VDEV)
    host, port = srv.addr.rsplit(":", 1)
    held = []
    for data in (b"", b"\0" * 4096, b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 64):
        s = socket.create_connection((host, int(port)))
        held.append(s)  # half of them stay open
        try:
            s.sendall(data)
            if len(held) % 2:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server may have closed already
    works(srv)
    for s in held:
        s.close()


if __name__ == "__main__":
    main(lambda: need_device(VDEV))
