#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes that a real mpirun starts: they meet over PMIx, one never comes, one dies.

On one node, and on two. Both nodes are this machine, with a server each.

test_mpirun.py NODE MPIRUN ("": there is none)
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

NODE, MPIRUN = sys.argv[1:3]
RANKS = 4
VICTIM = 2
OTHERS = [0, 1, 3]
DEADLINE = 120  # longest wait, seconds; only a program that hangs takes so long
# mpirun forwards SIGCONT, even to nodes that it has not reached yet, and fails then.
SIGNALS = ["--mca", "ess_base_forward_signals", "none"]
RECOVERY = ["--enable-recovery"]
# Takes the place of ssh: "nodes" of this machine, each with a server and a directory of its own.
AGENT = """#!/bin/sh
TMPDIR="$(dirname "$0")/$1"
export TMPDIR
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""
GONE = ("-104", "-110")  # ECONNRESET: mpirun has noticed the death; ETIMEDOUT: it has not


class Job:
    """A running mpirun; its output by rank, as {rank: [text]}."""

    all = []

    def __init__(self, *arguments, options=()):
        command = [MPIRUN, "--oversubscribe", "-n", str(RANKS)] + SIGNALS + list(options)
        if os.geteuid() == 0:
            command.insert(1, "--allow-run-as-root")
        self.lines = {rank: [] for rank in range(RANKS)}
        self.other = []
        self.cond = threading.Condition()
        self.p = subprocess.Popen(command + [NODE] + list(arguments), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        Job.all.append(self)
        self.readers = [threading.Thread(target=self.read, args=(s,), daemon=True)
                        for s in (self.p.stdout, self.p.stderr)]
        for reader in self.readers:
            reader.start()

    def read(self, stream):
        for line in stream:
            rank, _, text = line.rstrip("\n").partition(" ")
            with self.cond:
                if stream is self.p.stdout and rank.isdigit() and int(rank) < RANKS:
                    self.lines[int(rank)].append(text)
                else:
                    self.other.append(line.rstrip("\n"))
                self.cond.notify_all()

    def await_end_of(self, ranks):
        """Wait until these ranks have printed that they have ended."""
        with self.cond:
            done = self.cond.wait_for(
                lambda: all("end 0" in self.lines[r] for r in ranks) or not self.alive(), DEADLINE)
        assert done, f"not through: {self.describe()}"

    def alive(self):
        return any(reader.is_alive() for reader in self.readers)

    def end(self):
        """Wait for mpirun, and return its exit status."""
        try:
            status = self.p.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"mpirun does not end: {self.describe()}") from None
        for reader in self.readers:
            reader.join(DEADLINE)
        return status

    def stop(self):
        """Stop mpirun, which stops its processes, unless it has ended."""
        if self.p.poll() is not None:
            return
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()

    def of(self, rank, what):
        """Return a rank's result of this step: '0', or an errno and its text."""
        for text in self.lines[rank]:
            if text.startswith(what + " "):
                return text[len(what) + 1:]
        raise AssertionError(f"rank {rank} said nothing of {what}: {self.describe()}")

    def describe(self):
        return "\n".join(f"{r} {t}" for r, ts in self.lines.items() for t in ts) + "\n" + \
            "\n".join(self.other)


def check(cond, job):
    assert cond, job.describe()


def check_gone(job, what, allowed=GONE):
    """Check that all others name the victim, and no other rank."""
    for rank in OTHERS:
        said = job.of(rank, what)
        check(said.split(" ")[0] in allowed, job)
        check(f"missing is rank {VICTIM} of {RANKS}" in said, job)


def all_meet():
    job = Job("all")
    check(job.end() == 0, job)
    for rank in range(RANKS):
        check(any(t.startswith(f"pmix: rank {rank} of {RANKS} in ") for t in job.lines[rank]), job)
        for number in (1, 2, 3):
            check(job.of(rank, f"round-{number}") == "0", job)
        check(job.of(rank, "end") == "0", job)


def one_never_comes():
    """The victim opens no rendezvous; the others name it in time."""
    job = Job("early-never")
    job.await_end_of(OTHERS)
    check_gone(job, "round-2", ("-110",))
    check(job.p.poll() is None, job)
    job.stop()


def one_stops_coming():
    """The victim came to the first fence, and lives on without coming to another; the others go on
    without it, and name it at each fence."""
    job = Job("late-never")
    job.await_end_of(OTHERS)
    for rank in range(RANKS):
        check(job.of(rank, "round-1") == "0", job)
    check_gone(job, "round-2", ("-110",))
    check_gone(job, "round-3", ("-110",))
    job.stop()


