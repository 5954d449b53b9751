# SPDX-License-Identifier: BSD-3-Clause
"""Functions as tests, reported as TAP: each raises AssertionError, or returns."""

import sys
import traceback


def main(tests):
    failed = 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {number} - {name}")
        except Exception:  # a test's own mistake fails it, too
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print("# " + line)
    sys.exit(failed != 0)
