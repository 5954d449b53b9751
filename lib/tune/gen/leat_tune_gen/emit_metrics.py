# SPDX-License-Identifier: BSD-3-Clause
"""Emit the metrics of components, by the names that exporter and dashboards use."""

from __future__ import annotations

import json
from typing import Any

from .metrics import metric
from .model import Component


def emit(components: list[Component]) -> str:
    every = []
    for c in components:
        for r in c.reports:
            m = metric(c, r)
            one: dict[str, Any] = {"metric": m.sample, "family": m.family, "type": m.type}
            if m.unit:
                one["unit"] = m.unit
            # value of the metric = reported value * factor
            one |= {"factor": m.factor, "help": r.help, "component": c.name, "field": r.name,
                    "aggregate": r.aggregate}
            if r.values:
                one["values"] = r.values
            every.append(one)
    return json.dumps(every, indent=1, ensure_ascii=False) + "\n"
