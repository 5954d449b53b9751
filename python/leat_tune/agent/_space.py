# SPDX-License-Identifier: BSD-3-Clause
"""The space of a search: its settings (knobs), and the values that are tried of each.

A candidate is a tuple of positions, one per knob. The values of a range are in order: at equal
steps, or, if the range is logarithmic, at powers of two and halfway between them (real numbers: at
equal ratios). Special values and the names of an enum have no order; their positions come
after those of the range:

    batch    1  2  3  4  6  8  12  16 ... 1024 | automatic
             0  1  2  3  4  5   6   7 ...   19 | 20
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

#: Most values of a range that are tried, besides its ends and the start.
STEPS = 20
KNOBS_MAX = 6

Config = tuple[int, ...]


def _octaves(low: int, high: int, steps: int) -> set[float]:
    """Return the ends, the powers of two between them and, if steps allows, the middles of octaves.

    The speed of a program often has steps at powers of two, and where one count divides another (a
    burst that divides the window, a window that divides a ring). Values at equal ratios would miss
    them.
    """
    powers = [2**i for i in range(int(high).bit_length()) if low <= 2**i <= high]
    # If there are more octaves than steps, take every second or third, from the high end.
    powers = powers[:: -math.ceil(len(powers) / steps)]
    found = {low, high, *powers}
    middles = {power // 4 * 3 for power in powers if power >= 4 and power // 4 * 3 > low}
    return found | middles if len(found | middles) <= steps else found


def _even(low: float, high: float, steps: int) -> set[float]:
    """Return values at equal steps."""
    return {low + (high - low) * i / (steps - 1) for i in range(steps)}


def _ratios(low: float, high: float, steps: int, first: float) -> set[float]:
    """Return values at equal ratios; if low is 0, then 0 and values from first on."""
    if low > 0:
        return {low * (high / low) ** (i / (steps - 1)) for i in range(steps)}
    return {low, *(first * (high / first) ** (i / (steps - 2)) for i in range(steps - 1))}


@dataclass(frozen=True)
class Knob:
    """A setting to search. The first `ordered` of its values are in order."""

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
        """Create the knob of a number. Its values include the start, even between two steps."""
        if not low <= high:
            raise ValueError(f"{name}: {low} to {high} is no range")
        log = log and high > max(low, 1e-12) * 4
        if log and integer:
            values = _octaves(int(low), int(high), steps)
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
        """Create the knob of an enum, a bool, or of values given one by one."""
        values = tuple(dict.fromkeys(values))
        if start not in values:
            values = (*values, start)
        return cls(name, values, 0, values.index(start))

    def nearest(self, value: float) -> int:
        """Return the position of the nearest ordered value."""
        return min(range(self.ordered), key=lambda i: abs(self.values[i] - value))


class Space:
    """All knobs. allowed(values) tells whether these values may be set together.

    most is the largest number of knobs.
    """

    def __init__(
        self,
        knobs: list[Knob],
        allowed: Callable[[dict[str, Any]], bool] = lambda values: True,
        most: int = KNOBS_MAX,
    ) -> None:
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
        """Return the candidate with these values; raise ValueError or KeyError if there is none."""
        return tuple(knob.values.index(values[knob.name]) for knob in self.knobs)

    def allowed(self, config: Config) -> bool:
        return self._allowed(self.values(config))

    def all(self) -> Iterator[Config]:
        """Return every candidate."""

        def of(knobs: tuple[Knob, ...]) -> Iterator[Config]:
            if not knobs:
                yield ()
                return
            for i in range(len(knobs[0].values)):
                for rest in of(knobs[1:]):
                    yield (i, *rest)

        return (config for config in of(self.knobs) if self.allowed(config))

    def spread(self, nb: int, rng: Random) -> list[Config]:
        """Return nb candidates far apart (a Latin hypercube), or all if there are no more."""
        if self.size <= nb:
            return list(self.all())
        columns = []
        for knob in self.knobs:
            places = [int((i + rng.random()) * len(knob.values) / nb) for i in range(nb)]
            rng.shuffle(places)
            columns.append(places)
        return [config for config in dict.fromkeys(zip(*columns)) if self.allowed(config)]

    def neighbours(self, config: Config, which: int, stride: int) -> list[Config]:
        """Return candidates with one knob moved by one or two strides, or to an unordered value."""
        knob = self.knobs[which]
        i = config[which]
        places: list[int] = []
        if i < knob.ordered:
            places = [i + way * stride for way in (-1, 1, -2, 2)]
            places = [min(max(place, 0), knob.ordered - 1) for place in places]
        elif knob.ordered:
            # From a special value go back into the range: to its ends and to two values between.
            last = knob.ordered - 1
            places = [0, last // 3, 2 * last // 3, last]
        places += range(knob.ordered, len(knob.values))
        found = (
            config[:which] + (place,) + config[which + 1 :]
            for place in dict.fromkeys(places) if place != i
        )
        return [one for one in found if self.allowed(one)]

    def diagonals(self, config: Config, stride: int, rng: Random, most: int = 6) -> list[Config]:
        """Return candidates with one knob moved a stride up and another one down.

        They lie along a ridge, or along the limit of a guard.
        """
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
        """Return the candidate as far beyond new as new is from old. None: there is none."""
        places = []
        for knob, a, b in zip(self.knobs, old, new):
            if a < knob.ordered and b < knob.ordered:
                places.append(min(max(2 * b - a, 0), knob.ordered - 1))
            else:
                places.append(b)
        config = tuple(places)
        return config if config != new and self.allowed(config) else None
