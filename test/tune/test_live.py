#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a running leat-perf: when they take effect, what is refused, and that no op is lost.

test_live.py LEAT-PERF LEAT-TUNE LEAT-TOP [CHANGES]
    With CHANGES, also compare the throughput while CHANGES changes are made with that of a
    run without changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import leat_tune
from leat_tune.agent import _stats

CPUS = sorted(os.sched_getaffinity(0))
PHASE, PHASES = 1.0, 30  # seconds; pairs of phases
LOSS = 0.01  # of the throughput while settings change, at most
OTHERS = 0.1  # CPUs' worth of load by other processes at most
SKIPPED = 77
ANSWER = 30.0  # seconds in which a loaded machine does what usually takes milliseconds


def program(argv: list[str], **options) -> subprocess.Popen:
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **options)


@contextlib.contextmanager
def perf(path: str, directory: str, *arguments: str):
    """Start leat-perf over the ring, sending and checking until interrupted; yield it and a
    session."""
    plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
    # Without a log line for each change: the pipe is not read meanwhile.
    argv = [path, *plugins, "--no-pci", "--log-level=leat.tune:error", f"--tune-dir={directory}",
            "--vdev=fabric_ring0", *arguments, "--",
            "--self", "--test", "rate", "--size", "8", "--check", "-D", "600", "--idle", "yield",
            "--json"]
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    p = program(argv, env=env)
    try:
        end = time.monotonic() + ANSWER
        while not (found := leat_tune.processes(directory)):
            assert p.poll() is None, p.communicate()
            assert time.monotonic() < end, "leat-perf does not show"
            time.sleep(0.01)
        with found[0] as process, process.session("test") as session:
            session.watch(0.01)
            while not any(o.report.get("running") for o in process.snapshot().find("perf.client")):
                assert p.poll() is None, p.communicate()
                assert time.monotonic() < end, "leat-perf does not run"
                time.sleep(0.01)
            yield p, process, session
    finally:
        p.kill()
        p.wait()


def finish(p: subprocess.Popen) -> dict:
    """End leat-perf in order, and return its results."""
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=ANSWER)
    assert p.returncode == 130, (p.returncode, err)
    return json.loads(out)


def refused(session, where, values, number, *words) -> None:
    try:
        session.set(where, values)
    except leat_tune.Refused as e:
        text = str(e)
        assert e.errno == number, (e.errno, text)
        assert all(word in text for word in words), text
    else:
        raise AssertionError(f"{where}: {values} was taken")


def takes_effect_at_once(process, session, tune: str, top: str, directory: str) -> None:
    waits = []
    for window in (8, 16, 32, 64) * 5:
        begin = time.monotonic()
        answer = session.set("perf.client", {"window": window})
        waits.append(time.monotonic() - begin)
        assert answer.effective == {"window": window}, answer
        (client,) = process.snapshot().find("perf.client")
        assert client.settings["window"] == window and client.epoch == answer.epoch
    print(f"# effective after {1e3 * statistics.median(waits):.2f} ms in the median")
    assert statistics.median(waits) < 0.010, waits
    # leat-tune sets a value, and leat-top shows it.
    done = subprocess.run([tune, "set", "--tune-dir", directory, "perf.client.window=24"],
                          text=True, capture_output=True, timeout=ANSWER)
    assert done.returncode == 0, done
    done = subprocess.run([top, "--tune-dir", directory, "--json", "-n", "1"],
                          text=True, capture_output=True, timeout=ANSWER)
    assert done.returncode == 0, done
    text = json.dumps(json.loads(done.stdout))
    assert '"window": 24' in text, text


def says_why_not(session, tune: str, directory: str) -> None:
    # A window larger than the number of buffers: the answer has the effective value.
    assert session.set("perf.client", {"window": 65536}).effective == {"window": 256}
    refused(session, "perf.server", {"window": 8}, 95, "connecting side")
    refused(session, "endpoint.client", {"tx_depth": 64}, 1, "start")
    refused(session, "perf.client", {"window": 0}, 34, "1 to 65536")
    refused(session, "reactor.lcore0", {"sleep_min_us": 5}, 22, "sleep_max_us")
    for words, part in ((["perf.client.window=many"], "window"),
                        (["perf.client.windw=8"], "window"),
                        (["prf.client.window=8"], "perf"),
                        (["endpoint.client.latency_sample=-1"], "off")):
        done = subprocess.run([tune, "set", "--tune-dir", directory, *words],
                              text=True, capture_output=True, timeout=ANSWER)
        assert done.returncode != 0 and part in done.stderr, done


def measures_latency(process, session) -> None:
    """Latencies of sends and receives, while sampling is on."""
    session.set("endpoint.client", {"latency_sample": 16}, lease=leat_tune.SESSION)
    session.watch(0.01)
    end = time.monotonic() + ANSWER
    while True:
        (endpoint,) = process.snapshot().find("endpoint.client")
        if endpoint.report["latency_send"].count > 100:
            break
        assert time.monotonic() < end, endpoint.report
        time.sleep(0.02)
    assert 0 < endpoint.report["latency_send"].percentile(50) < 1e10
    session.release("endpoint.client")


