# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows that appear and disappear.

If a sum over the peers of an endpoint fell when a peer leaves, Prometheus would take that for a
restart of the counter, and the next rate() would include the whole sum. Therefore the last count of
a row stays in the sum when the row has disappeared, or when another row has its name:

    peer1  5   7   7   -   2         2 is less than 7: a new peer has the name
    peer2  1   1   -   -   -
    sum    6   8   8   8  10
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ._names import Family

#: Most names of rows per object. Of more, the oldest is forgotten; its count stays in the sum.
KEPT = 4096

#: The value of a histogram: (count, sum, buckets).
Histogram = tuple[int, int, tuple[int, ...]]


def add(a: Any, b: Any) -> Any:
    """Return the sum of two numbers, or of two histograms."""
    if isinstance(a, tuple):
        return a[0] + b[0], a[1] + b[1], tuple(x + y for x, y in zip(a[2], b[2]))
    return a + b


def _less(a: Any, b: Any) -> bool:
    return a[0] < b[0] if isinstance(a, tuple) else a < b


class RowSums:
    """The sums over the rows of one component below one object."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._left: dict[str, Any] = {}
        self._gauges: dict[str, Any] = {}
        self._families: dict[str, Family] = {}

    def begin(self) -> None:
        """Begin a scrape."""
        self._gauges = {}

    def row(self, name: str, values: list[tuple[Family, Any]]) -> None:
        """Add the values of an existing row."""
        old = self._rows.pop(name, {})
        new = {}
        for family, value in values:
            if family.states or family.aggregate not in ("sum", "max"):
                continue
            self._families[family.name] = family
            if family.type in ("counter", "histogram") and family.aggregate == "sum":
                if family.name in old and _less(value, old[family.name]):
                    self._leave(family.name, old[family.name])
                new[family.name] = value
            elif family.name not in self._gauges:
                self._gauges[family.name] = value
            elif family.aggregate == "max":
                self._gauges[family.name] = max(self._gauges[family.name], value)
            else:
                self._gauges[family.name] += value
        self._rows[name] = new
        if len(self._rows) > KEPT:
            _, oldest = self._rows.popitem(last=False)
            for family_name, value in oldest.items():
                self._leave(family_name, value)

    def _leave(self, name: str, value: Any) -> None:
        self._left[name] = add(self._left[name], value) if name in self._left else value

    def sums(self) -> list[tuple[Family, Any]]:
        """Return counters over all rows that ever existed, and gauges over existing rows."""
        total = dict(self._left)
        for values in self._rows.values():
            for name, value in values.items():
                total[name] = add(total[name], value) if name in total else value
        total.update(self._gauges)
        return [(self._families[name], value) for name, value in total.items()]
