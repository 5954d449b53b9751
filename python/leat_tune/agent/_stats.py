# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of few, noisy numbers, which assume only that pairs are independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median

#: Resamples of a bootstrap.
BOOTSTRAP = 1000


def noise(values: Sequence[float]) -> float:
    """Estimate the standard deviation from the median deviation, which ignores outliers."""
    if len(values) < 2:
        return 0.0
    middle = median(values)
    return 1.4826 * median(abs(v - middle) for v in values)


def signed_rank(differences: Sequence[float]) -> float:
    """Return p of Wilcoxon's signed-rank test, one-sided and exact.

    p is the probability of differences at least this large if they are symmetric about 0 or less.
    Zeros count half for each side. F. Wilcoxon, Individual comparisons by ranking methods, 1945.
    """
    nb = len(differences)
    if nb == 0:
        return 1.0
    # Use twice the ranks, so that the mean rank of ties is an integer.
    order = sorted(range(nb), key=lambda i: abs(differences[i]))
    ranks = [0] * nb
    i = 0
    while i < nb:
        j = i
        while j + 1 < nb and abs(differences[order[j + 1]]) == abs(differences[order[i]]):
            j += 1
        for k in range(i, j + 1):
            ranks[order[k]] = i + j + 2
        i = j + 1
    total = sum(ranks)
    plus = sum(r for r, d in zip(ranks, differences) if d > 0)
    plus += sum(r / 2 for r, d in zip(ranks, differences) if d == 0)
    # ways[s]: how many of the 2^nb assignments of signs have the sum s.
    ways = [0] * (total + 1)
    ways[0] = 1
    for rank in ranks:
        for at in range(total, rank - 1, -1):
            ways[at] += ways[at - rank]
    return sum(ways[math.ceil(plus) :]) / (1 << nb)


def interval(values: Sequence[float], rng: Random, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval of the median, by bootstrap."""
    if not values:
        return -math.inf, math.inf
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(BOOTSTRAP))
    cut = int((1 - confidence) / 2 * BOOTSTRAP)
    return medians[cut], medians[-1 - cut]
