# SPDX-License-Identifier: BSD-3-Clause
"""Emit tunable groups for mlos_bench, in the format of its tunable-params-schema.json.

A group's cost is that of one change: 1 if the setting takes effect now, 2 if it needs a new
endpoint or connection, 10 if it needs a new process. A group of the description becomes a group of
mlos_bench, whose settings are suggested together. Texts have no range, so they are left out.
"""

from __future__ import annotations

import json
from typing import Any

from .model import Component, Setting

SCHEMA = (
    "https://raw.githubusercontent.com/microsoft/MLOS/main/mlos_bench/mlos_bench/config/schemas/"
    "tunables/tunable-params-schema.json"
)
COSTS = {"now": 1, "next": 2, "start": 10}


def _bins(s: Setting) -> int:
    """Return the number of values in the range, by the quantum; 0: the setting has no quantum."""
    if s.quantum is None or s.min is None or s.max is None:
        return 0
    return int((s.max - s.min) / s.quantum) + 1


def _param(c: Component, s: Setting) -> dict[str, Any]:
    meta: dict[str, Any] = {"component": c.name, "setting": s.name, "when": s.when}
    if s.unit:
        meta["unit"] = s.unit
    if s.special:
        meta["special_names"] = list(s.special)
    result: dict[str, Any] = {"description": s.help, "meta": meta}
    if s.type in ("bool", "enum"):
        values = s.values if s.type == "enum" else ["false", "true"]
        default = s.default if s.type == "enum" else str(s.default).lower()
        return result | {"type": "categorical", "default": default, "values": values}
    result |= {"type": "int" if s.type == "integer" else "float", "default": s.default,
               "range": [s.min, s.max]}
    if s.special:
        result["special"] = list(s.special.values())
    if s.log:
        result["log"] = True
    if _bins(s) > 1:
        result["quantization_bins"] = _bins(s)
    return result


def _group(c: Component, about: str, settings: list[Setting]) -> dict[str, Any]:
    return {"description": about, "cost": max(COSTS[s.when] for s in settings),
            "params": {f"{c.name}.{s.name}": _param(c, s) for s in settings}}


def emit(components: list[Component]) -> str:
    result: dict[str, Any] = {"$schema": SCHEMA}
    for c in components:
        tunable = [s for s in c.settings if s.type != "string"]
        for g in c.groups:
            members = [c.settings[i] for i in g.settings if c.settings[i] in tunable]
            if members:
                result[f"{c.name}.{g.name}"] = _group(c, g.help, members)
        for when in COSTS:
            members = [s for s in tunable if s.when == when and not s.group]
            if members:
                result[f"{c.name}-{when}"] = _group(c, c.title, members)
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"
