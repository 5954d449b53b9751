# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune set: change settings.

The settings of one object are one change, which the process applies as a whole or not at all. To
change several objects together, each is first changed under the session's lease. The leases are
released, and the values kept, only when all objects have accepted. If an object refuses, or this
program is killed half-way, the leases end, and all objects return to their former values.

A process has a bounded number of leases. With more than TOGETHER objects, and without --for, no
leases are used: objects changed before a refusal stay changed, and the error message names them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from .._errors import Gone, TuneError
from .._session import SESSION, Answer, Session
from . import common
from .common import Found, Member


TOGETHER = 32  # most objects of a change that is made for all or none


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "set", "change settings",
        "Changes settings while the program runs: all that are given, or none. The process checks "
        "them, and\n"
        "answers with the values that are effective, which may be rounded.",
        "Settings of a group are given together.\n\n"
        "  leat-tune set reactor.lcore0.sleep_min_us=5 reactor.lcore0.sleep_max_us=100\n"
        "  leat-tune set 'reactor.*.idle_policy=block' --for 10m --detach",
    )
    parser.add_argument("pairs", nargs="+", metavar="NAME=VALUE", type=_pair,
                        help="such as reactor.lcore0.spin_us=100; VALUE may be the name of a "
                             "special value")
    parser.add_argument("--for", dest="lease", type=common.duration, metavar="TIME",
                        help="for so long (30s, 5m, 500ms); then, or at Ctrl-C, they go back to "
                             "what they were")
    parser.add_argument("--detach", action="store_true", help="with --for: wait in the background")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name.strip(), value.strip()


class _Change:
    """The change of one object."""

    def __init__(self, first: Found) -> None:
        self.member: Member = first.member
        self.object = first.object
        self.values: dict[str, object] = {}
        self.answer: Answer | None = None


def _changes(args: argparse.Namespace) -> list[_Change]:
    members = common.members(args, rows=False)
    changes: dict[tuple[int, int], _Change] = {}
    for name, text in args.pairs:
        for one in common.choose(name, members):
            key = (one.member.process.instance, one.object.id)
            change = changes.setdefault(key, _Change(one))
            # Parse all values before anything is changed.
            change.values[one.field.name] = one.field.parse(text)
    return list(changes.values())


def run(args: argparse.Namespace) -> int:
    if args.detach and args.lease is None:
        print("leat-tune set: --detach is of use with --for only", file=sys.stderr)
        return 2
    return _detached(args) if args.detach else _run(args, lambda status: None)


def _run(args: argparse.Namespace, report_status) -> int:
    changes = _changes(args)
    sessions: dict[int, Session] = {}
    try:
        for change in changes:
            instance = change.member.process.instance
            if instance not in sessions:
                sessions[instance] = change.member.process.session(common.AGENT)
        _apply(changes, sessions, args.lease)
        _print(changes, args)
        report_status(0)
        if args.lease is not None:
            _hold(list(sessions.values()), args)
        return 0
    finally:
        for session in sessions.values():
            session.close()


def _apply(changes: list[_Change], sessions: dict[int, Session], lease: float | None) -> None:
    together = 1 < len(changes) <= TOGETHER
    goes_back = together or lease is not None
    for change in changes:
        session = sessions[change.member.process.instance]
        try:
            change.answer = session.set(
                change.object, change.values,
                lease if lease is not None else SESSION if together else None,
            )
        except TuneError as e:
            done = [c.object.path for c in changes if c.answer is not None]
            words = (
                f"; what was changed {'goes back' if goes_back else 'stays'}: {', '.join(done)}"
                if done else ""
            )
            e.strerror = f"{change.object.path}: {e}{words}"
            raise
    if together and lease is None:
        for session in sessions.values():
            session.release(keep=True)


def _print(changes: list[_Change], args: argparse.Namespace) -> None:
    if args.json:
        common.print_document(
            args,
            settings=[
                {
                    "pid": c.member.process.pid,
                    "name": f"{c.object.path}.{name}",
                    "asked": value,
                    "value": common.json_value(c.answer.effective[name]),
                    "was": common.json_value(c.object.settings.get(name)),
                    "when": c.object.schema.settings[name].when,
                    "epoch": c.answer.epoch,
                    "for_s": args.lease,
                }
                for c in changes
                for name, value in c.values.items()
            ],
        )
        return
    for change in changes:
        for name, value in change.values.items():
            setting = change.object.schema.settings[name]
            effective = change.answer.effective[name]
            notes = [setting.unit] if setting.unit else []
            if effective != value:
                notes.append(f"asked for {setting.format(value)}")
            if setting.when == "next":
                notes.append("for what is made from now on")
            print(f"{change.object.path}.{name} = {common.text_value(setting, effective)}"
                  + (f"  # {'; '.join(notes)}" if notes else ""))
    sys.stdout.flush()


def _hold(sessions: list[Session], args: argparse.Namespace) -> None:
    """Hold the leases until they end. The processes restore the values themselves, in any case."""
    end = time.monotonic() + args.lease
    if not args.json and not args.detach:
        print(f"until {common.clock(time.time() + args.lease)}, or Ctrl-C; "
              "then they go back to what they were", file=sys.stderr)
    while (left := end - time.monotonic()) > 0:
        for session in sessions:
            try:
                for _ in session.samples(min(0.2, max(0.0, left))):
                    pass
            except Gone:
                if len(sessions) == 1:
                    raise
                session.close()
        sessions = [s for s in sessions if not s.closed]


def _detached(args: argparse.Namespace) -> int:
    """Change the settings in a child, which holds the leases; return when the values are set.

    The child begins the session, since a session can't be used after a fork.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid > 0:
        os.close(write_end)
        with open(read_end, "rb") as pipe:
            status = pipe.read(1)
        return status[0] if status else 1
    os.close(read_end)
    os.setsid()

    def report_status(status: int) -> None:
        sys.stdout.flush()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.write(write_end, bytes([status]))

    # On an error the child prints it and ends; the parent then reads the end of the pipe.
    return _run(args, report_status)
