# SPDX-License-Identifier: BSD-3-Clause
"""Formulas in place of programs: they tell how good settings are, with noise or without."""

import dataclasses
import math
import random

from leat_tune.agent import Budget, Knob, Result, Space, plan

SIZES = Knob.of_range("batch", 1, 1024, 4, log=True)
WINDOW = Knob.of_range("window", 1, 256, 8, log=True)
BURST = Knob.of_range("burst", 1, 64, 2, log=True)
PART = Knob.of_range("part", 0, 100, 50)
AUTO = Knob.of_range("inline", 16, 4096, 64, log=True, special=(0,))
POLICY = Knob.of_names("policy", ("spin", "yield", "sleep"), "yield")


def bump(value, best, width):
    """Return 1 at the best value, and less the more octaves value is away from it."""
    return math.exp(-((math.log2(value / best) / width) ** 2))


@dataclasses.dataclass
class Landscape:
    """value(settings): the larger, the better. guard(settings): by how much a guard is exceeded."""

    name: str
    knobs: list
    value: object
    guard: object = staticmethod(lambda s: 0.0)
    allowed: object = staticmethod(lambda s: True)

    @property
    def space(self):
        return Space(self.knobs, self.allowed)

    def true(self, config):
        return self.value(self.space.values(config))

    def best(self):
        """Return the best of an exhaustive sweep of the values that a search may try, without
        noise."""
        space = self.space
        return max(self.true(c) for c in space.all() if not self.guard(space.values(c)))

    def run(self, seed, noise, trials=150, drift=0.0, wild=0.0, before=None, until=0, **options):
        """Run a search; return its outcome, and the trials that it asked for.

        In the first trials, until of them, before(settings) is the value, not value(settings).
        """
        rng = random.Random(seed * 7919 + 1)
        space = self.space
        asked = []
        generator = plan(space, Budget(trials), seed=seed, **options)
        ask = next(generator)
        while True:
            settings = space.values(ask.config)
            speed = before if len(asked) < until else self.value
            value = speed(settings) * (1 + rng.gauss(0, noise)) * (1 - drift * len(asked) / trials)
            if rng.random() < wild:
                value *= 0.3
            excess = self.guard(settings)
            asked.append(ask)
            try:
                ask = generator.send(Result(value, excess))
            except StopIteration as end:
                return end.value, asked


def ridge(s):
    """Two settings that are good only together."""
    product = s["batch"] * s["window"]
    return 1000 * (0.3 + bump(product, 2048, 2.5) * (0.4 + 0.6 * bump(s["batch"], 64, 4)))


LANDSCAPES = [
    Landscape("one bump", [SIZES], lambda s: 1000 * (0.2 + bump(s["batch"], 90, 3))),
    Landscape("two knobs", [SIZES, WINDOW],
              lambda s: 1000 * (0.2 + bump(s["batch"], 128, 3) * bump(s["window"], 32, 3))),
    Landscape("a ridge", [SIZES, WINDOW], ridge),
    Landscape("a plateau", [SIZES, PART],
              lambda s: 1000 * min(1.0, s["batch"] / 200) * (1.0 if s["part"] < 70 else 0.5)),
    Landscape("names", [SIZES, POLICY],
              lambda s: 1000 * {"spin": 1.0, "yield": 0.6, "sleep": 0.3}[s["policy"]]
              * (0.3 + bump(s["batch"], 16 if s["policy"] == "spin" else 256, 3))),
    Landscape("a special value", [AUTO, WINDOW],
              lambda s: 1000 * (1.0 if s["inline"] == 0 else 0.5 + 0.2 * bump(s["inline"], 512, 2))
              * (0.4 + 0.6 * bump(s["window"], 64, 3))),
    Landscape("a guard", [SIZES, WINDOW],
              lambda s: 1000 * math.log2(1 + s["batch"]) * math.log2(1 + s["window"]) / 80,
              lambda s: max(0.0, s["batch"] * s["window"] / 2000 - 1)),
    Landscape("only together", [SIZES, WINDOW],
              lambda s: 1000 * (0.3 + bump(s["batch"], 32, 2) * bump(s["window"], 128, 2)),
              allowed=lambda s: s["batch"] <= s["window"]),
    Landscape("four knobs", [SIZES, WINDOW, PART, POLICY],
              lambda s: 1000 * (0.3 + bump(s["batch"], 100, 4) * bump(s["window"], 40, 4))
              * (0.5 + s["part"] / 200) * {"spin": 1.0, "yield": 0.9, "sleep": 0.5}[s["policy"]]),
]
FLAT = Landscape("flat", [SIZES, WINDOW], lambda s: 1000.0)
AT_BEST = Landscape("best at the start", [SIZES, WINDOW],
                    lambda s: 1000 * (0.2 + bump(s["batch"], 4, 3) * bump(s["window"], 8, 3)))


def divisors(s):
    """Full speed where the burst divides the window and 16, and the window divides 512."""
    window, burst = s["window"], s["burst"]
    speed = 1000 * min(1.0, window / 60) * burst / (burst + 6)
    for whole, part in ((window, burst), (16, burst), (512, window)):
        if whole % part != 0:
            speed *= 0.7
    return speed


DIVISORS = Landscape("divisors", [WINDOW, BURST], divisors,
                     allowed=lambda s: s["burst"] <= s["window"])
