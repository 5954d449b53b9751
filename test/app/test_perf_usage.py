# SPDX-License-Identifier: BSD-3-Clause
"""Errors of usage are reported, and nothing hangs: test_perf_usage.py LEAT_PERF"""

import json
import os
import re
import socket
import tempfile

from perf_lib import CPU_A, CPU_B, SIGINT, Proc, case, check, expect_ok, main, results, run

CPU = ["-l", str(CPU_A)]
RING = CPU + ["--vdev=fabric_ring0"]
TCP = CPU + ["--vdev=fabric_ofi0,provider=tcp"]


def bad(code, pattern, eal, app=None):
    p = run(eal, app)
    what = " ".join(p.args)
    check(p.code == code, "exit code %s, not %s: %s\n%s" % (p.code, code, what, p.text()))
    check(re.search("^(leat/app: )?leat-perf: .*(%s)" % pattern, p.err(), re.M),
          "no '%s' from %s\n%s" % (pattern, what, p.text()))
    check(p.out() == "" or p.out().startswith("---"), p.text())


@case
def command_line():
    for pattern, app in (
            ("one of --listen ADDR, --connect ADDR and --self", []),
            ("unknown option '--no-such'", ["--no-such"]),
            ("unknown option '-x'", ["-x"]),
            ("unexpected argument 'stray'", ["--self", "stray"]),
            ("'--size' needs a value", ["--self", "--size"]),
            ("only one of --listen, --connect and --self", ["--self", "--connect", "a:1"]),
            ("'nowhere' is not an address", ["--connect", "nowhere"]),
            ("--test: 'ping' is not lat, bw or rate", ["--self", "--test", "ping"]),
            ("--op: 'sendd' is not send", ["--self", "--op", "sendd"]),
            ("--op: '' is not send", ["--self", "--op", "send,"]),
            ("--op: '' is not send", ["--self", "--op", "all,"]),
            ("--op: 'al' is not send.* or all$", ["--self", "--op", "all,al"]),
            ("--op: 'ALL' is not send", ["--self", "--op", "ALL,msg"]),
            ("--size: '-1' is not a size", ["--self", "--size=-1"]),
            ("--size: '' is not a size", ["--self", "--size", "8,"]),
            ("--size: '8Q' is not a size", ["--self", "--size", "8Q"]),
            ("--size: '4097M' is more than 4G", ["--self", "--size", "4097M"]),
            ("--size: '99999999999G' is more than", ["--self", "--size", "99999999999G"]),
            ("--size: '18446744073709551616' is more",
             ["--self", "--size", "18446744073709551616"]),
            ("the range '8-4' ends below", ["--self", "--size", "8-4"]),
            ("more than 4096 sizes", ["--self", "--size", ",".join(["8"] * 4097)]),
            ("--iterations: '1x' is not a number", ["--self", "-n", "1x"]),
            ("--iterations: 0 is out of range", ["--self", "-n", "0"]),
            ("--duration: '-1' is not a number of seconds", ["--self", "-D", "-1"]),
            ("--duration: nan is out of range|'nan' is not", ["--self", "-D", "nan"]),
            ("only one of --iterations and --duration", ["--self", "-n", "1", "-D", "1"]),
            ("--window: 65537 is out of range", ["--self", "--test", "bw", "--window", "65537"]),
            ("--burst: 0 is out of range", ["--self", "--test", "bw", "--burst", "0"]),
            ("--burst 16 is more than --window 8", ["--self", "--test", "bw", "--burst", "16",
                                                    "--window", "8"]),
            ("--window goes with", ["--self", "--window", "8"]),
            ("--burst goes with", ["--self", "--burst", "8"]),
            ("--rate goes with --test lat", ["--self", "--test", "bw", "--rate", "1K"]),
            ("--rate: 0 is out of range", ["--self", "--rate", "0"]),
            ("--rate and --check together", ["--self", "--rate", "1K", "--check", "--op", "write"]),
            ("--rate and --check together",
             ["--self", "--rate", "1K", "--check", "--op", "all,write"]),
            ("--corrupt is of no use without --check", ["--self", "--corrupt", "1"]),
            ("--once goes with --listen", ["--self", "--once"]),
            ("--histogram goes with --test lat", ["--self", "--test", "bw", "--histogram", "x"]),
            ("--idle: 'sleep' is not auto", ["--self", "--idle", "sleep"]),
            ("--timeout: 0 is out of range", ["--self", "--timeout", "0"]),
            ("--mbufs: 0 is out of range", ["--self", "--mbufs", "0"]),
            ("--mbuf-size: 512 is out of range", ["--self", "--mbuf-size", "512"])):
        bad(2, pattern, RING, app)


