# SPDX-License-Identifier: BSD-3-Clause
"""Errors of usage are reported, and nothing hangs: test_rpcb_usage.py LEAT_RPC_BENCH"""

import json
import re
import socket

from rpcb_lib import CPU_A, TWO, case, check, expect_ok, main, run

CPU = ["-l", str(CPU_A)]
RING = TWO + ["--vdev=fabric_ring0"]
TCP = CPU + ["--vdev=fabric_ofi0,provider=tcp"]


def bad(code, pattern, eal, app=None):
    p = run(eal, app)
    what = " ".join(p.args)
    check(p.code == code, "exit code %s, not %s: %s\n%s" % (p.code, code, what, p.text()))
    check(re.search("^(leat/app: )?leat-rpc-bench: .*(%s)" % pattern, p.err(), re.M),
          "no '%s' from %s\n%s" % (pattern, what, p.text()))
    check(p.out() == "", p.text())


@case
def command_line():
    s = "--self"
    for pattern, app in (
            ("one of --self, --listen ADDR, --connect ADDR, --launched", []),
            ("unknown option '--no-such'", ["--no-such"]),
            ("unknown option '-x'", ["-x"]),
            ("unexpected argument 'stray'", [s, "stray"]),
            ("'--size' needs a value", [s, "--size"]),
            ("only one of --self, --listen", [s, "--connect", "a:1"]),
            ("only one of --self, --listen", [s, "--launched"]),
            ("only one of --self, --listen", ["--listen", ":0", "--ranks-dir", "x"]),
            ("'nowhere' is not an address", ["--connect", "nowhere"]),
            # Lcores listen at ports of their process's host: a name has none.
            ("'shm:name' is not an address", ["--listen", "shm:name"]),
            ("'a:' is not an address", ["--connect", "a:"]),
            ("'a:1x' is not an address", ["--connect", "a:1x"]),
            ("'a:65536' is not an address", ["--listen", "a:65536"]),
            ("'a:4294967297' is not an address", ["--connect", "a:4294967297"]),
            ("'%s' is not an address" % ("x" * 300 + ":1"), ["--connect", "x" * 300 + ":1"]),
            ("--size: '-1' is not a size", [s, "--size=-1"]),
            ("--size: '' is not a size", [s, "--size", "8,"]),
            ("--size: '8Q' is not a size", [s, "--size", "8Q"]),
            ("--size: '17M' is more than 16M", [s, "--size", "17M"]),
            ("--size: '1-99999999999G' is more than", [s, "--size", "1-99999999999G"]),
            ("the range '8-4' ends below", [s, "--size", "8-4"]),
            ("--resp-size: more than 16 sizes", [s, "--resp-size", ",".join(["8"] * 17)]),
            ("--long: '' is not a size", [s, "--long", ":5"]),
            ("--long, its per cent: 0 is out of range", [s, "--long", "1M:0"]),
            ("--bulk: 0-4K: there is nothing to pull of 0 B", [s, "--bulk", "0-4K"]),
            ("--bulk, its per cent: 101 is out of range", [s, "--bulk", "1M:101"]),
            ("--long, its per cent: 'x' is not a number", [s, "--long", "1M:x"]),
            ("--oneway: 101 is out of range", [s, "--oneway=101"]),
            ("--oneway: '' is not a number", [s, "--oneway="]),
            ("together are more than 100 per cent", [s, "--oneway=60", "--long", "1M:50"]),
            ("together are more than 100 per cent", [s, "--bulk", "1M:60", "--long", "1M:50"]),
            ("--calls: '1x' is not a number", [s, "-n", "1x"]),
            ("--calls: 0 is out of range", [s, "--calls", "0"]),
            ("--calls: 18446744073709551616 is out of range", [s, "-n", "18446744073709551616"]),
            ("--seconds: 'nan' is not a number of seconds|nan is out of range", [s, "-D", "nan"]),
            ("--seconds: 0 is out of range", [s, "--seconds", "0"]),
            ("only one of --calls and --seconds", [s, "-n", "1", "-D", "1"]),
            ("--tasks: 1025 is out of range \\(1 to 1024\\)", [s, "--tasks", "1025"]),
            ("--batch: 0 is out of range \\(1 to 256\\)", [s, "--batch", "0"]),
            ("take 524304 MiB for their messages",
             [s, "--tasks", "1024", "--batch", "256", "--long", "1M"]),
            ("--rate: 0 is out of range", [s, "--rate", "0"]),
            ("--rate: 'fast' is not a number of calls", [s, "--rate", "fast"]),
            ("--deadline: 0 is out of range", [s, "--deadline", "0"]),
            ("--corrupt is of no use with --no-check", [s, "--corrupt", "1", "--no-check"]),
            ("--packet: 100 is not a multiple of 8, 256 to 65536", [s, "--packet", "100"]),
            ("--packet: 1001 is not a multiple of 8", [s, "--packet", "1001"]),
            ("--credits: 2 is out of range \\(3 to 4096\\)", [s, "--credits", "2"]),
            ("--slots: 1025 is out of range", [s, "--slots", "1025"]),
            ("--cc: 'timely' is not none or swift", [s, "--cc", "timely"]),
            ("--type: 'rc' is not reliable or datagram", [s, "--type", "rc"]),
            ("--idle: 'block' is not auto", [s, "--idle", "block"]),
            ("--timeout: 0 is out of range", [s, "--timeout", "0"]),
            ("--once goes with --listen", [s, "--once"]),
            ("--both goes with --connect", [s, "--both"]),
            ("--histogram goes with the side that measures",
             ["--listen", ":0", "--histogram", "x"]),
            ("--bind: 'a:1' is not a host", [s, "--bind", "a:1"]),
            ("--bind goes with", ["--connect", "a:1", "--bind", "b"]),
            ("--rank, --ranks, .* go with --ranks-dir", [s, "--rank", "0"]),
            ("--rank: 'x' is not a number", ["--ranks-dir", "x", "--rank", "x"]),
            ("--ranks-how: 'x' is not auto", ["--ranks-how", "x"])):
        bad(2, pattern, RING, app)


