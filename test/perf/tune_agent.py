#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The agent of bench_tune.c: on request it reads a process as often as possible.

tune_agent.py DIRECTORY; it reads lines on stdin: "off", or the seconds between updates and, for
endpoints, the number of ops of which one is timed. It answers each line with "ok".
"""

import sys
import threading

import leat_tune


def read_on(process, session, interval, stop):
    """Read all rows ten times a second, like leat-top and an exporter; update at interval."""
    session.watch(interval, rows=True)
    while not stop.wait(0.1):
        process.snapshot()


def main() -> None:
    stop, reader, opened = None, None, []
    for line in sys.stdin:
        if reader is not None:
            stop.set()
            reader.join()
            reader = None
            for what in reversed(opened):
                what.close()
        if line.strip() != "off":
            interval, sample = line.split()
            (process,) = leat_tune.processes(sys.argv[1])
            session = process.session("bench")
            opened = [process, session]
            session.refresh()
            for endpoint in process.snapshot(rows=False).find("endpoint.*"):
                session.set(endpoint, {"latency_sample": sample}, lease=leat_tune.SESSION)
            stop = threading.Event()
            reader = threading.Thread(target=read_on,
                                      args=(process, session, float(interval), stop))
            reader.start()
        print("ok", flush=True)


if __name__ == "__main__":
    main()