@case
def options_on_the_wrong_side_of_the_dashes():
    bad(2, "'--self' goes after '--'", RING + ["--self"])
    bad(2, "'--connect=a:1' goes after '--'", RING + ["--connect=a:1"])
    bad(2, "one of --listen ADDR, --connect ADDR and --self", RING)


@case
def devices():
    bad(1, "no device: name one with --vdev, such as --vdev=fabric_ring0", CPU, ["--self"])
    bad(2, "no such driver; known: .*fabric_ring", CPU + ["--vdev=fabric_nope0"], ["--self"])
    bad(2, "unknown argument 'colour'; fabric_ring knows: .*depth", CPU +
        ["--vdev=fabric_ring0,colour=red"], ["--self"])
    bad(1, "fabric_ofi0.*nope", CPU + ["--vdev=fabric_ofi0,provider=nope"], ["--self"])
    bad(2, "fabric_ofi0: provider=NAME is missing", CPU + ["--vdev=fabric_ofi0"], ["--self"])
    bad(2, "fabric_efa0: provider=tcp: it is always efa here", CPU +
        ["--vdev=fabric_efa0,provider=tcp"], ["--self"])
    bad(1, "--dev fabric_ring7: no such device", RING, ["--self", "--dev", "fabric_ring7"])
    bad(1, "connects endpoints of one process only", RING, ["--listen", "127.0.0.1:0"])
    bad(1, "connects endpoints of one process only", RING, ["--connect", "127.0.0.1:1"])


@case
def what_the_device_does_not_allow():
    bad(1, "size 1073741825 is beyond the device's limit of 1073741824 B", RING,
        ["--self", "--size", "1073741825"])
    bad(1, r"--window \d+ is beyond the device's limit", RING,
        ["--self", "--test", "bw", "--window", "65536"])
    bad(1, "size 16: atomics move 8 bytes", RING, ["--self", "--op", "fetch_add", "--size", "16"])
    bad(1, "size 0 has none", RING, ["--self", "--op", "write", "--size", "0"])
    bad(1, "--mbufs 8 is too small: at least", RING, ["--self", "--mbufs", "8"])
    bad(1, "--mbufs 64 is too small: a window of 256 at 8 B needs", RING,
        ["--self", "--mbufs", "64", "--test", "rate"])
    for rx in 2, 4:
        bad(1, "fabric_ofi0 has room for %d receives: --op tagged needs at least 5 .rx= of" % rx,
            CPU + ["--vdev=fabric_ofi0,provider=tcp,tags=1,rx=%d" % rx],
            ["--self", "--op", "tagged"])
    bad(1, r"no memory for 16000000 buffers of 1048576 B", RING,
        ["--self", "--mbufs", "16M", "--mbuf-size", "1M"])


@case
def size_0_is_a_message():
    p = expect_ok(run(RING, ["--self", "--size", "0", "-n", "50", "--json", "--check"]))
    check(results(p)["results"][0]["bytes"] == 0, p.text())


@case
def addresses():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        bad(1, "[Aa]ddress already in use|in use", TCP,
            ["--listen", "127.0.0.1:%d" % s.getsockname()[1]])
    bad(1, "192.0.2.77", TCP, ["--listen", "192.0.2.77:0"])
    bad(1, "127.0.0.1:99999", TCP, ["--listen", "127.0.0.1:99999"])
    # Attempts to connect fail without a listener, with a server that says nothing, to an address
    # without a machine, and to an unknown name.
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        addr = "127.0.0.1:%d" % s.getsockname()[1]
        bad(1, addr, TCP, ["--connect", addr, "--timeout", "0.5"])
        s.listen()
        bad(1, addr, TCP, ["--connect", addr, "--timeout", "0.5"])
    bad(1, "192.0.2.77:9", TCP, ["--connect", "192.0.2.77:9", "--timeout", "0.5"])
    bad(1, "no-such-host.invalid", TCP, ["--connect", "no-such-host.invalid:9", "--timeout", "0.5"])


@case
def refused_by_the_listener():
    srv = Proc(TCP, ["--listen", "127.0.0.1:0", "--mbufs", "64", "--idle", "yield"])
    addr = srv.expect(r"^listening on (\S+)$").group(1)
    p = run(["-l", str(CPU_B), "--vdev=fabric_ofi0,provider=tcp"],
            ["--connect", addr, "--test", "rate", "--idle", "yield"])
    check(p.code == 1, p.text())
    check("the listener refuses: --mbufs 64 is too small" in p.err(), p.text())
    srv.expect(r"^listening on", nth=2)


