# SPDX-License-Identifier: BSD-3-Clause
"""Faults of the emulated EFA device below leat-perf: test_faults.py LEAT_PERF DEVICE

Two processes; the device of the client or of the listener injects faults. The connection must end,
its text must name the device's status and what to check, and the listener must serve the next
client.
"""

import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../app"))

from perf_lib import (  # noqa: E402
    CPU_A, CPU_B, Listener, case, check, clean, client, main, need_device, run)

VDEV = sys.argv[2]
COMMON = os.environ.get("EFA_SIM", "")
# Seconds within which a connection must end: the timeouts of the device and of the address
# exchange.
SOON = 20
# Status of the device, and words that the text of the connection's end must contain.
STATUSES = {
    1: "dmesg", 5: "dmesg", 6: "dmesg", 7: "run EFA", 8: "endpoint or memory taken away",
    9: "process end", 11: "too short", 12: "does not know", 13: "security group",
}  # fmt: skip


def device(words):
    """Configure the devices of processes that start from now on."""
    os.environ["EFA_SIM"] = ",".join(w for w in (COMMON, words) if w)


def works(srv):
    device("")
    p = client(VDEV, srv.addr, ["--op", "send", "--size", "8,64K", "-n", "50", "--check", "--json"])
    clean(p, ["send"], [8, 65536])


def ended(p, began, word):
    check(p.code == 1, "exit code %s\n%s" % (p.code, p.text()))
    check(time.monotonic() - began < SOON,
          "it took %.1f s\n%s" % (time.monotonic() - began, p.text()))
    check(word in p.err(), "'%s' is not said\n%s" % (word, p.text()))


@case
def every_status_ends_the_connection_and_is_named():
    device("")
    srv = Listener(VDEV)
    for nth, (status, word) in enumerate(STATUSES.items(), 2):
        device("fail=%d,fail-ppm=2000,seed=%d" % (status, status))
        began = time.monotonic()
        ended(client(VDEV, srv.addr, ["--size", "64", "-D", "60"]), began, word)
        check(srv.listening(nth) == srv.addr, srv.text())
    works(srv)


@case
def a_host_that_is_cut_off_is_unresponsive():
    device("deaf-after=500,unresp-ms=300")
    srv = Listener(VDEV)
    device("unresp-ms=300")
    began = time.monotonic()
    ended(client(VDEV, srv.addr, ["--size", "64", "-D", "60"]), began, "security group")
    srv.kill()


@case
def receiver_not_ready_loses_nothing():
    device("rnr-ppm=20000")
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["--test", "bw", "--op", "send,write,read", "--size", "8,4K,1M",
                                "-n", "100",
                                "--check", "--json"])
    clean(p, ["send", "write", "read"], [8, 4096, 1 << 20])
    check(srv.wait() == 0, srv.text())


@case
def lost_address_handles_lose_nothing():
    device("lose-ah-ppm=200000,reorder=16")
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ["--test", "bw", "--op", "send,tagged", "--size", "8,64K", "-n",
                                "200", "--check",
                                "--json"])
    clean(p, ["send", "tagged"], [8, 65536])
    check(srv.wait() == 0, srv.text())


@case
def a_device_that_fails_to_open_is_named():
    device("devices=2,bad-device=2")
    p = run(["-l", str(CPU_A), "--vdev=" + VDEV], ["--self", "-n", "10"])
    check(p.code not in (0, None) and "no such device" in p.err() and "fi_info -p efa" in p.err(),
          p.text())


@case
def bytes_cross_the_device_and_nothing_else():
    with tempfile.NamedTemporaryFile(prefix="leat-efa-", suffix=".json") as stats:
        device("stats=" + stats.name)
        srv = Listener(VDEV, ["--once"])
        p = client(VDEV, srv.addr, ["--test", "bw", "--size", "64K", "-n", "200", "--check",
                                    "--json"])
        clean(p, ["send"], [65536])
        check(srv.wait() == 0, srv.text())
        lines = [json.loads(line) for line in open(stats.name, encoding="utf-8")]
    check(len(lines) == 2, str(lines))
    sent = sum(line["send_bytes"] for line in lines)
    received = sum(line["recv_bytes"] for line in lines)
    check(sent == received and sent > 200 * 65536, "%d B sent, %d B received" % (sent, received))
    check(all(not any(line["left"].values()) for line in lines), str(lines))


@case
def no_shared_memory_inside_the_provider():
    """Endpoints of one process have one GID: the provider would use shared memory for them."""
    with tempfile.NamedTemporaryFile(prefix="leat-efa-", suffix=".json") as stats:
        device("stats=" + stats.name)
        p = run(["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B), "--vdev=" + VDEV],
                ["--self", "--idle", "yield", "--size", "4K", "-n", "100", "--check", "--json"])
        clean(p, ["send"], [4096])
        line = json.loads(open(stats.name, encoding="utf-8").read())
    check(line["send_bytes"] > 2 * 100 * 4096 and line["send_bytes"] == line["recv_bytes"],
          str(line))


main(lambda: need_device(VDEV))
