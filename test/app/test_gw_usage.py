# SPDX-License-Identifier: BSD-3-Clause
"""Errors of usage are reported; and which clients may connect: test_gw_usage.py LEAT_REDIS_GATEWAY
"""

import json
import os
import re
import socket

from gw_lib import CPU_A, Port, Proc, Server, case, check, expect_ok, main, need_redis, run

CPU = ["-l", str(CPU_A)]
RING = CPU + ["--vdev=fabric_ring0"]
TCP = CPU + ["--vdev=fabric_ofi0,provider=tcp"]
SHM = CPU + ["--vdev=fabric_shm0"]
LEG = ["--listen", "a:1", "--backend", "unix:/nowhere"]


def bad(code, pattern, eal, app=None):
    p = run(eal, app)
    what = " ".join(p.args)
    check(p.code == code, "exit code %s, not %s: %s\n%s" % (p.code, code, what, p.text()))
    check(re.search("^(leat/app: )?(leat-redis-gateway: |gateway: )?.*(%s)" % pattern, p.err(),
                    re.M),
          "no '%s' from %s\n%s" % (pattern, what, p.text()))
    check(p.out() == "", p.text())


@case
def command_line():
    for pattern, app in (
            ("nothing to do: --listen ADDR --backend WHERE", []),
            ("unknown option '--no-such'", ["--no-such"]),
            ("unknown option '-x'", ["-x"]),
            ("unexpected argument 'stray'", LEG + ["stray"]),
            ("'--listen' needs a value", ["--listen"]),
            ("--listen: 'nowhere' is not an address", ["--listen", "nowhere"]),
            ("--listen a:1: where to\\? --backend is missing", ["--listen", "a:1"]),
            ("--listen a:1: where to\\? --to is missing", ["--reverse", "--listen", "a:1"]),
            ("a leg needs --listen", ["--backend", "b:1"]),
            ("a leg needs --listen", LEG + ["--reverse"]),
            ("--listen b:2: this leg has 'a:1' already", ["--listen", "a:1", "--listen", "b:2"]),
            ("--to b:2: this leg has 'b:1' already", ["--backend", "b:1", "--to", "b:2"]),
            ("--backend b:1: a leg with --reverse goes --to",
             ["--reverse", "--listen", "a:1", "--backend", "b:1"]),
            ("--to: 'unix:/x': that is an address of the device",
             ["--listen", "a:1", "--to", "unix:/x"]),
            ("--listen: 'unix:/x': that is an address of the device",
             ["--listen", "unix:/x", "--backend", "b:1"]),
            ("more than 64 legs", LEG * 65),
            ("--allow: '' is not an address or a range", LEG + ["--allow", ""]),
            ("--allow: '10.0.0' is not an address", LEG + ["--allow", "10.0.0"]),
            ("--allow: '10.0.0.0/33': after '/' a number of bits up to 32",
             LEG + ["--allow", "10.0.0.0/33"]),
            ("--allow: 'fd00::/129': after '/' a number of bits up to 128",
             LEG + ["--allow", "10.0.0.0/8,fd00::/129"]),
            ("--allow: '10.0.0.1/8': bits are set after the first 8",
             LEG + ["--allow", "10.0.0.1/8"]),
            ("--allow: more than 256 ranges", LEG + ["--allow", ",".join(["::1"] * 257)]),
            ("--clients: 0 is out of range", LEG + ["--clients", "0"]),
            ("--clients: 'many' is not a number", LEG + ["--clients", "many"]),
            ("--client-bytes: 1K is out of range \\(64K to 16M\\)", LEG + ["--client-bytes", "1K"]),
            ("--client-bytes: '65537' is not a multiple of 4K", LEG + ["--client-bytes", "65537"]),
            ("--client-bytes: 17M is out of range", LEG + ["--client-bytes", "17M"]),
            ("--memory: '-1' is not a size", LEG + ["--memory=-1"]),
            ("--backend-timeout: 0 is out of range", LEG + ["--backend-timeout", "0"]),
            ("--linger: 'x' is not a number of seconds", LEG + ["--linger", "x"]),
            ("--drain: 100000 is out of range", LEG + ["--drain", "100000"]),
            ("--idle: 'deep' is not auto", LEG + ["--idle", "deep"]),
            ("--stats: 0 is out of range", LEG + ["--stats", "0"]),
            ("--json goes with --stats", LEG + ["--json"])):
        bad(2, pattern, RING, app)
    bad(2, "'--listen' goes after '--'", RING + ["--listen", "a:1"])


