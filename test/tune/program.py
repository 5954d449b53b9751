# SPDX-License-Identifier: BSD-3-Clause
"""Play a program whose speed depends on its settings: program.py DIR [--flat] [--noise N] [--more]

It prints its pid when it is ready, and ends with its standard input.
"""

import argparse
import math
import os
import random
import select
import sys
import time

from fake_process import FakeProcess
from leat_tune._histogram import BUCKETS, Histogram, bucket_of

INTERVAL = 0.005
DESCRIPTION = """
component = "bench"
title = "Benchmark"
help = "A benchmark."

[[setting]]
name = "batch"
type = "integer"
unit = "calls"
range = [1, 256]
special = { automatic = 0 }
default = 4
when = "now"
log = true
help = "Calls in a batch."

[[setting]]
name = "policy"
type = "enum"
values = ["spin", "yield"]
default = "yield"
when = "now"
help = "What it does between calls."

[[setting]]
name = "low"
type = "integer"
range = [1, 100]
default = 10
when = "now"
help = "Nothing depends on it."

[[setting]]
name = "high"
type = "integer"
range = [1, 100]
default = 50
when = "now"
help = "Nor on this."

[[setting]]
name = "room"
type = "integer"
range = [1, 100]
default = 50
when = "start"
help = "Fixed at the start."

[[group]]
name = "bounds"
settings = ["low", "high"]
rule = "low <= high"
help = "Set together."

[[report]]
name = "calls"
kind = "counter"
type = "integer"
unit = "calls"
help = "Calls that were answered."

[[report]]
name = "waiting"
kind = "gauge"
type = "integer"
help = "Calls that wait."

[[report]]
name = "latency"
kind = "histogram"
help = "From call to answer."

[[report]]
name = "state"
kind = "gauge"
type = "enum"
values = ["idle", "busy"]
help = "What it does."
"""


# Has measures of the same names.
OTHER = """
component = "queue"
title = "Queue"
help = "A queue."

[[report]]
name = "calls"
kind = "counter"
type = "integer"
unit = "calls"
help = "Calls that were queued."

[[report]]
name = "wait"
kind = "histogram"
help = "Time in the queue."
"""


def rate(settings, flat=False):
    """Return calls per second, without noise."""
    if flat:
        return 100_000.0
    batch = settings["batch"] or 8
    speed = 0.25 + math.exp(-((math.log2(batch / 64) / 3) ** 2))
    return 100_000.0 * speed * (1.3 if settings["policy"] == "spin" else 1.0)


def latency_us(settings):
    """Return the latency, which is the same for all calls."""
    return 2.0 + (settings["batch"] or 8) * 0.5


class Program(FakeProcess):
    """The program. work() makes calls as fast as the settings say, until the end."""

    def __init__(self, dir, *, flat=False, noise=0.02, seed=1, more=False):
        super().__init__(dir, program="fake-bench", objects=0)
        self.path_of = self.add("bench", "main", description=DESCRIPTION)
        if more:
            # An object of the same component that takes no settings, and has other values.
            other = self.add("bench", "other", description=DESCRIPTION)
            self._at(other).settings["batch"] = 7
            self.refused[other] = "the other side decides"
            self.add("queue", "main", description=OTHER)
        self.rng = random.Random(seed)
        self.flat, self.noise = flat, noise
        self.calls = self.nb = self.sum = 0
        self.buckets = [0] * BUCKETS
        self.last_ns = time.monotonic_ns()  # of the last report
        self.report_at(self.path_of, self.last_ns, calls=0)

    def step(self, now_ns):
        """Make the calls since the last report, all with the present settings."""
        seconds = (now_ns - self.last_ns) / 1e9
        self.last_ns = now_ns
        settings = self.settings(self.path_of)
        nb = int(rate(settings, self.flat) * seconds * max(0.0, 1 + self.rng.gauss(0, self.noise)))
        ns = int(latency_us(settings) * 1000)
        self.calls += nb
        self.buckets[bucket_of(ns)] += nb
        self.nb += nb
        self.sum += nb * ns
        self.report_at(self.path_of, now_ns, calls=self.calls, waiting=settings["batch"],
                       latency=Histogram(self.nb, self.sum, tuple(self.buckets)))

    def work(self, until):
        while not until(INTERVAL):
            # No setting changes during a step. So an agent finds the true rate between two
            # reports, however long this process was kept from running.
            with self._lock:
                self.step(time.monotonic_ns())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--more", action="store_true",
                        help="an object that refuses changes, and one of another component")
    args = parser.parse_args()
    with Program(args.dir, flat=args.flat, noise=args.noise, more=args.more) as program:
        print(os.getpid(), flush=True)
        program.work(lambda seconds: select.select([sys.stdin], [], [], seconds)[0])


if __name__ == "__main__":
    main()
