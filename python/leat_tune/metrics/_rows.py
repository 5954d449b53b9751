# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows that come and go.

The sum of a counter over the peers of an endpoint would fall when a peer leaves, and Prometheus would
take that for a restart: the next rate() would be as high as all that was ever counted. So what a row
had counted is kept when the row is not there any more, or when another one has its name:

    peer1  5   7   7   -   2         2 is less than 7: another peer of that name
    peer2  1   1   -   -   -
    sum    6   8   8   8  10
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ._names import Family

#: Names of rows that are kept, for each object; what the oldest counted stays in the sum.
KEPT = 4096

#: Of a histogram: (count, sum, buckets).
Histogram = tuple[int, int, tuple[int, ...]]


def add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return a[0] + b[0], a[1] + b[1], tuple(x + y for x, y in zip(a[2], b[2]))
    return a + b


def _less(a: Any, b: Any) -> bool:
    return a[0] < b[0] if isinstance(a, tuple) else a < b


class RowSums:
    """Of one object's rows of one component."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._left: dict[str, Any] = {}
        self._gauges: dict[str, Any] = {}
        self._families: dict[str, Family] = {}

    def begin(self) -> None:
        """A scrape begins."""
        self._gauges = {}

    def row(self, name: str, values: list[tuple[Family, Any]]) -> None:
        """A row that is there."""
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
        """Of all rows that were ever there; gauges of those that are there."""
        total = dict(self._left)
        for values in self._rows.values():
            for name, value in values.items():
                total[name] = add(total[name], value) if name in total else value
        total.update(self._gauges)
        return [(self._families[name], value) for name, value in total.items()]
