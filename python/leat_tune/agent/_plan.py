# SPDX-License-Identifier: BSD-3-Clause
"""The trials of a run, in order: search, comparison with the start, ablation.

    trial = next(p)                        p = plan(space, Budget(trials=150), seed=1)
    while True:
        trial = p.send(measure(trial.config))      StopIteration.value: the Outcome

The same seed and results give the same trials, so an interrupted run can be resumed from its log.

A comparison makes pairs of trials, one of the start and one of the candidate, in the order AB BA AB
BA: slow changes of the machine affect both alike. Trials of the search do not count in it. The
difference is real if Wilcoxon's signed-rank test says so at the level 1 - confidence, divided by
the number of candidates that may be compared and by the number of times that a candidate may be
judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from statistics import median

from ._search import FIRST, Ask, Result, Search, Trials, Unmeasured
from ._space import Config, Space
from ._stats import interval, signed_rank

__all__ = ["Ask", "Budget", "Comparison", "Outcome", "Result", "Unmeasured", "plan"]

CANDIDATES = 2
#: Times that a comparison is judged: if the first pairs are undecided, more are made.
LOOKS = 2
TRIALS_MIN = 40
_ABLATION_ROUNDS = 6
#: Number of the latest trials of the start in a comparison: their median shows a jump.
_LATEST = 5
_PROMISING = 0.1  # largest p of a comparison that is worth more pairs
# A candidate that broke guards in more than one of this many trials is rejected.
_BROKEN_SHARE = 8


@dataclass
class Budget:
    """Limits of a run: its trials, and expired(), which tells that the time is over."""

    trials: int
    expired: Callable[[], bool] = lambda: False
    used: int = 0

    def left(self, reserve: int = 0) -> int:
        return 0 if self.expired() else max(0, self.trials - reserve - self.used)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a candidate with the start.

    In the ablation: of the best settings with the same settings without one change.
    """

    config: Config
    gain: float  #: median of differences, relative to the start
    low: float  #: 95 % interval of the gain, by bootstrap
    high: float
    p: float  #: of the rank test
    pairs: int
    broken: int = 0  #: trials of the candidate that broke a guard, or had no value
    start_broken: int = 0
    real: bool = False


@dataclass
class Outcome:
    """The outcome of a run. Its verdict is one of:

    "found"    better settings were found
    "unsure"   no difference could be told from noise
    "moved"    the speed of the program jumped, so that the scores of the search are outdated
    "guards"   no settings keep the guards
    """

    verdict: str
    best: Config
    level: float  #: value of the start at the end of the search
    noise: float
    comparisons: list[Comparison] = field(default_factory=list)
    ablation: list[tuple[str, Comparison]] = field(default_factory=list)
    #: jumps of the start's value: before and after
    jumps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def found(self) -> Comparison | None:
        return self.comparisons[-1] if self.verdict == "found" else None