@case
def options_on_the_wrong_side_of_the_dashes():
    bad(2, "'--self' goes after '--'", RING + ["--self"])
    bad(2, "'--connect=a:1' goes after '--'", RING + ["--connect=a:1"])


@case
def devices():
    bad(1, "no device: name one with --vdev, such as --vdev=fabric_ring0", TWO, ["--self"])
    bad(2, "no such driver; known: .*fabric_ring", TWO + ["--vdev=fabric_nope0"], ["--self"])
    bad(1, "--dev fabric_ring7: no such device", RING, ["--self", "--dev", "fabric_ring7"])
    bad(1, "connects endpoints of one process only", RING, ["--listen", "127.0.0.1:0"])
    bad(1, "connects endpoints of one process only", RING, ["--connect", "127.0.0.1:1"])
    bad(1, r"--type datagram: fabric_ring0 \(fabric_ring\) has no such endpoints", RING,
        ["--self", "--type", "datagram"])
    bad(1, "--cc swift goes with datagram endpoints", RING, ["--self", "--cc", "swift"])
    bad(1, "one process needs two lcores at least: -l 0,1, or on one CPU --lcores 0@0,1@0", CPU +
        ["--vdev=fabric_ring0"], ["--self"])


@case
def what_the_device_does_not_allow():
    many = ["--lcores", ",".join("%d@%d" % (i, CPU_A) for i in range(6)),
            "--vdev=fabric_ofi0,provider=shm"]
    bad(1,
        r"--credits 1000 for each of 5 sessions: fabric_ofi0 takes \d+ receives at most, that is "
        r"\d+ for each",
        many, ["--self", "--credits", "1000"])
    # 4 x 4096 receives of 64 KiB
    bad(1, "receives of 65536 B of an lcore take more than 1024 MiB: smaller --credits or --packet",
        many[:-1] + ["--vdev=fabric_ring0"], ["--self", "--credits", "4096", "--packet", "64K"])


@case
def addresses():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        bad(1, "[Aa]ddress already in use|in use", TCP,
            ["--listen", "127.0.0.1:%d" % s.getsockname()[1]])
    bad(1, "192.0.2.77", TCP, ["--listen", "192.0.2.77:0"])
    # Attempts to connect fail without a listener, with a server that says nothing, and to an
    # unknown name.
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        addr = "127.0.0.1:%d" % s.getsockname()[1]
        bad(1, addr, TCP, ["--connect", addr, "--timeout", "0.5"])
        s.listen()
        bad(1, addr, TCP, ["--connect", addr, "--timeout", "0.5"])
    bad(1, "no-such-host.invalid", TCP, ["--connect", "no-such-host.invalid:9", "--timeout", "0.5"])


# Options in front of "--", among EAL's.
TUNE = {"--settings", "--tune-dir", "--no-tune"}


def long_options(text):
    return set(re.findall(r"--[a-z][a-z-]+", text))


@case
def help_names_known_options():
    for args in (["--help"], ["-h"]):
        p = expect_ok(run(args))
        check(p.out().startswith("Usage: leat-rpc-bench EAL... -- --self"), p.out())
    known = long_options(expect_ok(run(CPU, ["--help"])).out()) - {"--lcores", "--vdev",
                                                                   "--mpi"} - TUNE
    for opt in known:
        # Each documented option is accepted.
        p = run(CPU, [opt])
        check("unknown option" not in p.err(), "--help tells of " + opt)


@case
def lists():
    p = expect_ok(run(["--version"]))
    check(re.fullmatch(r"leat-rpc-bench \d+\.\d+\.\d+", p.out()), p.out())
    check("fabric_ring" in expect_ok(run(["--list-drivers"])).out(), "no fabric_ring")
    names = [d["name"] for d in json.loads(expect_ok(run(["--list-drivers", "--json"])).out())]
    check({"fabric_ring", "fabric_shm", "fabric_ofi", "fabric_efa"} <= set(names), str(names))
    devs = json.loads(expect_ok(run(RING, ["--list-devices", "--json"])).out())
    check(devs[0]["name"] == "fabric_ring0", str(devs))


@case
def full_disks_are_noticed():
    p = run(RING, ["--self", "-n", "10", "--idle", "sleep", "--histogram", "/no/such/dir/x"])
    check(p.code == 1 and "--histogram /no/such/dir/x: No such file" in p.err(), p.text())
    p = run(RING, ["--self", "-n", "10", "--idle", "sleep", "--histogram", "/dev/full"])
    check(p.code == 1 and "--histogram /dev/full: No space left" in p.err(), p.text())


if __name__ == "__main__":
    main()
