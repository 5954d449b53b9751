# SPDX-License-Identifier: BSD-3-Clause
"""leat-redis-bench over streams, to its own server: test_redisb_stream.py LEAT_REDIS_BENCH VDEV"""

import re
import sys

from redisb_lib import (CPU_A, CPU_B, SIGINT, Failed, Proc, Skipped, bench, case, check, clean,
                        main, need_device, one, results, start)

VDEV = sys.argv.pop(2)
TWO = ["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B)]
ALL = "ping,set,get,mset,lrange"


class Server(Proc):
    """A server in a process of its own if the device allows, else in the process that measures."""

    def __init__(self, app=(), addr="127.0.0.1:0", vdev=True):
        super().__init__(["-l", str(CPU_A)] + (["--vdev=" + VDEV] if vdev else []),
                         ["--respond", "--listen", addr, "--idle", "sleep"] + list(app))
        self.where = ["--connect", self.expect(r"^listening on (\S+)$").group(1)]


def alone():
    return "ring" in VDEV


def both(app, server=(), eal=None):
    """Run a benchmark and a server, which share the options `server`."""
    if alone():
        return bench(["--respond"], app + list(server),
                     (eal or ["-l", str(CPU_A)]) + ["--vdev=" + VDEV])
    s = Server(list(server))
    p = bench(s.where, app + list(server), ["-l", str(CPU_B), "--vdev=" + VDEV])
    s.kill()
    return p


@case
def every_test():
    j = clean(both(["--test", ALL, "-n", "2001", "-r", "300", "-c", "7"], ["--verify"]), 2001)
    check(j["server"]["device"] == VDEV.split(",")[0] and j["server"]["via"] == "stream",
          str(j["server"]))
    check(j["connect"]["clients"] == 7 and j["connect"]["min_us"] > 0, str(j["connect"]))


@case
def on_several_lcores():
    if not alone():
        clean(both(["--test", "set,get", "-n", "1001", "-c", "9"], ["--verify"]), 1001)
        return
    for eal in (TWO, ["--lcores", "0@%d,1@%d,2@%d" % (CPU_A, CPU_B, CPU_A)]):
        clean(both(["--test", ALL, "-n", "2001", "-c", "9", "-P", "3"], ["--verify"], eal), 2001)


@case
def sizes_and_pipelines():
    for size, pipeline, clients, n, window in ((1, 1, 20, 1000, "1M"), (1, 512, 3, 10000, "64K"),
                                               (64, 16, 20, 5000, "100000"),
                                               (4097, 512, 2, 3000, "64K"),
                                               (65536, 7, 3, 300, "64K"),
                                               (100001, 1, 5, 100, "70000"),
                                               (1 << 20, 8, 2, 60, "1M"),
                                               (16 << 20, 2, 2, 5, "16M")):
        clean(both(["--test", "set,get", "-P", str(pipeline), "-c", str(clients), "-n", str(n),
                    "-r", "30"],
                   ["-d", str(size), "--window", window, "--verify"]), n)
    clean(both(["--test", "lrange", "--range", "37", "-P", "9", "-n", "300", "-c", "4"],
               ["-d", "5000", "--verify"]), 300)


@case
def an_open_loop():
    x = clean(both(["--test", "get", "--rate", "2000", "-n", "500", "-c", "5", "-r", "10"],
                   ["--verify"]), 500)
    check(x["results"][0]["elapsed_s"] > 0.24, str(x))


@case
def wrong_values_are_found():
    """The server has values of another seed."""
    if alone():
        with_socket = ["--connect", "tcp:127.0.0.1:"]
        s = Server(["--seed", "7"], "tcp:127.0.0.1:0", vdev=False)
        check(s.where[1].startswith(with_socket[1]), str(s.where))
        eal = ["-l", str(CPU_B)]
    else:
        s = Server(["--seed", "7"])
        eal = ["-l", str(CPU_B), "--vdev=" + VDEV]
    p = bench(s.where, ["--test", "get", "-n", "100", "--verify", "-c", "3", "-r", "50"], eal)
    check(p.code == 1 and one(p)["wrong"] == 100 and "byte 0 of 64 is 0x" in p.err(), p.text())
    s.kill()
    s = Server(["--seed", "7", "--verify"], "tcp:127.0.0.1:0", vdev=False)
    p = bench(s.where, ["--test", "set", "-n", "100", "-c", "3"], ["-l", str(CPU_B)])
    check(p.code == 1 and one(p)["errors"] == 100 and "-ERR wrong value" in p.err(), p.text())


@case
def a_server_that_is_killed():
    if alone():
        raise Skipped("this device connects endpoints of one process only")
    s = Server()
    p = start(s.where, ["--test", "set", "-D", "60", "-c", "5", "--progress"],
              ["-l", str(CPU_B), "--vdev=" + VDEV])
    p.expect(r"SET, \d+ s, [1-9]\d* requests", "err")
    s.kill()
    p.code = p.wait()
    check(p.code == 1 and one(p)["requests"] > 0 and one(p)["lost_clients"] == 5, p.text())
    check(results(p)["error"] == "set: 5 of 5 clients were lost", p.text())
    # The server has ended.
    p = bench(s.where, ["--test", "set", "-n", "5", "-c", "2", "--timeout", "1"],
              ["-l", str(CPU_B), "--vdev=" + VDEV])
    check(p.code == 1 and "connect: 2 of 2 clients were lost" == results(p)["error"], p.text())


@case
def ctrl_c():
    if alone():
        p = start(["--respond"], ["--test", "set", "-D", "60", "-c", "5", "--progress"],
                  TWO + ["--vdev=" + VDEV])
        s = None
    else:
        s = Server()
        p = start(s.where, ["--test", "set", "-D", "60", "-c", "5", "--progress"],
                  ["-l", str(CPU_B), "--vdev=" + VDEV])
    p.expect(r"SET, \d+ s, [1-9]\d* requests", "err")
    p.signal(SIGINT)
    p.code = p.wait()
    check(p.code == 130 and results(p)["interrupted"] and one(p)["requests"] > 0, p.text())
    check(not re.search("of lcore", p.err()), p.text())
    if s is not None:
        # The server has seen the clients go, and serves others.
        clean(bench(s.where, ["-n", "100", "-c", "2"], ["-l", str(CPU_B), "--vdev=" + VDEV]), 100)
        s.signal(SIGINT)
        if s.wait() != 130:
            raise Failed(s.text())


if __name__ == "__main__":
    main(None if alone() else lambda: need_device(VDEV))