def one_is_killed():
    """mpirun --enable-recovery does not stop the others, and neither does leat."""
    job = Job("late-killed", options=RECOVERY)
    job.await_end_of(OTHERS)
    check_gone(job, "round-2")
    check_gone(job, "round-3")
    job.end()


def one_is_killed_before_it_opens():
    job = Job("early-killed", options=RECOVERY)
    job.await_end_of(OTHERS)
    check_gone(job, "round-2")
    job.end()


def one_exits_before_it_opens():
    job = Job("early-exits", options=RECOVERY)
    job.await_end_of(OTHERS)
    check_gone(job, "round-2")
    job.end()


def one_is_killed_without_recovery():
    """Without --enable-recovery mpirun stops all ranks, as the guide says."""
    job = Job("late-killed")
    check(job.end() != 0, job)
    check(job.of(VICTIM, "round-1") == "0", job)
    check(not any("end 0" in lines for lines in job.lines.values()), job)


class Nodes:
    """Options with which mpirun starts ranks 0 and 1 on one node, and ranks 2 and 3 on another."""

    def __enter__(self):
        self.top = tempfile.TemporaryDirectory()
        agent = os.path.join(self.top.name, "agent")
        with open(agent, "w", encoding="utf-8") as script:
            script.write(AGENT)
        os.chmod(agent, 0o700)
        return ["--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1",
                "--host", "leat-a:2,leat-b:2"]

    def __exit__(self, *_):
        # The servers may be removing files there at the same time.
        shutil.rmtree(self.top.name, ignore_errors=True)


def all_meet_on_two_nodes():
    with Nodes() as nodes:
        job = Job("all", options=nodes)
        check(job.end() == 0, job)
        for rank in range(RANKS):
            for number in (1, 2, 3):
                check(job.of(rank, f"round-{number}") == "0", job)


def one_of_two_nodes_stops_coming():
    """The other rank of the victim's node, whose record PMIx's fence has not brought, is not named
    as missing."""
    with Nodes() as nodes:
        job = Job("late-never", options=nodes)
        job.await_end_of(OTHERS)
        check_gone(job, "round-2", ("-110",))
        check_gone(job, "round-3", ("-110",))
        job.stop()


def one_of_two_nodes_is_killed():
    with Nodes() as nodes:
        job = Job("late-killed", options=nodes + RECOVERY)
        job.await_end_of(OTHERS)
        check_gone(job, "round-2")
        check_gone(job, "round-3")
        # Open MPI 4.1 does not end by itself in this case.
        job.stop()


def by_file():
    """Processes of mpirun that meet by files: the ranks are mpirun's."""
    with tempfile.TemporaryDirectory() as top:
        job = Job("all", os.path.join(top, "meet"))
        check(job.end() == 0, job)
        for rank in range(RANKS):
            check(any(t.startswith(f"file: rank {rank} of {RANKS} in {top}/meet, job leat "
                                   "(a directory was given, rank by mpirun (Open MPI))")
                      for t in job.lines[rank]), job)
            check(job.of(rank, "round-3") == "0", job)
        check(os.listdir(os.path.join(top, "meet")) == [], job)


def main():
    if not MPIRUN:
        print("1..0 # SKIP there is no mpirun (openmpi-bin)")
        return 0
    version = subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, check=False).stdout
    if "Open MPI" not in version:
        print("1..0 # SKIP mpirun is not Open MPI's")
        return 0
    tests = [all_meet, one_never_comes, one_stops_coming, one_is_killed,
             one_is_killed_before_it_opens, one_exits_before_it_opens,
             one_is_killed_without_recovery, all_meet_on_two_nodes,
             one_of_two_nodes_stops_coming, one_of_two_nodes_is_killed, by_file]
    results = [None] * len(tests)

    def run(number):
        try:
            tests[number]()
        except Exception:  # a test's own mistake fails it, too
            results[number] = traceback.format_exc()

    # Run the tests at the same time: they mostly wait.
    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(tests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Stop the jobs of tests that failed.
    for job in Job.all:
        job.stop()
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        name = test.__name__.replace("_", " ")
        result = results[number - 1]
        print(f"{'ok' if result is None else 'not ok'} {number} - {name}")
        for line in (result or "").splitlines():
            print("# " + line)
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main())
