# SPDX-License-Identifier: BSD-3-Clause
"""Search for candidates that look better than the start (the program's own settings).

Trials are few and noisy:

    spread      candidates that lie far apart, and the start    ---> race ---> best
    each knob   one or two strides up or down, or another name  ---> race ---> best
    onward      if two knobs moved: the same step once more     ---> race ---> best
    diagonals   if none moved: one knob up, another down        ---> race ---> best
    no move     halve the stride; at 1, spread anew while there is budget

A race is successive halving: all candidates get a trial, the better half another one, and so on. A
candidate that is worse than the best by more than noise explains is out at once. The start is tried
regularly in between. A candidate's score is its distance from the start's latest trials, relative
to them, so that a machine that slows down gradually does not make later candidates look worse.

When the start's value jumps, and the next trial of the start confirms it, earlier scores say
nothing any more (threads have moved to other CPUs, or a virtual machine's CPUs to other cores of
its host): all scores are forgotten, and the search goes on from the best so far.

The result is only a guess, since the best of many noisy numbers is overestimated. _plan compares it
with the start afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

from ._space import Config, Space
from ._stats import noise

#: Trials of the start at the beginning, and trials of candidates between two later ones.
FIRST = 4
BETWEEN = 5
#: Most trials of one candidate in a race.
TRIALS = 4
#: Distance from the best at which a candidate is out, in standard deviations of the noise.
OUT = 3.0
#: Jump of the start's value, relative, after which earlier scores no longer count.
MOVED = 0.25
#: Score of a candidate that breaks a guard: below all that break none.
BROKEN = -1e6


@dataclass(frozen=True)
class Ask:
    """A trial that the plan wants."""

    config: Config
    purpose: str  #: start, search, compare, ablation


@dataclass(frozen=True)
class Result:
    """The result of a trial.

    value is the goal's, negated if it is to be minimised: larger is better. None: the settings
    could not be set, or not be measured.
    """

    value: float | None
    excess: float = 0.0  #: sum of excesses over guards' limits, relative to them; 0: all held
    words: str = ""  #: why there is no value, or which guard broke
    measures: dict[str, float] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether the trial has a value, and all guards held."""
        return self.value is not None and self.excess == 0.0


Trials = Generator[Ask, Result, Any]


class Unmeasured(Exception):
    """The goal has no value with the program's own settings: there is nothing to compare with."""