@case
def devices_and_addresses():
    bad(1, "no device: name one with --vdev", CPU, LEG)
    bad(1, "no device fabric_ring7", RING, ["--dev", "fabric_ring7"] + LEG)
    bad(1, "'nowhere.invalid:1': ", RING, ["--listen", "a:1", "--backend", "nowhere.invalid:1"])
    bad(1, "a path of 1 to 107 characters", RING,
        ["--listen", "a:1", "--backend", "unix:/" + "x" * 200])
    bad(1, "clients, where fabric_ring0 can have", RING, LEG + ["--clients", "60000"])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = "127.0.0.1:%d" % s.getsockname()[1]
        p = run(RING, ["--reverse", "--listen", taken, "--to", "a:1"])
        check(p.code == 1 and "listen at %s: Address already in use" % taken in p.err(), p.text())
        p = run(TCP, ["--listen", taken, "--backend", "127.0.0.1:1"])
        check(p.code == 1 and "in use" in p.err(), p.text())


def starts(eal, app):
    p = Proc(eal, app)
    p.expect("^listening on ")
    p.signal(2)
    check(p.wait() == 0, p.text())


@case
def open_to_others():
    """Clients of other machines only with --allow, or before a server that requires a password."""
    need_redis()
    with Server() as s:
        for where in ("0.0.0.0:0", ":0", "[::]:0"):
            bad(2,
                "%s can be reached from other machines, and the backend .* asks for no password: "
                ".* Say who may "
                "connect \\(--allow CIDR\\), or give it a password \\(requirepass\\)" %
                re.escape(where), TCP, ["--listen", where, "--backend", "127.0.0.1:" + s.port])
        bad(2, "asks for no password", TCP, ["--listen", "0.0.0.0:0", "--backend", s.sock])
        starts(TCP, ["--listen", "0.0.0.0:0", "--backend", s.sock, "--allow", "10.0.0.0/8"])
        starts(TCP, ["--listen", "127.0.0.1:0", "--backend", s.sock])
        # Devices that connect processes of this machine only: any address is allowed.
        starts(RING, ["--listen", "0.0.0.0:1", "--backend", s.sock])
        starts(SHM, ["--listen", "shm:gateway-%d" % os.getpid(), "--backend", s.sock])
        starts(CPU + ["--vdev=fabric_ofi0,provider=shm"],
               ["--listen", "0.0.0.0:0", "--backend", s.sock])
        bad(2,
            "0.0.0.0:0 can be reached from other machines, .* sees clients of the gateway only: "
            "say who may connect",
            RING, ["--reverse", "--listen", "0.0.0.0:0", "--to", "a:1"])
        starts(RING, ["--reverse", "--listen", "0.0.0.0:0", "--to", "a:1", "--allow", "::1"])
    with Server("--requirepass", "secret") as s:
        starts(TCP, ["--listen", "0.0.0.0:0", "--backend", s.sock])
    with Port() as closed:
        bad(2,
            "whether the backend .* asks for a password is not known \\(Connection refused\\): "
            "start it first", TCP,
            ["--listen", "0.0.0.0:0", "--backend", closed])
    # A server that says nothing, and a program that is no Redis server.
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        where = "127.0.0.1:%d" % mute.getsockname()[1]
        bad(2, "asks for a password is not known \\(Connection timed out\\)", TCP,
            ["--listen", "0.0.0.0:0", "--backend", where, "--backend-timeout", "0.2"])


@case
def several_legs():
    p = Proc(RING,
             ["--listen", "a:1", "--backend", "unix:/nowhere", "--listen", "a:2", "--backend",
              "127.0.0.1:1", "--reverse", "--listen", "127.0.0.1:0", "--to", "a:2"])
    check([p.expect(r"^listening on (\S+)$", nth=i + 1).group(1) for i in range(2)] == ["a:1",
                                                                                        "a:2"],
          p.text())
    p.expect(r"^listening on 127\.0\.0\.1:[1-9]", nth=1)
    p.signal(15)
    check(p.wait() == 0, p.text())


@case
def help_and_lists():
    p = expect_ok(run(["--help"]))
    text = p.out()
    options = set(re.findall(r"--[a-z][a-z-]+", text)) - {"--vdev"}
    check(len(options) > 15, text)
    check(all(len(line) <= 112 for line in text.splitlines()), "long lines")
    check(re.match(r"leat-redis-gateway \d", expect_ok(run(["--version"])).out()), "--version")
    check("fabric_ring" in str(json.loads(expect_ok(run(["--list-drivers", "--json"])).out())),
          "--list-drivers")
    check("fabric_ring0" in expect_ok(run(RING + ["--list-devices"])).out(), "--list-devices")


main()
