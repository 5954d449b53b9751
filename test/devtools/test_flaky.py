# SPDX-License-Identifier: BSD-3-Clause
"""devtools/flaky itself: test_flaky.py DEVTOOLS_FLAKY

Over a build directory that is made up, with tests whose results are known.
"""

import json
import os
import subprocess
import sys
import tempfile

from tap import main

FLAKY = sys.argv[1]
# Fails in every second run: if the file $0 exists, which the run before has made.
SECOND = 'f=$0; if [ -e "$f" ]; then rm "$f"; exit 1; fi; : >"$f"'
# Hangs. Its child holds the output open, and would live on if only the test itself was killed.
HANGS = "sleep 1000 & echo $! >$0; wait"


def flaky(tests, *args):
    """Run the tool; return its result, its rows by name, and the directory it ran in."""
    with tempfile.TemporaryDirectory() as build:
        os.mkdir(os.path.join(build, "meson-info"))
        described = [
            {
                "name": name,
                "cmd": [word.replace("@DIR@", build) for word in cmd],
                "env": {"LEAT_TEST_WORD": "here"},
                "timeout": 20,
                "suite": ["leat:" + suite],
                "workdir": None,
                "protocol": protocol,
            }
            for name, cmd, suite, protocol in tests
        ]
        with open(os.path.join(build, "meson-info/intro-tests.json"), "w", encoding="utf-8") as f:
            json.dump(described, f)
        p = subprocess.run(
            [FLAKY, "--builddir", build, "--load", "0", "--json", "-", *args],
            capture_output=True,
            text=True,
            timeout=100,
        )
        rows = {row["test"]: row for row in json.loads(p.stdout)} if p.stdout else {}
        logs = os.path.join(build, "meson-logs/flaky")
        kept = sorted(os.listdir(logs)) if os.path.isdir(logs) else []
        files = {}
        for name in os.listdir(build):
            path = os.path.join(build, name)
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as f:
                    files[name] = f.read()
        return p, rows, kept, files


def sh(script, *args):
    return ["/bin/sh", "-c", script, *args]


def results_are_counted():
    p, rows, kept, _ = flaky(
        [
            ("good", sh('[ "$LEAT_TEST_WORD" = here ]'), "unit", "exitcode"),
            ("bad", sh("exit 3"), "unit", "exitcode"),
            ("second", sh(SECOND, "@DIR@/second"), "unit", "exitcode"),
            ("skipped", sh("exit 77"), "unit", "exitcode"),
            ("tap-good", sh("echo 1..1; echo 'not ok 1 - x # TO" "DO later'"), "unit", "tap"),
            ("tap-bad", sh("echo 1..1; echo not ok 1 - x"), "unit", "tap"),
            ("soaks", sh("exit 1"), "soak", "exitcode"),
        ],
        "4",
        "--stops",
        "0",
        "--jobs",
        "1",
    )
    assert p.returncode == 1, p.stderr
    assert "soaks" not in rows, "a test of the suite soak was run without being named"
    for name, column, count in (
        ("good", "ok", 4),
        ("bad", "fail", 4),
        ("second", "ok", 2),
        ("second", "fail", 2),
        ("skipped", "skip", 4),
        ("tap-good", "ok", 4),
        ("tap-bad", "fail", 4),
    ):
        assert rows[name][column] == count, f"{name}: {rows[name]}"
    assert len(kept) == 10, f"logs of 10 runs that failed: {kept}"


def one_that_hangs_is_ended_with_its_children():
    p, rows, _, files = flaky(
        [("hangs", sh(HANGS, "@DIR@/pid"), "unit", "exitcode")], "1", "--patience", "0.05"
    )
    assert p.returncode == 1 and rows["hangs"]["timeout"] == 1, p.stderr
    pid = int(files["pid"])
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            assert stat.read().rpartition(")")[2].split()[0] == "Z", f"process {pid} lives"
    except FileNotFoundError:
        pass


def what_is_stopped_goes_on():
    loop = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"
    p, rows, _, _ = flaky(
        [("works", sh(loop), "unit", "exitcode")], "2", "--stops", "50", "--stop-ms", "20"
    )
    assert p.returncode == 0 and rows["works"]["ok"] == 2, p.stderr
    assert rows["works"]["stops"] > 0, "nothing was stopped"


def an_unknown_test_is_an_error():
    p, _, _, _ = flaky([("good", sh("exit 0"), "unit", "exitcode")], "1", "nothing-*")
    assert p.returncode == 2 and "no such test: nothing-*" in p.stderr, p.stderr


main(
    [
        results_are_counted,
        one_that_hangs_is_ended_with_its_children,
        what_is_stopped_goes_on,
        an_unknown_test_is_an_error,
    ]
)