class Search:
    """A search. budget() returns how many more trials it may make."""

    def __init__(self, space: Space, budget: Callable[[], int], rng: Random) -> None:
        self.space = space
        self.budget = budget
        self.rng = rng
        self.trials: dict[Config, list[float]] = {}
        self.starts: list[Result] = []
        self.jumps: list[tuple[float, float]] = []  #: the start's level before and after
        #: trials of candidates since the last jump, and before it
        self.since_jump = self.before_jump = 0
        self._since = 0
        self._recent: list[float] = []

    # ---- trials ----

    def _start(self) -> Trials:
        level, limit = self.level, self.jump
        others: list[Result] = []
        while len(others) < 2:
            result = yield Ask(self.space.start, "start")
            self._since = 0
            self.starts.append(result)
            if result.value is None:
                return
            few = len(self._recent) < FIRST - 1
            self._keep(result)
            if few or abs(result.value - level) <= limit:
                return
            others.append(result)
        self.jumped(level, median(result.value for result in others))
        for result in others:
            self._keep(result)

    def jumped(self, before: float, after: float) -> None:
        """Note a jump of the start's level, and forget all scores."""
        self.jumps.append((before, after))
        self.before_jump, self.since_jump = self.before_jump + self.since_jump, 0
        self.trials.clear()
        self._recent.clear()

    def _keep(self, start: Result) -> None:
        """Keep a trial of the start that has a value."""
        score = self.score(start) if self._recent else 0.0
        self._recent.append(start.value)
        self.trials.setdefault(self.space.start, []).append(
            score if start.good else BROKEN - start.excess
        )

    def first(self) -> Trials:
        """Try the start FIRST times; raise Unmeasured if it has no value."""
        for _ in range(FIRST):
            yield from self._start()
        if not self._recent:
            raise Unmeasured(self.starts[-1].words or "there is no value")

    @property
    def level(self) -> float:
        """Current value of the start."""
        return median(self._recent[-3:]) if self._recent else 0.0

    @property
    def scale(self) -> float:
        return abs(median(self._recent or [0.0])) or 1.0

    @property
    def noise(self) -> float:
        """Standard deviation of a trial, relative to the start."""
        return noise(self._recent) / self.scale

    @property
    def jump(self) -> float:
        """Change of the start's level that neither noise nor slow change explains."""
        return self.scale * max(MOVED, OUT * self.noise)

    def score(self, result: Result) -> float:
        if result.value is None:
            return BROKEN * 2
        if result.excess:
            return BROKEN - min(result.excess, -BROKEN / 2)
        return (result.value - self.level) / self.scale

    def _trial(self, config: Config) -> Trials:
        if config == self.space.start:
            yield from self._start()
            return
        if self._since >= BETWEEN:
            yield from self._start()
        result = yield Ask(config, "search")
        self._since += 1
        self.since_jump += 1
        self.trials.setdefault(config, []).append(self.score(result))

    def estimate(self, config: Config) -> float:
        scores = self.trials.get(config)
        return median(scores) if scores else -math.inf

    # ---- choices ----

    def _near(self, a: Config, b: Config) -> bool:
        """Whether noise can explain that a is worse than b."""
        trials = 1 / len(self.trials[a]) + 1 / len(self.trials[b])
        # As a rule noise grows with the value.
        one = self.noise * max(1.0, 1.0 + self.estimate(b))
        return self.estimate(a) >= self.estimate(b) - OUT * one * math.sqrt(trials)

    def race(self, candidates: list[Config]) -> Generator[Ask, Result, Config]:
        """Return the candidate that looks best; of equal ones the first."""
        alive = list(dict.fromkeys(candidates))
        for rung in range(1, TRIALS + 1):
            # If a jump made the search forget all scores, all candidates get trials again.
            while wanted := [c for c in alive if len(self.trials.get(c, ())) < rung]:
                if self.budget() <= 0:
                    break
                yield from self._trial(wanted[0])
            alive = [config for config in alive if config in self.trials]
            if not alive:
                return candidates[0]
            best = max(alive, key=self.estimate)
            alive = [config for config in alive if self._near(config, best)]
            if len(alive) == 1 or self.budget() <= 0:
                break
            if len(alive) > 2:
                alive.sort(key=self.estimate, reverse=True)
                alive = alive[: (len(alive) + 1) // 2]
        return max(alive, key=self.estimate)

    def run(self) -> Trials:
        """Search until the budget is used, or nothing new is found."""
        yield from self.first()
        best = self.space.start
        idle = 0
        while self.budget() > 0 and idle < 2:
            before = best
            nb = min(16, max(4, self.budget() // 5))
            best = yield from self.race([best, *self.space.spread(nb, self.rng)])
            best = yield from self._steps(best)
            idle = idle + 1 if best == before else 0

    def _steps(self, best: Config) -> Generator[Ask, Result, Config]:
        longest = max(knob.ordered for knob in self.space.knobs)
        stride = max(1, longest // 4)
        while self.budget() > 0:
            before = best
            order = list(range(len(self.space.knobs)))
            self.rng.shuffle(order)
            for which in order:
                best = yield from self.race([best, *self.space.neighbours(best, which, stride)])
            if sum(a != b for a, b in zip(before, best)) > 1:
                further = self.space.onward(before, best)
                if further is not None:
                    best = yield from self.race([best, further])
            if best == before:
                best = yield from self.race([best, *self.space.diagonals(best, stride, self.rng)])
            if best == before:
                if stride == 1:
                    break
                stride //= 2
        return best

    def promising(self, nb: int) -> list[Config]:
        """Return the nb best candidates for a comparison, by score minus noise of the trials."""

        def sure(config: Config) -> float:
            return self.estimate(config) - self.noise / math.sqrt(len(self.trials[config]))

        found = [config for config in self.trials if config != self.space.start]
        start = self.estimate(self.space.start)
        found = [c for c in found if self.estimate(c) > max(start, BROKEN / 2)]
        return sorted(found, key=sure, reverse=True)[:nb]