@case
def help_and_lists():
    for args in (["--help"], ["-h"]):
        p = expect_ok(run(args))
        check(p.out().startswith("Usage: leat-perf EAL... -- --listen ADDR"), p.out())
    p = expect_ok(run(CPU, ["--help"]))
    for opt in ("--listen", "--connect", "--self", "--test", "--op", "--size", "--iterations",
                "--duration", "--warmup", "--window", "--burst", "--rate", "--check", "--corrupt",
                "--dev", "--idle", "--timeout", "--once", "--mbufs", "--mbuf-size", "--json",
                "--eal-memory",
                "--histogram", "--progress", "--list-drivers", "--list-devices", "--version"):
        check(opt in p.out(), "--help is silent about " + opt)
    p = expect_ok(run(["--version"]))
    check(re.fullmatch(r"leat-perf \d+\.\d+\.\d+", p.out()), p.out())
    check("fabric_ring" in expect_ok(run(["--list-drivers"])).out(), "no fabric_ring")
    names = [d["name"] for d in json.loads(expect_ok(run(["--list-drivers", "--json"])).out())]
    check({"fabric_ring", "fabric_shm", "fabric_ofi", "fabric_efa"} <= set(names), str(names))
    names = [d["name"] for d in json.loads(expect_ok(run(CPU, ["--list-drivers", "--json"])).out())]
    check("fabric_ring" in names, str(names))
    check("fabric_ring0: driver fabric_ring" in expect_ok(run(RING + ["--list-devices"])).out(),
          "?")
    devs = json.loads(expect_ok(run(RING, ["--list-devices", "--json"])).out())
    check(devs[0]["name"] == "fabric_ring0" and "fetch_add" in devs[0]["ops"], str(devs))


@case
def a_driver_that_does_not_load():
    with tempfile.TemporaryDirectory() as where:
        with open(os.path.join(where, "libleat_driver_broken.so"), "w", encoding="utf-8") as f:
            f.write("no library\n")
        p = expect_ok(run(["-d", where, "--list-drivers"]))
        line = r"^libleat_driver_broken\.so: not loaded: .*" + where
        check(re.search(line, p.out(), re.M), p.out())
        check(re.search("^fabric_ring: ", p.out(), re.M), p.out())
        for d in json.loads(expect_ok(run(["-d", where, "--list-drivers", "--json"])).out()):
            broken = d["name"] == "libleat_driver_broken.so"
            check(broken == (where in d.get("error", "")), str(d))
            check(broken != bool(d["description"]) and isinstance(d["args"], list), str(d))


@case
def devices_that_could_be_opened():
    p = expect_ok(run(CPU + ["--list-devices"]))
    check(re.search("^--vdev=fabric_ring0$", p.out(), re.M), p.out())
    for d in json.loads(expect_ok(run(CPU + ["--list-devices", "--json"])).out()):
        if "none" in d:
            check(d["none"].startswith(d["driver"] + ": "), str(d))
            continue
        name = d["vdev"].split(",")[0]
        check(isinstance(d["details"], dict), str(d))
        if d["details"].get("provider") not in ("shm", "sockets", None):
            continue  # one of each kind is enough, and some take long
        opened = json.loads(expect_ok(run(CPU + ["--vdev=" + d["vdev"], "--list-devices",
                                                 "--json"])).out())
        check(opened[0]["name"] == name, str(opened))
        check(opened[0]["details"].items() <= d["details"].items() or
              opened[0]["details"]["provider"] == "shm", "%s\n%s" % (opened, d))


@case
def a_signal_ends_self():
    p = Proc(["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B), "--vdev=fabric_ring0"],
             ["--self", "--size", "8", "-D", "3600", "--idle", "yield", "--progress", "--json"])
    p.expect("lat send 8 B: ", "err")
    p.signal(SIGINT)
    check(p.wait() == 130, p.text())
    check(results(p)["interrupted"], p.out())


@case
def full_disks_are_noticed():
    bad(1, "--histogram /no/such/dir/x: No such file", RING,
        ["--self", "-n", "10", "--size", "8", "--histogram", "/no/such/dir/x"])
    for pattern in ("--histogram /dev/full: No space left", "can't write the report"):
        bad(1, pattern, RING, ["--self", "-n", "10", "--size", "8", "--histogram", "/dev/full"])


if __name__ == "__main__":
    main()
