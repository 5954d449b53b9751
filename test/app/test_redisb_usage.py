# SPDX-License-Identifier: BSD-3-Clause
"""Errors of usage are reported, and nothing hangs: test_redisb_usage.py LEAT_REDIS_BENCH"""

import json
import re
import subprocess
import tempfile

from perf_lib import PERF
from redisb_lib import CPU_A, DEADLINE, Fake, case, check, expect_ok, main, run

CPU = ["-l", str(CPU_A)]
RING = CPU + ["--vdev=fabric_ring0"]
HERE = ["--connect", "unix:/no/such/socket"]


def bad(code, pattern, eal, app=None):
    p = run(eal, app)
    what = " ".join(p.args)
    check(p.code == code, "exit code %s, not %s: %s\n%s" % (p.code, code, what, p.text()))
    check(re.search("^(leat/app: )?leat-redis-bench: .*(%s)" % pattern, p.err(), re.M),
          "no '%s' from %s\n%s" % (pattern, what, p.text()))
    check(p.out() == "", p.text())


@case
def command_line():
    for pattern, app in (
            ("one of --connect ADDR, --respond and --gateway BACKEND is needed", []),
            ("one of --connect ADDR, --respond and --gateway BACKEND is needed",
             HERE + ["--respond"]),
            ("--listen goes with --respond", HERE + ["--listen", "a:1"]),
            ("unknown option '--no-such'", ["--no-such"]),
            ("unknown option '-x'", ["-x"]),
            ("'--data' needs a value", HERE + ["--data"]),
            ("'nowhere' is not an address", ["--connect", "nowhere"]),
            ("'' is not an address", ["--connect", ""]),
            ("'tcp:nowhere' is not tcp:host:port", ["--connect", "tcp:nowhere"]),
            ("'tcp:a:b' is not tcp:host:port", ["--connect", "tcp:a:b"]),
            ("'tcp:a:123456' is not tcp:host:port", ["--connect", "tcp:a:123456"]),
            ("'tcp::::1' is not tcp:host:port", ["--connect", "tcp::::1"]),
            (r"'tcp:\[::1:1' is not tcp:host:port", ["--connect", "tcp:[::1:1"]),
            (r"'tcp:\[::1\]' is not tcp:host:port", ["--connect", "tcp:[::1]"]),
            ("'unix:' is not the path of a socket", ["--connect", "unix:"]),
            ("x' is not the path of a socket, of up to 107 bytes",
             ["--connect", "unix:/" + "x" * 200]),
            ("--test: 'hset' is not a list of ping, set", HERE + ["--test", "hset"]),
            ("--test: 'set,' is not a list", HERE + ["--test", "set,"]),
            ("--test: 'command' is not a list", HERE + ["--test", "command"]),
            ("--test: more than 16 tests", HERE + ["--test", ",".join(["ping"] * 17)]),
            ("only one of --test and a command", HERE + ["--test", "ping", "INCR", "a"]),
            ("--clients: 0 is out of range", HERE + ["-c", "0"]),
            ("--clients: 100001 is out of range", HERE + ["--clients", "100001"]),
            ("--clients: '' is not a number", HERE + ["--clients="]),
            ("--pipeline: 65537 is out of range", HERE + ["-P", "65537"]),
            ("are more than 67108864 requests under way", HERE + ["-P", "65536", "-c", "100000"]),
            ("--data: '-1' is not a size", HERE + ["--data=-1"]),
            ("--data: 0 is out of range", HERE + ["-d", "0"]),
            ("--data: 513M is out of range", HERE + ["-d", "513M"]),
            ("--data: mset takes 10 values", HERE + ["-d", "200M", "--test", "mset"]),
            ("--keys: 0 is out of range", HERE + ["-r", "0"]),
            ("--keys: 1001G is out of range", HERE + ["-r", "1001G"]),
            ("--range: 0 is out of range", HERE + ["--range", "0"]),
            ("--requests: '1x' is not a number", HERE + ["-n", "1x"]),
            ("--requests: 18446744073709551616 is out of range",
             HERE + ["-n", "18446744073709551616"]),
            ("--duration: 0 is out of range", HERE + ["-D", "0"]),
            ("--duration: 'nan' is not a number|nan is out of range", HERE + ["-D", "nan"]),
            ("only one of --requests and --duration", HERE + ["-n", "1", "-D", "1"]),
            ("--rate: 0 is out of range", HERE + ["--rate", "0"]),
            ("--rate: 'fast' is not a number of requests", HERE + ["--rate", "fast"]),
            ("--seed: 'x' is not a number", HERE + ["--seed", "x"]),
            ("--db: -1|--db: '-1' is not a number", HERE + ["--db=-1"]),
            ("--user goes with --auth-file", HERE + ["--user", "joe"]),
            ("--window: 1K is out of range", HERE + ["--window", "1K"]),
            ("--idle: 'fast' is not auto", HERE + ["--idle", "fast"]),
            ("--timeout: 0 is out of range", HERE + ["--timeout", "0"])):
        bad(2, pattern, CPU, app)