def pairs_of(trials: int, alpha: float) -> int:
    """Return the pairs of a comparison: enough for the test to reach the level alpha."""
    return max(10, min(16, trials // 12), math.ceil(-math.log2(alpha)))


class _Pairs:
    """Pairs of trials of the start and of a candidate: AB BA AB BA."""

    def __init__(self, config: Config, start: Config) -> None:
        self._config = config
        self._start = start
        self.done = 0
        self.starts: list[float] = []
        self._differences: list[float] = []
        self._broken = self._start_broken = 0

    def one(self, scale: float) -> Trials:
        """Make the next pair."""
        values: dict[Config, Result] = {}
        order = (self._start, self._config) if self.done % 2 == 0 else (self._config, self._start)
        for config in order:
            values[config] = yield Ask(config, "compare")
        self.done += 1
        a, b = values[self._start], values[self._config]
        self._start_broken += not a.good
        self._broken += not b.good
        if a.value is not None:
            self.starts.append(a.value)
        if a.value is not None and b.good and b.value is not None:
            self._differences.append((b.value - a.value) / scale)

    def hopeless(self, wanted: int) -> bool:
        """Whether to give up. This can only reject a candidate, never accept one."""
        if self._broken > wanted // _BROKEN_SHARE:
            return True
        if self.done * 2 < wanted or self._start_broken * 2 >= self.done:
            return False
        return not self._differences or median(self._differences) <= 0

    def judge(self, wanted: int, alpha: float, least: float, rng: Random) -> Comparison:
        """Judge the pairs made so far."""
        gain = median(self._differences) if self._differences else 0.0
        low, high = interval(self._differences, rng)
        p = signed_rank(self._differences)
        real = self.done == wanted and self._broken <= wanted // _BROKEN_SHARE
        if self._start_broken * 2 <= self.done:
            # The candidate needs no gain if the start broke guards in more than half of the pairs.
            real = real and p <= alpha and low > 0 and gain >= least
        return Comparison(
            self._config, gain, low, high, p, self.done, self._broken, self._start_broken, real
        )


class _Plan:
    def __init__(
        self, space: Space, budget: Budget, rng: Random, confidence: float, least: float
    ) -> None:
        self.space = space
        self.budget = budget
        self.rng = rng
        self.alpha = (1 - confidence) / (CANDIDATES * LOOKS)
        self.least = least
        self.pairs = pairs_of(budget.trials, self.alpha)
        reserve = 2 * self.pairs + _ABLATION_ROUNDS * (len(space.knobs) + 1)
        reserve = min(reserve, budget.trials * 2 // 3)
        self.search = Search(space, lambda: budget.left(reserve), rng)
        self.moved = False  #: most of the search was made before the last jump

    def run(self) -> Generator[Ask, Result, Outcome]:
        yield from self.search.run()
        start = self.search.starts
        self.moved = self.search.since_jump < self.search.before_jump
        outcome = Outcome(
            "unsure",
            self.space.start,
            self.search.level,
            self.search.noise,
            jumps=self.search.jumps,
        )
        for config in self.search.promising(CANDIDATES):
            if self.budget.left() < 2 * self.pairs:
                break
            comparison = yield from self._compare(config)
            outcome.comparisons.append(comparison)
            if self.moved:
                break
            if comparison.real:
                outcome.verdict, outcome.best = "found", config
                break
        if self.moved:
            outcome.verdict = "moved"
        elif outcome.verdict != "found" and sum(r.good for r in start) * 2 < len(start):
            outcome.verdict = "guards"
        if outcome.verdict == "found":
            yield from self._ablate(outcome)
        return outcome

    def _compare(self, config: Config) -> Generator[Ask, Result, Comparison]:
        pairs = _Pairs(config, self.space.start)
        for look in range(1, LOOKS + 1):
            while pairs.done < look * self.pairs and not self.budget.expired():
                yield from pairs.one(self.search.scale)
                if self._jumped(pairs) or pairs.hopeless(look * self.pairs):
                    break
            comparison = pairs.judge(look * self.pairs, self.alpha, self.least, self.rng)
            # Make more pairs only if they may decide, and there are trials for them.
            more = (
                pairs.done == look * self.pairs
                and comparison.gain > 0
                and comparison.p <= _PROMISING
            )
            if comparison.real or not more or self.budget.left() < 2 * self.pairs:
                break
        return comparison

    def _jumped(self, pairs: _Pairs) -> bool:
        """Whether the start's level has jumped since the search."""
        if len(pairs.starts) < _LATEST:
            return False
        before, after = self.search.level, median(pairs.starts[-_LATEST:])
        if abs(after - before) <= self.search.jump:
            return False
        self.search.jumps.append((before, after))
        self.moved = True
        return True

    def _ablate(self, outcome: Outcome) -> Trials:
        """Measure the loss when one change of the best settings is undone, for each change.

        A variant is the best settings without one change. Each round tries all variants: in order
        in one round, in reverse order in the next.
        """
        best = outcome.best
        without: dict[str, Config] = {}
        for i, (knob, a, b) in enumerate(zip(self.space.knobs, self.space.start, best)):
            if a != b:
                config = best[:i] + (a,) + best[i + 1 :]
                if self.space.allowed(config):
                    without[knob.name] = config
        losses: dict[str, list[float]] = {name: [] for name in without}
        broken = dict.fromkeys(without, 0)
        rounds = 0
        if list(without.values()) == [self.space.start]:
            # There is only one change: its loss is the gain of the comparison.
            found = outcome.found
            if found is not None:
                outcome.ablation = [(next(iter(without)), found)]
            return
        while without and rounds < _ABLATION_ROUNDS and self.budget.left() > len(without):
            order = [best, *without.values()]
            if rounds % 2:
                order.reverse()
            values = {}
            for one in order:
                values[one] = yield Ask(one, "ablation")
            rounds += 1
            for name, config in without.items():
                broken[name] += not values[config].good
                a, b = values[config].value, values[best].value
                if a is not None and b is not None:
                    losses[name].append((b - a) / self.search.scale)
        for name, config in without.items():
            low, high = interval(losses[name], self.rng)
            p = signed_rank(losses[name])
            gain = median(losses[name]) if losses[name] else 0.0
            outcome.ablation.append(
                (name, Comparison(config, gain, low, high, p, rounds, broken[name], 0,
                                  p <= 0.05 and low > 0))
            )


def plan(
    space: Space,
    budget: Budget,
    *,
    seed: int = 1,
    confidence: float = 0.99,
    least: float = 0.01,
) -> Generator[Ask, Result, Outcome]:
    """Ask for trials until there is an Outcome.

    least: smallest relative gain that counts as better. Raises ValueError for too few trials, and
    Unmeasured if the goal has no value with the program's own settings.
    """
    if budget.trials < TRIALS_MIN:
        raise ValueError(
            f"at least {TRIALS_MIN} trials are needed, of which {FIRST} come before all else"
        )
    inner = _Plan(space, budget, Random(seed), confidence, least).run()

    def counted() -> Generator[Ask, Result, Outcome]:
        ask = next(inner)
        while True:
            result = yield ask
            budget.used += 1
            try:
                ask = inner.send(result)
            except StopIteration as end:
                return end.value

    return counted()
