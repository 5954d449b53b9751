# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune history: print changes of settings."""

from __future__ import annotations

import argparse
import time

from .._block import Change
from .._errors import TuneError
from .._process import Process
from . import common

POLL = 0.1  # seconds between two reads of a block, which cost its process nothing


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "history", "changes of settings: who, when, from what to what",
        "Prints changes of settings, oldest first; a process keeps the newest 256.",
    )
    parser.add_argument("--follow", "-f", action="store_true",
                        help="those to come, too, until Ctrl-C")
    parser.add_argument("--json", action="store_true",
                        help="as JSON; with --follow an object for each line")
    return parser


def change_json(pid: int, c: Change) -> dict:
    return {"pid": pid, "number": c.number, "time": c.real_ns / 1e9, "name": f"{c.object}.{c.name}",
            "from": c.old, "to": c.new, "why": c.why, "who": c.who, "epoch": c.epoch}


def change_text(pid: int, c: Change) -> str:
    return (
        f"{common.clock(c.real_ns / 1e9)}  {pid}  {c.object}.{c.name}  "
        f"{c.old} -> {c.new}  ({c.why}, {c.who})"
    )


def run(args: argparse.Namespace) -> int:
    members = common.members(args, rows=False)
    changes = sorted(
        ((m.process.pid, c) for m in members for c in m.snapshot.changes),
        key=lambda one: one[1].real_ns,
    )
    if args.json and not args.follow:
        common.print_document(args, changes=[change_json(pid, c) for pid, c in changes])
        return 0
    for pid, c in changes:
        _print(pid, c, args)
    if args.follow:
        last = {m.process: max([c.number for c in m.snapshot.changes], default=0) for m in members}
        _follow(last, args)
    return 0


def _print(pid: int, c: Change, args: argparse.Namespace) -> None:
    if args.json:
        common.print_json(change_json(pid, c), indent=None)
    else:
        print(change_text(pid, c), flush=True)


def _follow(last: dict[Process, int], args: argparse.Namespace) -> None:
    while last:
        time.sleep(POLL)
        for process in list(last):
            alive = process.alive()
            try:
                changes = process.snapshot(rows=False).changes
            except TuneError as e:
                common.warn(e)
                changes, alive = [], False
            for c in changes:
                if c.number > last[process]:
                    if c.number > last[process] + 1:
                        common.warn(
                            f"{c.number - last[process] - 1} changes of process {process.pid} "
                            "were missed"
                        )
                    last[process] = c.number
                    _print(process.pid, c, args)
            if not alive:
                common.warn(f"process {process.pid} ({process.program}) has ended")
                del last[process]
