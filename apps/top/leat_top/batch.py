# SPDX-License-Identifier: BSD-3-Clause
"""--batch and --json: print tables or JSON to standard output, once per interval."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass

from .ansi import paint
from .columns import text_of
from .format import Glyphs
from .grid import Grid, Rect
from .known import columns_of, process_columns, sorted_by
from .model import Model, Object, Process, load
from .source import Source
from .table import Table
from .wake import Wake

_FIRST = 0.15  # seconds until processes show rows, which they do only on request


@dataclass(frozen=True)
class BatchOptions:
    json: bool
    count: int | None
    width: int
    colors: bool
    filter: str
    sort: str | None
    reverse: bool


def run_batch(source: Source, wake: Wake, options: BatchOptions, glyphs: Glyphs) -> None:
    model = Model()
    # Read once before: rates need an earlier report, and processes show rows only on request.
    model.update(source.read())
    source.require()
    source.settle(1.0)
    _wait(wake, time.monotonic() + min(_FIRST, source.interval))
    model.update(source.read())
    done = 0
    due = time.monotonic()
    while not wake.stop and (options.count is None or done < options.count):
        due += source.interval
        _wait(wake, due)
        if wake.stop:
            return
        model.update(source.read())
        if options.json:
            text = json.dumps(document(model, source), allow_nan=False)
            sys.stdout.write(text + "\n")
        else:
            sys.stdout.write(text_page(model, source, options, glyphs))
        sys.stdout.flush()
        done += 1
        due = max(due, time.monotonic() - source.interval)


def _wait(wake: Wake, until: float) -> None:
    while not wake.stop and time.monotonic() < until:
        wake.wait(until)


# ---- JSON ----


def _number(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def document(model: Model, source: Source) -> dict:
    return {
        "schema": "leat-top",
        "version": 1,
        "time": time.time(),
        "interval_s": source.interval,
        "problems": list(source.problems),
        "processes": [_process(p) for p in model.processes],
    }


def _process(p: Process) -> dict:
    busy = p.busy()
    return {
        "pid": p.pid,
        "program": p.program,
        "instance": f"{p.instance:016x}",
        "start": p.start,
        "hung": p.hung,
        "trouble": p.state() or None,
        "heartbeat_age_ns": p.heartbeat_age_ns,
        "update_interval_ns": p.interval_ns,
        "busy": busy and dict(zip(("busy", "idle", "asleep"), busy)),
        "objects": [_object(o) for o in p.objects],
        "changes": [
            {
                "number": c.number,
                "time": c.real_ns / 1e9,
                "object": c.object,
                "setting": c.name,
                "from": c.old,
                "to": c.new,
                "who": c.who,
                "why": c.why,
            }
            for c in p.changes
        ],
        "leases": [
            {
                "object": lease.object,
                "settings": list(lease.settings),
                "who": lease.who,
                "expires_ns": lease.expires_ns or None,
            }
            for lease in p.leases
        ],
    }


def _object(o: Object) -> dict:
    found = {
        "id": o.id,
        "path": o.path,
        "component": o.component,
        "name": o.name,
        "epoch": o.epoch,
        "age_ns": o.age_ns,
        "trouble": o.trouble() or None,
        "settings": {name: _number(value) for name, value in o.settings.items()},
        "report": {name: _measured(value) for name, value in o.report.items()},
        "rates": dict(o.rates),
        "percentiles": {name: window.as_dict() for name, window in o.windows.items()},
    }
    shares = load(o) if o.component == "reactor" else None
    if shares is not None:
        found["load"] = dict(zip(("busy", "idle", "asleep"), shares))
    if not o.row:
        found["rows"] = [_object(row) for row in o.rows]
    return found


def _measured(value):
    if hasattr(value, "buckets"):
        return {"count": value.count, "sum_ns": value.sum}
    return _number(value)


# ---- text ----


def text_page(model: Model, source: Source, options: BatchOptions, glyphs: Glyphs) -> str:
    """Return tables of all processes, options.width columns wide."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"leat-top {stamp}, every {source.interval:g} s, {len(model.processes)} processes"]
    lines += [f"leat-top: {problem}" for problem in source.problems]
    page = "\n".join(lines) + "\n"
    if not model.processes:
        return page + "\n"
    page += _table(process_columns(), "pid", model.processes, lambda p: p.program, options, glyphs,
                   Process.silent)
    page += "".join(f"{p.program} {p.pid}: {p.state()}\n" for p in model.processes if p.state())
    for schema in model.components():
        objects = model.objects(schema.component)
        columns = columns_of(schema)
        sort = sorted_by(schema.component)
        page += f"\n{schema.title or schema.component}\n"
        page += _table(columns, sort, objects, text_of, options, glyphs, Object.trouble)
    return page + "\n"


def _table(
    columns, sort: str, rows: list, text, options: BatchOptions, glyphs: Glyphs, trouble
) -> str:
    table = Table(columns, sort)
    if options.sort is not None and any(c.name == options.sort for c in columns):
        table.sort, table.reverse = options.sort, options.reverse
    table.filter = options.filter
    shown = table.arrange(rows, text)
    grid = Grid(len(shown) + 1 or 1, options.width)
    table.draw(grid, Rect(0, 0, max(grid.height, 1), options.width), shown, glyphs,
               lambda row: row.key, focus=False, trouble_of=trouble)
    return paint(grid, options.colors)
