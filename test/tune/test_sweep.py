#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare leat-tune agent with an exhaustive sweep of leat-perf's window and burst: within 10 %.

test_sweep.py LEAT-PERF LEAT-TUNE ring|tcp [RUNS [TRIAL-SECONDS]]

The agent may say that it can't tell if a trial's noise is above those 10 %. The sweep comes after
the agent. If the speed of the machine jumps meanwhile (the rate of the start settings does), the
run says nothing and is repeated. So is a run in which the agent reports such a jump.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import leat_tune

ANSWER = 60.0
DEVICES = {"ring": "fabric_ring0", "tcp": "fabric_ofi0,provider=tcp"}
SIZES = {"ring": "8", "tcp": "64"}
START = {"window": 4, "burst": 1}
WINDOWS, BURSTS = (1, 4, 16, 64, 256), (1, 4, 16, 64)
NEAR = 0.1  # of the best rate
JUMP = 0.2  # of the start's rate, beyond noise
SKIPPED = 77
NOT_TOLD = 3  # exit status of the agent


@contextlib.contextmanager
def perf(path: str, device: str, directory: str):
    plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
    argv = [path, *plugins, "--no-pci", f"--tune-dir={directory}", f"--vdev={DEVICES[device]}",
            "--",
            "--self", "--test", "rate", "--size", SIZES[device], "-D", "3600", "--idle", "yield"]
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
        try:
            end = time.monotonic() + ANSWER
            while not (found := leat_tune.processes(directory)):
                assert p.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            with found[0] as process, process.session("sweep") as session:
                session.watch(0.02)
                while not any(o.report.get("running")
                              for o in process.snapshot(rows=False).find("perf.client")):
                    assert p.poll() is None and time.monotonic() < end
                    time.sleep(0.02)
                yield process, session
        finally:
            p.send_signal(signal.SIGINT)
            p.wait()


def rate(process, session, values: dict, seconds: float) -> float:
    """Messages per second with these settings."""
    session.set("perf.client", values)
    time.sleep(seconds / 4)
    (a,) = process.snapshot(rows=False).find("perf.client")
    time.sleep(seconds)
    (b,) = process.snapshot(rows=False).find("perf.client")
    return (b.report["messages"] - a.report["messages"]) / ((b.time_ns - a.time_ns) / 1e9)


class Changed(Exception):
    """The speed of the machine has jumped."""


def sweep(process, session, seconds: float) -> dict:
    """Return the best settings, and the rates of all."""
    configs = [{"window": w, "burst": b} for w, b in itertools.product(WINDOWS, BURSTS) if b <= w]
    found: dict[tuple, list[float]] = {}
    for values in configs * 3:
        found.setdefault(tuple(values.items()), []).append(rate(process, session, values, seconds))
    medians = {c: statistics.median(rates) for c, rates in found.items()}
    for window in WINDOWS:
        of_window = {dict(c)["burst"]: m for c, m in medians.items() if dict(c)["window"] == window}
        row = ", ".join(f"{burst}: {m:.3g}" for burst, m in of_window.items())
        print(f"# window {window}: messages per second by burst {row}")
    return dict(max(medians, key=lambda c: medians[c]))


def run(path: str, tune: str, device: str, directory: str, seconds: float) -> str:
    with perf(path, device, directory) as (process, session):
        starts = []

        def start() -> None:
            starts.append(statistics.median(rate(process, session, START, seconds)
                                            for _ in range(3)))

        def steady(rates: list[float]) -> None:
            if max(rates) > (1 + JUMP) * min(rates):
                raise Changed(f"{device}: messages per second of the start {rates}")

        start()
        done = subprocess.run(
            [tune, "agent", "--tune-dir", directory, "--goal", "max messages_per_second",
             "--object", "perf.client",
             "--set", "window=1:256,burst=1:64", "--trial-seconds", str(seconds), "--json",
             "--quiet"],
            text=True, capture_output=True, check=False,
        )
        assert done.returncode in (0, NOT_TOLD), done
        report = json.loads(done.stdout)
        start()
        if report["verdict"] == "moved":
            raise Changed(f"{device}: as the agent says, {report['jumps']}")
        steady([report["start_value"], starts[-1]])
        best = sweep(process, session, seconds)
        start()
        steady(starts[1:])
        if done.returncode == NOT_TOLD:
            assert report["noise"] > NEAR, f"{device}: best {best}, none found: {report}"
            return f"{device}: best of the sweep {best}, can't tell: noise {report['noise']:.2f}"
        chosen = {name.rsplit(".", 1)[-1]: value for name, value in report["best"].items()}
        # In turns, so that slow changes of the machine affect both alike.
        pairs = [(rate(process, session, chosen, seconds), rate(process, session, best, seconds))
                 for _ in range(9)]
        start()
        steady(starts[1:])
        share = statistics.median(a / b for a, b in pairs)
        text = (f"{device}: best of the sweep {best}, found {chosen}, {share:.2f} of its rate, "
                f"noise {report['noise']:.3f}, {report['trials']} trials")
        assert share >= 1 - NEAR, text
        return text


def main() -> None:
    path, tune, device = sys.argv[1:4]
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    seconds = float(sys.argv[5]) if len(sys.argv) > 5 else 0.5
    with tempfile.TemporaryDirectory(prefix="leat-sweep-") as base:
        directory = os.path.join(base, "tune")
        os.mkdir(directory, 0o700)
        done = changed = 0
        while done < runs:
            try:
                print(run(path, tune, device, directory, seconds), flush=True)
                done += 1
            except Changed as e:
                print(f"# again: the speed has jumped: {e}", flush=True)
                changed += 1
                if changed > 2 * runs:
                    print(f"the speed jumps all the time: {done} of {runs} runs")
                    sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
