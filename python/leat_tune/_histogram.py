# SPDX-License-Identifier: BSD-3-Clause
"""Histograms of nanoseconds, four buckets per power of two, as in leat_tune_schema.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass

BUCKETS = 112
_STRUCT = struct.Struct(f"<{2 + BUCKETS}Q")
BYTES = _STRUCT.size


def bucket_of(ns: int) -> int:
    """Return the bucket of a value."""
    if ns < 32:
        return 0
    msb = ns.bit_length() - 1
    return min(((msb - 5) << 2) + (ns >> (msb - 2) & 3), BUCKETS - 1)


def bucket_begin(i: int) -> int:
    """Return the smallest value of bucket i, which is also the end of bucket i - 1, in ns.

    Not for bucket 0, which begins at 0.
    """
    return (4 + (i & 3)) << ((i >> 2) + 3)


@dataclass(frozen=True)
class Histogram:
    """A histogram: count of values, their sum in ns, and the count of each of BUCKETS buckets."""

    count: int
    sum: int
    buckets: tuple[int, ...]

    @classmethod
    def unpack(cls, message: bytes, offset: int = 0) -> Histogram:
        """Read a histogram from a message."""
        numbers = _STRUCT.unpack_from(message, offset)
        return cls(numbers[0], numbers[1], numbers[2:])

    def pack(self) -> bytes:
        """Return the histogram as in a message."""
        return _STRUCT.pack(self.count, self.sum, *self.buckets)

    @property
    def mean(self) -> float:
        """Mean value, ns; 0 if there are no values."""
        return self.sum / self.count if self.count else 0.0

    def percentile(self, p: float) -> float:
        """Return the value, in ns, below which p per cent of the values are; 0 if there are none.

        Interpolates linearly within a bucket. Uses the buckets alone, not count: they are read
        while a loop writes them, so count may be ahead of their sum.
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
        return float(bucket_begin(BUCKETS))  # reached only by rounding, beyond 2^53 values

    def delta(self, older: Histogram | None) -> Histogram:
        """Return the values since an older histogram of the same object.

        Return all values if `older` is not older: then the object began to count anew.
        """
        if older is None or any(new < old for new, old in zip(self.buckets, older.buckets)):
            return self
        return Histogram(
            max(0, self.count - older.count),
            max(0, self.sum - older.sum),
            tuple(new - old for new, old in zip(self.buckets, older.buckets)),
        )

    def add(self, other: Histogram) -> Histogram:
        """Return the sum of two histograms, of different objects."""
        return Histogram(
            self.count + other.count,
            self.sum + other.sum,
            tuple(a + b for a, b in zip(self.buckets, other.buckets)),
        )
