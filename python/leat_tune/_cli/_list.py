# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune list: print processes, their objects and settings."""

from __future__ import annotations

import argparse
import time

from .._schema import Setting
from .._snapshot import Object
from . import common
from .common import Member


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "list", "processes, their objects, and settings with unit, range and default",
        "Lists processes, their objects, and settings: value, unit, range, default, when a change "
        "takes\n"
        "effect (now; next: with the next thing that is made; start: only at the start of the "
        "program), "
        "and\nwho holds it by a lease.",
    )
    parser.add_argument("patterns", nargs="*", metavar="OBJECT",
                        help="such as reactor, reactor.lcore0, endpoint.*")
    parser.add_argument("--reports", action="store_true",
                        help="measurements, too, and rows of objects")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="as JSON")
    what.add_argument("--schema", action="store_true",
                      help="descriptions of the components, as JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    members = common.members(args, rows=False)
    if args.reports:
        members = common.refreshed(members)
    if args.schema:
        schemas = {o.schema.hash: o.schema for m in members for o in _objects(m, args)}
        common.print_json([s.json for s in sorted(schemas.values(), key=lambda s: s.component)])
        return 0
    if args.json:
        common.print_document(args, processes=[_process_json(m, args) for m in members])
        return 0
    for i, member in enumerate(members):
        if i:
            print()
        _print(member, args)
    return 0


def _objects(member: Member, args: argparse.Namespace) -> list[Object]:
    if not args.patterns:
        return member.snapshot.objects
    found = {id(o) for pattern in args.patterns for o in member.snapshot.find(pattern)}
    paths = {o.path for o in member.snapshot.objects if id(o) in found}
    # Include the rows of a chosen object.
    return [o for o in member.snapshot.objects
            if id(o) in found or o.row and any(o.path.startswith(path + "/") for path in paths)]


def _print(member: Member, args: argparse.Namespace) -> None:
    process, snapshot = member.process, member.snapshot
    minutes = max(0.0, time.time() - process.start) / 60
    print(f"{process.pid}  {process.program}  since {common.clock(process.start)} ({minutes:.0f} "
          f"min)")
    hung = common.hung_words(member)
    if hung:
        print(f"  {hung}")
    if snapshot.dropped:
        print(f"  {snapshot.dropped} objects or rows had no room in its block")
    objects = _objects(member, args)
    settings = [(o, s) for o in objects for s in o.schema.settings.values() if o.settings]
    if settings:
        print()
        common.table([("setting", "value", "unit", "range", "default", "when", "held by")] + [
            (f"{o.path}.{s.name}", common.text_value(s, o.settings[s.name]), s.unit,
             _short(common.range_of(s)), common.text_value(s, s.default), s.when,
             _holder(member, o, s))
            for o, s in settings
        ])
    if args.reports:
        lines = [
            (f"{o.path}.{r.name}", common.text_value(r, o.report.get(r.name)), common.unit_of(r))
            for o in objects for r in o.schema.reports.values()
        ]
        if lines:
            print()
            common.table([("measurement", "value", "unit"), *lines])
    elif not settings:
        print("  no settings" if not args.patterns else "  no such settings")


def _short(text: str) -> str:
    return text if len(text) <= 44 else text[:41] + "..."


def _holder(member: Member, o: Object, setting: Setting) -> str:
    lease = member.snapshot.holder(o, setting.name)
    if lease is None:
        return ""
    if not lease.expires_ns:
        return f"{lease.who}, while connected"
    return f"{lease.who}, {max(0, lease.expires_ns - member.snapshot.time_ns) / 1e9:.0f} s"


def _setting_json(member: Member, o: Object, s: Setting) -> dict:
    tree = {"value": common.json_value(o.settings.get(s.name)), "type": s.type,
            "default": s.default, "when": s.when}
    if s.unit:
        tree["unit"] = s.unit
    if s.min is not None:
        tree |= {"min": s.min, "max": s.max}
    if s.special:
        tree["special"] = s.special
    if s.values:
        tree["values"] = list(s.values)
    if s.group:
        tree["group"] = s.group
    lease = member.snapshot.holder(o, s.name)
    if lease is not None:
        left = (lease.expires_ns - member.snapshot.time_ns) / 1e9 if lease.expires_ns else None
        tree["held_by"] = {"who": lease.who, "session": lease.session, "left_s": left}
    return tree


def _process_json(member: Member, args: argparse.Namespace) -> dict:
    process, snapshot = member.process, member.snapshot
    objects = []
    for o in _objects(member, args):
        tree = {"path": o.path, "component": o.component, "name": o.name, "id": o.id, "row": o.row,
                "epoch": o.epoch}
        if o.parent:
            tree["parent"] = o.parent
        tree["settings"] = {
            s.name: _setting_json(member, o, s) for s in o.schema.settings.values() if o.settings
        }
        if args.reports:
            tree["age_s"] = (snapshot.time_ns - o.time_ns) / 1e9 if o.time_ns else None
            tree["report"] = {name: common.json_value(value) for name, value in o.report.items()}
        objects.append(tree)
    return {
        "pid": process.pid,
        "program": process.program,
        "instance": f"{process.instance:016x}",
        "start": process.start,
        "heartbeat_age_s": (snapshot.time_ns - snapshot.heartbeat_ns) / 1e9,
        "hung": common.hung_words(member) is not None,
        "dropped": snapshot.dropped,
        "objects": objects,
    }