def many_changes(session) -> None:
    for i in range(1000):
        session.set("perf.client", {"window": 1 + i % 256})


def helper_threads_leave_the_loop_alone(p: subprocess.Popen) -> None:
    """The control thread runs on a CPU without an lcore, if there is one."""
    tasks = f"/proc/{p.pid}/task"
    found = []
    for tid in os.listdir(tasks):
        with open(f"{tasks}/{tid}/comm", encoding="ascii") as f:
            if f.read().strip() == "leat-tune":
                found.append(os.sched_getaffinity(int(tid)))
    assert len(found) == 1 and (len(CPUS) == 1 or CPUS[0] not in found[0]), found


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Return the seconds of all CPUs, and those of a process and this one."""
    tick = os.sysconf("SC_CLK_TCK")
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(n) for n in f.readline().split()[1:9]]
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        own = sum(int(n) for n in f.read().rpartition(")")[2].split()[11:13])
    # All time except idle and waiting for disks; including time that a hypervisor took.
    return (sum(fields) - fields[3] - fields[4]) / tick, own / tick + time.process_time()


def throughput(path: str, directory: str, changes: int) -> bool:
    """Compare messages per second with and without changes of settings. False: can't tell."""
    # The loop has a CPU of its own; the control thread and the agent share another one.
    with perf(path, directory, "--lcores", f"0@{CPUS[0]}") as (p, process, session):
        os.sched_setaffinity(0, CPUS[1:] or CPUS)

        def messages() -> tuple[int, int]:
            (client,) = process.snapshot(rows=False).find("perf.client")
            assert client.settings["window"] == 256, client.settings
            return client.report["messages"], client.time_ns

        def phase(work) -> float:
            count, begin = messages()
            end = time.monotonic() + PHASE
            while (left := end - time.monotonic()) > 0:
                work(left)
            after, now = messages()
            return (after - count) * 1e9 / (now - begin)

        made = 0

        def change(_left: float) -> None:
            nonlocal made
            # The loop applies each change; the buffers of the run limit it, so the throughput is
            # the same.
            answer = session.set("perf.client", {"window": 300 + made % 256})
            assert answer.effective == {"window": 256}, answer
            made += 1

        session.set("perf.client", {"window": 256})
        quiet, busy = [], []
        (all_before, own_before), begin = cpu_seconds(p.pid), time.monotonic()
        for _ in range(PHASES):
            quiet.append(phase(time.sleep))
            busy.append(phase(change))
        compared = made
        (all_after, own_after), end = cpu_seconds(p.pid), time.monotonic()
        others = (all_after - all_before - own_after + own_before) / (end - begin)
        while made < changes:
            change(0.0)
        os.sched_setaffinity(0, CPUS)
        (row,) = finish(p)["results"]
        assert row["errors"] == 0 and row["iterations"] > 0, row
    share = statistics.median(busy) / statistics.median(quiet)
    spread = _stats.noise(quiet) / statistics.median(quiet)
    print(f"# {made} changes, {compared} of them in {PHASES} phases: {share:.4f} of the throughput "
          f"without ({statistics.median(quiet):.4g} messages/s, noise {100 * spread:.2f} %)",
          flush=True)
    if others > OTHERS:
        print(f"# can't tell: other processes use {others:.2f} CPUs")
        return False
    if spread > LOSS:
        print(f"# noise hides a loss of {100 * LOSS:g} %: its {100 * spread:.2f} % are the limit")
    assert share >= 1 - max(LOSS, spread), (share, quiet, busy)
    return True


def main() -> None:
    path, tune, top = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="leat-live-") as base:
        directory = os.path.join(base, "tune")
        os.mkdir(directory, 0o700)
        with perf(path, directory) as (p, process, session):
            takes_effect_at_once(process, session, tune, top, directory)
            says_why_not(session, tune, directory)
            measures_latency(process, session)
            many_changes(session)
            result = finish(p)
            (row,) = result["results"]
            # The other side checked each message, and both sides counted it.
            assert row["errors"] == 0 and row["iterations"] > 0, row
        assert os.listdir(directory) == [], os.listdir(directory)
        told = len(sys.argv) <= 4 or throughput(path, directory, int(sys.argv[4]))
        # A settings file, from the start; with an invalid line nothing of it applies.
        conf = os.path.join(base, "site.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("perf.client.window = 40\nendpoint.client.tx_depth = 512\n")
        lcores = ("--lcores", f"0@{CPUS[0]}")
        with perf(path, directory, f"--settings={conf}", *lcores) as (p, process, session):
            helper_threads_leave_the_loop_alone(p)
            snapshot = process.snapshot()
            assert snapshot.find("perf.client")[0].settings["window"] == 40
            assert snapshot.find("endpoint.client")[0].settings["tx_depth"] == 512
            finish(p)
        with open(conf, "a", encoding="utf-8") as f:
            f.write("perf.client.windw = 40\n")
        plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
        done = subprocess.run([path, *plugins, "--no-pci", "--vdev=fabric_ring0",
                               f"--settings={conf}", "--", "--self"],
                              text=True, capture_output=True, timeout=ANSWER)
        assert (done.returncode == 2 and f"{conf}:3:" in done.stderr and
                "window" in done.stderr), done
    if not told:
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
