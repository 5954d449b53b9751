# SPDX-License-Identifier: BSD-3-Clause
"""Settings that are searched, and the values of each that are tried.

A candidate is a tuple of positions, one for each knob. The values of a knob with a range lie in
order: at equal steps or, if the range is logarithmic, at powers of two and halfway between them
(real numbers: at equal ratios). Special values and the names of an enum have no order, and are
places of their own behind them:

    batch    1  2  3  4  6  8  12  16 ... 1024 | automatic
             0  1  2  3  4  5   6   7 ...   19 | 20
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

#: Values of a range that are tried at most, besides its ends and the start.
STEPS = 20
KNOBS_MAX = 6

Config = tuple[int, ...]


def _octaves(low: int, high: int, steps: int) -> set[float]:
    """
    The ends, the powers of two between them and, if steps allows, the middles of octaves.

    The speed of a program has steps at powers of two, and where one count divides another (a burst
    that divides the window, a window that divides a ring): values at equal ratios would miss them.
    """
    powers = [2**i for i in range(int(high).bit_length()) if low <= 2**i <= high]
    # More octaves than steps: each second or third of them, down from the high end.
    powers = powers[:: -math.ceil(len(powers) / steps)]
    found = {low, high, *powers}
    middles = {power // 4 * 3 for power in powers if power >= 4 and power // 4 * 3 > low}
    return found | middles if len(found | middles) <= steps else found


def _even(low: float, high: float, steps: int) -> set[float]:
    """Values at equal steps."""
    return {low + (high - low) * i / (steps - 1) for i in range(steps)}


def _ratios(low: float, high: float, steps: int, first: float) -> set[float]:
    """Values at equal ratios. From 0 on: 0, and what lies above it from first on."""
    if low > 0:
        return {low * (high / low) ** (i / (steps - 1)) for i in range(steps)}
    return {low, *(first * (high / first) ** (i / (steps - 2)) for i in range(steps - 1))}


@dataclass(frozen=True)
class Knob:
    """A setting. values: the ordered ones first, as many as ordered says."""

    name: str
    values: tuple[Any, ...]
    ordered: int
    start: int  #: position of the value that the program has when the search begins

    @classmethod
    def of_range(
        cls,
        name: str,
        low: float,
        high: float,
        start: Any,
        *,
        integer: bool = True,
        log: bool = False,
        quantum: float = 0,
        special: tuple[Any, ...] = (),
        steps: int = STEPS,
    ) -> Knob:
        """Of a number. The start is one of the values, even if it lies between the steps."""
        if not low <= high:
            raise ValueError(f"{name}: {low} to {high} is no range")
        log = log and high > max(low, 1e-12) * 4
        if log and integer:
            values = _octaves(low, high, steps)
        elif log:
            values = _ratios(low, high, steps, quantum or high / 1e6)
        else:
            values = _even(low, high, steps)
        found = set()
        for value in values:
            if quantum:
                value = low + round((value - low) / quantum) * quantum
            value = min(max(value, low), high)
            found.add(round(value) if integer else float(f"{value:.6g}"))
        others = tuple(value for value in special if value not in found)
        if start not in others:
            found.add(start)
        places = (*sorted(found), *others)
        return cls(name, places, len(found), places.index(start))

    @classmethod
    def of_names(cls, name: str, values: tuple[Any, ...], start: Any) -> Knob:
        """Of an enum, a bool, or values that were given one by one."""
        values = tuple(dict.fromkeys(values))
        if start not in values:
            values = (*values, start)
        return cls(name, values, 0, values.index(start))

    def nearest(self, value: float) -> int:
        """The position of the ordered value that is nearest."""
        return min(range(self.ordered), key=lambda i: abs(self.values[i] - value))


class Space:
    """All knobs. allowed: may these values be set together? most: knobs that there may be."""

    def __init__(self, knobs: list[Knob], allowed=lambda values: True, most: int = KNOBS_MAX) -> None:
        if not 1 <= len(knobs) <= most:
            raise ValueError(f"1 to {most} settings can be searched at once, not {len(knobs)}")
        self.knobs = tuple(knobs)
        self._allowed = allowed

    @property
    def start(self) -> Config:
        return tuple(knob.start for knob in self.knobs)

    @property
    def size(self) -> int:
        return math.prod(len(knob.values) for knob in self.knobs)

    def values(self, config: Config) -> dict[str, Any]:
        return {knob.name: knob.values[i] for knob, i in zip(self.knobs, config)}

    def config(self, values: Mapping[str, Any]) -> Config:
        """ValueError, KeyError: one is not tried."""
        return tuple(knob.values.index(values[knob.name]) for knob in self.knobs)

    def allowed(self, config: Config) -> bool:
        return self._allowed(self.values(config))

    def all(self) -> Iterator[Config]:
        """Every candidate."""

        def of(knobs: tuple[Knob, ...]) -> Iterator[Config]:
            if not knobs:
                yield ()
                return
            for i in range(len(knobs[0].values)):
                for rest in of(knobs[1:]):
                    yield (i, *rest)

        return (config for config in of(self.knobs) if self.allowed(config))

    def spread(self, nb: int, rng: Random) -> list[Config]:
        """Candidates that lie far apart: a Latin hypercube. All of them if there are so few."""
        if self.size <= nb:
            return list(self.all())
        columns = []
        for knob in self.knobs:
            places = [int((i + rng.random()) * len(knob.values) / nb) for i in range(nb)]
            rng.shuffle(places)
            columns.append(places)
        return [config for config in dict.fromkeys(zip(*columns)) if self.allowed(config)]

    def neighbours(self, config: Config, which: int, stride: int) -> list[Config]:
        """One knob moved by one or two strides; or to a value without order."""
        knob = self.knobs[which]
        i = config[which]
        places: list[int] = []
        if i < knob.ordered:
            places = [i + way * stride for way in (-1, 1, -2, 2)]
            places = [min(max(place, 0), knob.ordered - 1) for place in places]
        elif knob.ordered:
            # From a special value back into the range: ends and middles.
            last = knob.ordered - 1
            places = [0, last // 3, 2 * last // 3, last]
        places += range(knob.ordered, len(knob.values))
        found = (config[:which] + (place,) + config[which + 1 :] for place in dict.fromkeys(places) if place != i)
        return [one for one in found if self.allowed(one)]

    def diagonals(self, config: Config, stride: int, rng: Random, most: int = 6) -> list[Config]:
        """Two knobs moved by a stride, one up and one down: along a ridge, or the edge of a guard."""
        ordered = [i for i, place in enumerate(config) if place < self.knobs[i].ordered]
        found = []
        for up in ordered:
            for down in ordered:
                high, low = config[up] + stride, config[down] - stride
                if up != down and high < self.knobs[up].ordered and low >= 0:
                    places = list(config)
                    places[up], places[down] = high, low
                    found.append(tuple(places))
        found = [one for one in found if self.allowed(one)]
        return rng.sample(found, min(most, len(found)))

    def onward(self, old: Config, new: Config) -> Config | None:
        """As far again as from old to new. None: it leads nowhere."""
        places = []
        for knob, a, b in zip(self.knobs, old, new):
            if a < knob.ordered and b < knob.ordered:
                places.append(min(max(2 * b - a, 0), knob.ordered - 1))
            else:
                places.append(b)
        config = tuple(places)
        return config if config != new and self.allowed(config) else None
