#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plain mode with a program that has no code of leat: test_foreign.py PEER LEAT EAL-ARGUMENT...

Leat connects, and leat listens; lengths are received in both ways: of the next id, and of any.
"""

import subprocess
import sys

MESSAGES = "220"
TIMEOUT = 30


def commands(peer, leat, eal, how):
    here = [leat, *eal, "--vdev=fabric_ofi0,provider=tcp,tags=1,src=127.0.0.1", "--"]
    return (lambda role, addr: [*here, role, addr, MESSAGES, *how]), (
        lambda role, addr: [peer, role, addr, MESSAGES, *how]
    )


def run(listener, connector):
    """Run both. The listener prints its address in a line that begins with "listening"."""
    first = subprocess.Popen(listener("listen", "127.0.0.1:0"), stdout=subprocess.PIPE, text=True)
    second = None
    try:
        for line in first.stdout:
            if line.startswith("listening "):
                addr = line.split()[1]
                second = subprocess.Popen(connector("connect", addr), stdout=subprocess.DEVNULL)
                break
        if second is None:
            return f"the listener ended: {first.wait(TIMEOUT)}"
        codes = second.wait(TIMEOUT), first.wait(TIMEOUT)
        return "" if codes == (0, 0) else f"connector {codes[0]}, listener {codes[1]}"
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def main():
    tests = []
    for how in [], ["any-id"]:
        leat, peer = commands(*sys.argv[1:3], sys.argv[3:], how)
        about = ", lengths of any id" if how else ""
        tests += [
            ("the foreign program listens" + about, peer, leat),
            ("leat listens" + about, leat, peer),
        ]
    bad = 0
    print(f"1..{len(tests)}")
    for number, (what, one, other) in enumerate(tests, 1):
        why = run(one, other)
        bad += why != ""
        result = "not ok" if why else "ok"
        print(f"{result} {number} - {what}{' # ' + why if why else ''}", flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
