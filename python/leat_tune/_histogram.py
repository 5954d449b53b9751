# SPDX-License-Identifier: BSD-3-Clause
"""Histograms of nanoseconds: four buckets for each power of two, as leat_tune_schema.h has them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

BUCKETS = 112
_STRUCT = struct.Struct(f"<{2 + BUCKETS}Q")
BYTES = _STRUCT.size


def bucket_of(ns: int) -> int:
    """The bucket of a value."""
    if ns < 32:
        return 0
    msb = ns.bit_length() - 1
    return min(((msb - 5) << 2) + (ns >> (msb - 2) & 3), BUCKETS - 1)


def bucket_begin(i: int) -> int:
    """The smallest value of bucket i but the first, which begins at 0; the end of bucket i - 1. ns"""
    return (4 + (i & 3)) << ((i >> 2) + 3)


@dataclass(frozen=True)
class Histogram:
    """Of nanoseconds: how many values, their sum, and how many in each of BUCKETS buckets."""

    count: int
    sum: int
    buckets: tuple[int, ...]

    @classmethod
    def unpack(cls, message: bytes, offset: int = 0) -> Histogram:
        numbers = _STRUCT.unpack_from(message, offset)
        return cls(numbers[0], numbers[1], numbers[2:])

    def pack(self) -> bytes:
        return _STRUCT.pack(self.count, self.sum, *self.buckets)

    @property
    def mean(self) -> float:
        """ns; 0 of nothing"""
        return self.sum / self.count if self.count else 0.0

    def percentile(self, p: float) -> float:
        """The value below which p per cent are, in ns, within the bucket on a straight line; 0 of nothing.

        By the buckets alone: the loop that writes them is not stopped, so that count may be ahead of them.
        """
        if not 0 <= p <= 100:
            raise ValueError(f"percentile {p}")
        total = sum(self.buckets)
        if total == 0:
            return 0.0
        wanted = total * p / 100
        below = 0
        for i, n in enumerate(self.buckets):
            if n and below + n >= wanted:
                begin = bucket_begin(i) if i else 0
                return begin + (bucket_begin(i + 1) - begin) * max(0.0, wanted - below) / n
            below += n
        return float(bucket_begin(BUCKETS))  # rounding, of more than 2^53 values

    def delta(self, older: Histogram | None) -> Histogram:
        """What came since an older one of the same object. All, if that is not older: the counting began anew."""
        if older is None or any(new < old for new, old in zip(self.buckets, older.buckets)):
            return self
        return Histogram(
            max(0, self.count - older.count),
            max(0, self.sum - older.sum),
            tuple(new - old for new, old in zip(self.buckets, older.buckets)),
        )

    def add(self, other: Histogram) -> Histogram:
        """Both together, of several objects."""
        return Histogram(
            self.count + other.count,
            self.sum + other.sum,
            tuple(a + b for a, b in zip(self.buckets, other.buckets)),
        )