@case
def options_on_the_wrong_side_of_the_dashes():
    bad(2, "'--connect=a:1' goes after '--'", CPU + ["--connect=a:1"])
    bad(2, "'--json' goes after '--'", CPU + ["--json"])


@case
def devices_and_hosts():
    bad(1, "a:1 is reached over a device: name one with --vdev", CPU, ["--connect", "a:1"])
    bad(1, "is reached over a device: name one with --vdev", CPU, ["--respond"])
    bad(2, "no such driver; known: .*fabric_ring", CPU + ["--vdev=fabric_nope0"], HERE)
    bad(1, "--dev fabric_ring7: no such device", RING,
        ["--connect", "a:1", "--dev", "fabric_ring7"])
    bad(1, "--connect: tcp:no-such-host.invalid:9: ", CPU,
        ["--connect", "tcp:no-such-host.invalid:9"])
    bad(1, "listen at unix:/no/such/dir/s: No such file", CPU,
        ["--respond", "--listen", "unix:/no/such/dir/s"])


@case
def passwords():
    bad(1, "--auth-file /no/such/file: No such file", CPU, HERE + ["--auth-file", "/no/such/file"])
    bad(1, "--auth-file /dev/null: its first line is empty", CPU,
        HERE + ["--auth-file", "/dev/null"])
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("x" * 5000)
        f.flush()
        bad(1, "its first line is longer than", CPU, HERE + ["--auth-file", f.name])


# Options in front of "--", among EAL's.
TUNE = {"--settings", "--tune-dir", "--no-tune"}


def long_options(text):
    return set(re.findall(r"--[a-z][a-z-]+", text))


@case
def help_names_known_options():
    for args in (["--help"], ["-h"]):
        p = expect_ok(run(args))
        check(p.out().startswith("Usage: leat-redis-bench EAL... -- --connect"), p.out())
    known = long_options(expect_ok(run(CPU, ["--help"])).out()) - {"--vdev"} - TUNE
    for opt in known:
        # Each documented option is accepted.
        p = run(CPU, [opt])
        check("unknown option" not in p.err(), "--help tells of " + opt)


@case
def lists():
    p = expect_ok(run(["--version"]))
    check(re.fullmatch(r"leat-redis-bench \d+\.\d+\.\d+", p.out()), p.out())
    names = [d["name"] for d in json.loads(expect_ok(run(["--list-drivers", "--json"])).out())]
    check("fabric_ring" in names, str(names))
    devs = json.loads(expect_ok(run(RING, ["--list-devices", "--json"])).out())
    check(devs[0]["name"] == "fabric_ring0", str(devs))


@case
def full_disks_are_noticed():
    with Fake(lambda args, n: b"+PONG\r\n") as f, open("/dev/full", "w", encoding="ascii") as full:
        for option in ([], ["--json"]):
            args = f.where + ["-n", "10", "-c", "2", "--test", "ping"] + option
            p = subprocess.run([PERF] + CPU + ["--"] + args, stdout=full, stderr=subprocess.PIPE,
                               text=True, timeout=DEADLINE, check=False)
            check(p.returncode == 1 and "stdout: can't write" in p.stderr, p.stderr)


if __name__ == "__main__":
    main()
