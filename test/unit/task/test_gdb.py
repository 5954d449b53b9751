#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""gdb shows the tasks of a program and the backtrace of a suspended one.

test_gdb.py GDB SCRIPT PROGRAM"""

import os
import re
import subprocess
import sys
import tempfile

# The exit code of skipped tests, as with automake.
SKIPPED = 77


def without_debug_information(gdb, script, program):
    """Check the script's errors: the library is stripped; the library is not loaded."""
    with tempfile.TemporaryDirectory() as scratch:
        library = re.search(r"libleat\.so\S* => (\S+)", subprocess.run(
            ["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout).group(1)
        subprocess.run(["strip", "--strip-debug", library, "-o",
                        os.path.join(scratch, os.path.basename(library))], check=True)
        for commands, want in (
                ([f"set environment LD_LIBRARY_PATH {scratch}:{os.path.dirname(library)}",
                  "break main", "run", "leat tasks"],
                 rf"^{scratch}/libleat\.so\S* has no debug information, "
                 r".*-Dbuildtype=debugoptimized"),
                (["leat bt 1"], r"^libleat is not loaded: ")):
            args = [x for c in commands for x in ("-ex", c)]
            out = subprocess.run(
                [gdb, "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex",
                 f"source {script}"]
                + args + [program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=120, check=False).stdout
            if not re.search(want, out, re.M):
                print(f"not found: {want}\nin:\n{out}")
                return False
    return True


def main():
    gdb, script, program = sys.argv[1:]
    run = subprocess.run(
        [gdb, "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", f"source {script}",
         "-ex", "break stop_here", "-ex", "run",
         "-ex", "leat tasks", "-ex", "leat bt 2", "-ex", "bt", "-ex", "leat bt 99",
         "-ex", "continue", "-ex", "leat tasks", "-ex", "continue", program],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    out = run.stdout
    if re.search(r"ptrace.*not permitted|Could not trace|Python scripting is not supported", out):
        print("skipped: gdb can't trace a program here, or has no Python")
        return SKIPPED
    for pattern in (
            r"^reactor0 1 WAITING the_task in sleep\nreactor0 2 WAITING sleepy in sleep$",
            # From the place of suspension to the task's function, in this order.
            r"^#0 .* at .*/lib/task/sched\.c:\d+(\n#.*)*\n#\d+ .* in "
            r"leat_task_sleep(_until)?\b.*(\n#.*)*\n"
            r"#\d+ .* in waits_in_here\b.*(\n#.*)*\n#\d+ .* in the_task\b.*(\n#.*)*\n"
            r"#\d+ .* in task_main\b.*\n#\d+ .* in task_begin\b",
            # The program's own backtrace is unchanged.
            r"^#0 .*stop_here \(ret=.*\n#1 .* main \(",
            r"^no task 99; see leat tasks$",
            # The program goes on undisturbed.
            r"^2$",
            r"exited normally"):
        if not re.search(pattern, out, re.M):
            print(f"not found: {pattern}\nin:\n{out}")
            return 1
    return 0 if without_debug_information(gdb, script, program) else 1


if __name__ == "__main__":
    sys.exit(main())
