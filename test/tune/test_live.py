#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a leat-perf that is at work: when they take effect, what is refused, and that no op is lost.

test_live.py LEAT-PERF LEAT-TUNE LEAT-TOP [CHANGES]
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

ANSWER = 30.0  # seconds in which a loaded machine does what takes it milliseconds


def program(argv: list[str], **options) -> subprocess.Popen:
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


@contextlib.contextmanager
def perf(path: str, directory: str, *arguments: str):
    """leat-perf over the ring, which sends and checks until it is interrupted. The process, and its own session."""
    plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
    argv = [path, *plugins, "--no-pci", f"--tune-dir={directory}", "--vdev=fabric_ring0", *arguments, "--",
            "--self", "--test", "rate", "--size", "8", "--check", "-D", "600", "--idle", "yield", "--json"]
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
    """Ends it in order. What it measured."""
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
    # The programs see the same.
    done = subprocess.run([tune, "set", "--tune-dir", directory, "perf.client.window=24"],
                          text=True, capture_output=True, timeout=ANSWER)
    assert done.returncode == 0, done
    done = subprocess.run([top, "--tune-dir", directory, "--json", "-n", "1"],
                          text=True, capture_output=True, timeout=ANSWER)
    assert done.returncode == 0, done
    text = json.dumps(json.loads(done.stdout))
    assert '"window": 24' in text, text


def says_why_not(session, tune: str, directory: str) -> None:
    # What was asked for is more than there are buffers: the effective value is told.
    assert session.set("perf.client", {"window": 65536}).effective == {"window": 256}
    refused(session, "perf.server", {"window": 8}, 95, "connecting side")
    refused(session, "endpoint.client", {"tx_depth": 64}, 1, "start")
    refused(session, "perf.client", {"window": 0}, 34, "1 to 65536")
    refused(session, "reactor.lcore0", {"sleep_min_us": 5}, 22, "sleep_max_us")
    for words, part in ((["perf.client.window=many"], "window"), (["perf.client.windw=8"], "window"),
                        (["prf.client.window=8"], "perf"), (["endpoint.client.latency_sample=-1"], "off")):
        done = subprocess.run([tune, "set", "--tune-dir", directory, *words],
                              text=True, capture_output=True, timeout=ANSWER)
        assert done.returncode != 0 and part in done.stderr, done


def measures_latency(process, session) -> None:
    """Of sends and receives, while it is asked for."""
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


def many_changes(session, changes: int) -> None:
    for i in range(changes):
        session.set("perf.client", {"window": 1 + i % 256})
    print(f"# {changes} changes")


def main() -> None:
    path, tune, top = sys.argv[1:4]
    changes = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    with tempfile.TemporaryDirectory(prefix="leat-live-") as base:
        directory = os.path.join(base, "tune")
        os.mkdir(directory, 0o700)
        with perf(path, directory) as (p, process, session):
            takes_effect_at_once(process, session, tune, top, directory)
            says_why_not(session, tune, directory)
            measures_latency(process, session)
            many_changes(session, changes)
            result = finish(p)
            (row,) = result["results"]
            # Each message was checked by the other side, and counted by both.
            assert row["errors"] == 0 and row["iterations"] > 0, row
        assert os.listdir(directory) == [], os.listdir(directory)
        # A settings file, from the start; and none of it with a wrong line.
        conf = os.path.join(base, "site.conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("perf.client.window = 40\nendpoint.client.tx_depth = 512\n")
        with perf(path, directory, f"--settings={conf}") as (p, process, session):
            snapshot = process.snapshot()
            assert snapshot.find("perf.client")[0].settings["window"] == 40
            assert snapshot.find("endpoint.client")[0].settings["tx_depth"] == 512
            finish(p)
        with open(conf, "a", encoding="utf-8") as f:
            f.write("perf.client.windw = 40\n")
        plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
        done = subprocess.run([path, *plugins, "--no-pci", "--vdev=fabric_ring0", f"--settings={conf}", "--", "--self"],
                              text=True, capture_output=True, timeout=ANSWER)
        assert done.returncode == 2 and f"{conf}:3:" in done.stderr and "window" in done.stderr, done


if __name__ == "__main__":
    main()
