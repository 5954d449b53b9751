#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""devtools/soak itself: test_soak.py BUILDDIR

A failure must be reported with its seed, and the command that soak prints must reproduce it.
"""

import os
import re
import shlex
import subprocess
import sys

SOAK = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../devtools/soak")


def soak(*args):
    return subprocess.run(
        [SOAK, "--builddir", sys.argv[1], *args], capture_output=True, text=True, timeout=300
    )


def nothing_fails():
    p = soak("--seed-from", "7", "--minutes", "0.0001", "--batch", "3")
    for wanted in (r"^seeds 7 to 9: 6 runs, 0 failed$", r"^go on with: --seed-from 10$"):
        if not re.search(wanted, p.stdout, re.M):
            return p
    return None if p.returncode == 0 and "3 seeds, 6 runs, 0 failed" in p.stderr else p


def a_failure_comes_again():
    """A test fails if the fault device makes its ops fail (error=) and it expects no failures."""
    args = ("--faults", "error=0.02", "--filter", "ops.fetch_add", "--batch", "4")
    p = soak("--seed-from", "100", "--minutes", "1", *args)
    found = re.search(r"^FAILED: ops\.fetch_add, seed (10\d)$", p.stdout, re.M)
    again = re.search(r"^  again: (.*--seed (\d+) --seeds 1 .*)$", p.stdout, re.M)
    if p.returncode != 1 or not found or not again or found.group(1) != again.group(2):
        return p
    p = subprocess.run(shlex.split(again.group(1)), capture_output=True, text=True, timeout=300)
    return None if p.returncode == 1 and "not ok 1 ops.fetch_add" in p.stdout else p


def what_is_no_test():
    p = soak("--minutes", "1", "--filter", "nothing.*")
    return None if p.returncode == 2 and "no test fits" in p.stderr else p


def main():
    bad = 0
    tests = (nothing_fails, a_failure_comes_again, what_is_no_test)
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        wrong = test()
        bad += wrong is not None
        print(f"{'ok' if wrong is None else 'not ok'} {number} - {test.__name__.replace('_', ' ')}")
        if wrong is not None:
            text = f"exit code {wrong.returncode}\n" + wrong.stdout + wrong.stderr
            for line in text.splitlines():
                print("# " + line)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
