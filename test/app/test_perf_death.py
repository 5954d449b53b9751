# SPDX-License-Identifier: BSD-3-Clause
"""One side ends unexpectedly: test_perf_death.py LEAT_PERF DEVICE [all]"""

import re
import socket
import sys
import time

from perf_lib import (Listener, Port, Proc, SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM, Skipped,
                      case, check, clean, client, main, need_device, results)

VDEV = sys.argv[2]
# True: run all ops; False: only some ops of each test.
ALL = sys.argv[3:] == ["all"]
# Rows come quickly, so a row shows that the run is going on; all rows take a minute and more.
MANY = ["--size", ",".join(["1", "4K", "64K"] * 1300), "-D", "0.02"]


def works(srv):
    p = client(VDEV, srv.addr, ["--op", "send,write,read", "--size", "8,64K", "-n", "50", "--check",
                                "--json"])
    clean(p, ["send", "write", "read"], [8, 65536])


def running(addr, test, op, rows):
    p = client(VDEV, addr, ["--test", test, "--op", op] + MANY, wait=False)
    p.expect(r"^ +(1|4096|65536) +\d+ ", nth=rows)
    return p


def kill_clients(test, ops):
    srv = Listener(VDEV)
    for i, op in enumerate(ops):
        p = running(srv.addr, test, op, 5 + i)
        p.signal(SIGKILL)
        p.wait()
        srv.listening(2 + i)
    works(srv)


@case
def a_client_is_killed_during_lat_and_the_next_one_is_served():
    kill_clients("lat", ["send", "tagged", "write", "read"] if ALL else ["send", "read"])


@case
def a_client_is_killed_during_bw_and_the_next_one_is_served():
    kill_clients("bw", ["send", "tagged", "write_imm", "read"] if ALL else ["tagged", "write_imm"])


def kill_listeners(test, ops):
    for op in ops:
        with Port() as addr:
            srv = Listener(VDEV, addr=addr)
            p = running(addr, test, op, 5)
            begin = time.monotonic()
            srv.signal(SIGKILL)
            code = p.wait()
            check(code == 1, "exit code %s\n%s" % (code, p.text()))
            check(re.search(r"^leat-perf: the listener (is gone|closed the connection): ", p.err(),
                            re.M), p.text())
            check(time.monotonic() - begin < 30, "took %.1f s" % (time.monotonic() - begin))
            # A client waits until another listener uses the same port, and then connects.
            late = client(VDEV, addr, ["--size", "8", "-n", "50", "--check", "--timeout", "60",
                                       "--json"], wait=False)
            again = Listener(VDEV, addr=addr)
            check(again.addr == addr, again.addr)
            late.code = late.wait()
            clean(late, ["send"], [8])
            again.kill()


@case
def the_listener_is_killed_during_lat_and_started_again():
    kill_listeners("lat", ["send", "write"] if ALL else ["send"])


@case
def the_listener_is_killed_during_bw_and_started_again():
    kill_listeners("bw", ["send", "write", "read"] if ALL else ["write"])


@case
def the_client_comes_before_the_listener():
    with Port() as addr:
        p = client(VDEV, addr, ["--size", "8", "-n", "50", "--timeout", "60", "--json"], wait=False)
        p.expect(r"waiting for a listener at %s \(2 of 60 s\)" % re.escape(addr), "err")
        srv = Listener(VDEV, addr=addr)
        p.code = p.wait()
        clean(p, ["send"], [8])
        srv.listening(2)


@case
def a_signal_ends_the_client_and_what_was_measured_is_printed():
    srv = Listener(VDEV)
    for i, (sig, code) in enumerate(((SIGINT, 130), (SIGTERM, 143))):
        p = running(srv.addr, "lat", "send", 3)
        p.signal(sig)
        got = p.wait()
        check(got == code, "exit code %s\n%s" % (got, p.text()))
        check("leat-perf: interrupted" in p.err(), p.err())
        srv.listening(2 + i)
    p = client(VDEV, srv.addr, ["--size", "8", "-D", "3600", "--json", "--progress"], wait=False)
    p.expect("lat send 8 B: ", "err")
    p.signal(SIGINT)
    check(p.wait() == 130, p.text())
    j = results(p)
    check(j["interrupted"] and j["results"][0]["interrupted"] and
          j["results"][0]["iterations"] > 0, str(j))
    srv.listening(4)
    works(srv)


@case
def a_signal_ends_the_client_while_it_connects():
    p = client(VDEV, "127.0.0.1:1", ["--timeout", "3600"], wait=False)
    p.expect("waiting for a listener", "err")
    p.signal(SIGINT)
    check(p.wait() == 130, p.text())


@case
def a_signal_ends_the_listener():
    srv = Listener(VDEV)
    srv.signal(SIGINT)
    check(srv.wait() == 130 and "leat-perf: interrupted" in srv.err(), srv.text())
    srv = Listener(VDEV)
    p = running(srv.addr, "bw", "send", 3)
    srv.signal(SIGTERM)
    check(srv.wait() == 143, srv.text())
    check(p.wait() == 1 and "the listener" in p.err(), p.text())


@case
def a_listener_that_hangs_is_given_up():
    srv = Listener(VDEV)
    p = client(VDEV, srv.addr, MANY + ["--timeout", "2"], wait=False)
    p.expect(r"^ +4096 +\d+ ", nth=3)
    srv.signal(SIGSTOP)
    code = p.wait()
    srv.signal(SIGCONT)
    check(code == 1, "exit code %s\n%s" % (code, p.text()))
    check(re.search(r"^leat-perf: the listener ", p.err(), re.M), p.text())
    srv.listening(2)
    works(srv)


@case
def a_second_client_waits_for_its_turn():
    srv = Listener(VDEV)
    first = running(srv.addr, "lat", "send", 1)
    second = client(VDEV, srv.addr, ["--size", "8", "-n", "50", "--timeout", "0.3"])
    check(second.code == 1 and srv.addr in second.err(), second.text())
    third = client(VDEV, srv.addr, ["--size", "8", "-n", "50", "--timeout", "60", "--json"],
                   wait=False)
    third.expect("waiting for a listener", "err")
    first.signal(SIGINT)
    first.wait()
    third.code = third.wait()
    clean(third, ["send"], [8])


@case
def garbage_on_the_port_does_no_harm():
    if VDEV.startswith("fabric_shm"):
        raise Skipped("the port is none of TCP")
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
