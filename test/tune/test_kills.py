#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Agents are killed at any moment, and so are processes: leased settings go back, nothing is left.

test_kills.py TUNE-PROCESS LEAT-TOP LEAT-TUNE [KILLS]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import leat_tune

PROCESSES = 3
AGENTS = 6
DEFAULTS = {"batch": 32, "high": 100}  # of settings of workers that agents change
ANSWER = 20.0  # seconds in which a loaded machine does what usually takes milliseconds


def agent(directory: str, seed: int) -> None:
    """Read, watch and borrow settings until killed."""
    rng = random.Random(seed)
    while True:
        try:
            for process in leat_tune.processes(directory):
                with process, process.session(f"agent{seed}") as session:
                    session.watch(0.002, rows=True)
                    for _ in range(rng.randrange(1, 20)):
                        workers = process.snapshot().find("worker.*")
                        if not workers:
                            break
                        session.set(
                            rng.choice(workers),
                            {"batch": 8 * rng.randrange(1, 100)},
                            lease=rng.choice((0.001, 0.05, 60.0, leat_tune.SESSION)),
                        )
        except leat_tune.TuneError:
            # The process was killed, or another agent holds the setting.
            continue


class Life:
    """Processes and agents; those that were killed are replaced."""

    def __init__(self, programs: list[str], directory: str, rng: random.Random) -> None:
        (self.program, self.top, self.tune), self.directory, self.rng = programs, directory, rng
        self.why: set[str] = set()  # why settings changed
        self.processes = [self.process() for _ in range(PROCESSES)]
        self.agents = [self.agent() for _ in range(AGENTS)]

    def process(self) -> subprocess.Popen:
        # The process finds the libraries of its own build, which may have a sanitizer.
        env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        p = subprocess.Popen(
            [self.program, "--tune-dir", self.directory, "--rows", "7", "--churn"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
        )
        assert p.stdout.readline() == "ready\n"
        return p

    def agent(self) -> subprocess.Popen:
        """Start an agent that changes settings, one of leat's that reads, or one that searches."""
        seed = str(self.rng.randrange(1 << 30))
        pid = str(self.rng.choice(self.processes).pid)
        argv = self.rng.choice([
            [sys.executable, __file__, "--agent", self.directory, seed],
            [sys.executable, __file__, "--agent", self.directory, seed],
            [self.top, "--json", "--interval", "0.1", "--tune-dir", self.directory],
            [self.tune, "export", "--listen", "127.0.0.1:0", "--rows", "--tune-dir",
             self.directory],
            [self.tune, "agent", "--pid", pid, "--goal", "max worker.w0.calls_per_second",
             "--set", "worker.w0.high=101:1000", "--trials", "5000", "--trial-seconds", "0.05",
             "--seed", seed, "--tune-dir", self.directory],
        ])
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_one(self) -> None:
        if self.rng.random() < 0.75:
            i = self.rng.randrange(AGENTS)
            self.end(self.agents[i])
            self.agents[i] = self.agent()
        else:
            i = self.rng.randrange(PROCESSES)
            self.end(self.processes[i])
            self.processes[i] = self.process()

    @staticmethod
    def end(p: subprocess.Popen) -> None:
        p.kill()
        p.wait()
        if p.stdout is not None:
            p.stdout.close()

    def progress(self) -> None:
        """Wait until a value has moved: kills should come in the middle of work."""
        end = time.monotonic() + ANSWER
        before = self.changes()
        while self.changes() == before and time.monotonic() < end:
            os.sched_yield()

    def changes(self) -> int:
        total = 0
        for process in leat_tune.processes(self.directory):
            with process:
                try:
                    snapshot = process.snapshot(rows=False)
                    total += sum(o.epoch for o in snapshot.objects)
                    self.why |= {change.why for change in snapshot.changes}
                except leat_tune.TuneError:
                    continue
        return total


def all_back(directory: str) -> None:
    """Check that no lease is left, and that each setting has its default."""
    end = time.monotonic() + ANSWER
    while True:
        wrong = []
        processes = leat_tune.processes(directory)
        assert len(processes) == PROCESSES, processes
        for process in processes:
            with process:
                snapshot = process.snapshot(rows=False)
                wrong += [f"lease of {lease.who}" for lease in snapshot.leases]
                wrong += [
                    f"{o.path}.{name}={o.settings[name]}"
                    for o in snapshot.find("worker.w*")
                    for name, default in DEFAULTS.items() if o.settings[name] != default
                ]
        if not wrong:
            return
        assert time.monotonic() < end, wrong
        time.sleep(0.02)


def main() -> None:
    if sys.argv[1] == "--agent":
        agent(sys.argv[2], int(sys.argv[3]))
    kills = int(sys.argv[4]) if len(sys.argv) > 4 else 60
    seed = random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="leat-kills-") as top:
        directory = os.path.join(top, "tune")
        life = Life(sys.argv[1:4], directory, rng)
        try:
            for i in range(kills):
                if i % 4 == 0:
                    life.progress()
                life.kill_one()
            for p in life.agents:
                life.end(p)
            all_back(directory)
            life.changes()
            assert {"set, lease", "lease over", "session over"} <= life.why, life.why
            leat_tune.sweep(directory)
            assert len(os.listdir(directory)) == 2 * PROCESSES, os.listdir(directory)
            for p in life.processes:
                p.send_signal(signal.SIGTERM)
            for p in life.processes:
                assert p.wait(ANSWER) == 0
            assert os.listdir(directory) == [], os.listdir(directory)
        finally:
            for p in life.agents + life.processes:
                life.end(p)
    print(f"{kills} kills")


if __name__ == "__main__":
    main()
