# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune watch: print values and settings as they change."""

from __future__ import annotations

import argparse
import time

from .._errors import Gone, TuneError
from .._histogram import Histogram
from .._schema import Report
from .._snapshot import Snapshot
from . import common
from ._history import change_json, change_text
from .common import Found, Member


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "watch", "values as they move, and changes of settings",
        "Prints values when they have changed: counters with their rate per second, and who "
        "changed "
        "settings.",
        "  leat-tune watch 'reactor.*.busy_ns' reactor.lcore0.spin_us --interval 0.5",
    )
    parser.add_argument("names", nargs="+", metavar="NAME",
                        help="settings and measurements, as of get")
    parser.add_argument("--interval", type=common.duration, default=1.0, metavar="TIME",
                        help="how often to look (default: 1s)")
    parser.add_argument("--count", "-n", type=common.positive, metavar="N", help="end after N "
                                                                                 "looks")
    parser.add_argument("--json", action="store_true", help="as JSON: an object for each line")
    return parser


class _Watched:
    """A process, and its watched settings and measurements."""

    def __init__(self, member: Member, interval: float) -> None:
        self.member = member
        self.fields: list[Found] = []
        self.last: dict[str, tuple[int, object]] = {}  # by name: time (ns) and value
        self.number = max([c.number for c in member.snapshot.changes], default=0)
        self.session = common.watch_or_warn(member, interval, rows=True)


def run(args: argparse.Namespace) -> int:
    members = common.members(args)
    watched: dict[int, _Watched] = {}
    try:
        for found in common.choose_anything(args.names, members):
            instance = found.member.process.instance
            if instance not in watched:
                watched[instance] = _Watched(found.member, args.interval)
            watched[instance].fields.append(found)
        return _loop(list(watched.values()), args)
    finally:
        for one in watched.values():
            if one.session is not None:
                one.session.close()


def _loop(watched: list[_Watched], args: argparse.Namespace) -> int:
    due = time.monotonic()
    looks = 0
    while True:
        for one in list(watched):
            try:
                snapshot = one.member.process.snapshot()
            except TuneError as e:
                common.warn(e)
                watched.remove(one)
                continue
            _look(one, snapshot, args)
            if not one.member.process.alive():
                common.warn(f"process {one.member} has ended")
                watched.remove(one)
        looks += 1
        if not watched:
            raise Gone("nothing is left to watch")
        if looks == args.count:
            return 0
        due = max(due + args.interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _look(one: _Watched, snapshot: Snapshot, args: argparse.Namespace) -> None:
    process = one.member.process
    for change in snapshot.changes:
        if change.number > one.number:
            one.number = change.number
            if args.json:
                common.print_json({"change": change_json(process.pid, change)}, indent=None)
            else:
                print(change_text(process.pid, change), flush=True)
    objects = {o.path: o for o in snapshot.objects}
    for found in one.fields:
        o = objects.get(found.object.path)
        if o is None:
            continue
        report = isinstance(found.field, Report)
        value = (o.report if report else o.settings).get(found.field.name)
        stamp = o.time_ns if report else snapshot.time_ns
        before = one.last.get(found.name)
        if before is not None and before[1] == value:
            continue
        one.last[found.name] = (stamp, value)
        _print(found, process.pid, value, _rate(found, before, stamp, value), before, args)


def _rate(found: Found, before: tuple[int, object] | None, stamp: int, value) -> float | None:
    """Return the rate of a counter per second, or None."""
    if before is None or getattr(found.field, "kind", "") != "counter" or value is None or \
            before[1] is None:
        return None
    spent = stamp - before[0]
    return (value - before[1]) * 1e9 / spent if spent > 0 and value >= before[1] else None


def _print(
    found: Found, pid: int, value, rate: float | None, before, args: argparse.Namespace
) -> None:
    now = time.time()
    if isinstance(value, Histogram) and before is not None and isinstance(before[1], Histogram):
        value = value.delta(before[1])
    if args.json:
        line = {"time": now, "pid": pid, "name": found.name, "value": common.json_value(value)}
        if rate is not None:
            line["per_second"] = rate
        common.print_json(line, indent=None)
        return
    unit = common.unit_of(found.field)
    words = f"{common.clock(now)}  {pid}  {found.name} = {common.text_value(found.field, value)}"
    if rate is not None:
        words += f"  {rate:,.0f} {unit or 'times'}/s"
    elif unit:
        words += f" {unit}"
    print(words, flush=True)
