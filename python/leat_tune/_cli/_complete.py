# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune complete: print words for the completion of shells, one per line, without errors."""

from __future__ import annotations

import argparse
import sys

from .._errors import TuneError
from . import common


def add_parser(sub) -> argparse.ArgumentParser:
    parser = sub.add_parser("complete", description="Words that can follow, one a line: for "
                                                    "shells.")
    parser.add_argument(
        "what", choices=("options", "names", "settings", "objects", "pids", "programs")
    )
    parser.add_argument("word", nargs="?", default="", help="what is there by now")
    common.add_where(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    if args.what == "options":
        words = options(args.word)
    else:
        try:
            words = live(args)
        except TuneError:
            return 0
    for word in sorted(set(words)):
        if args.what == "options" or word.startswith(args.word):
            print(word)
    sys.stdout.flush()
    return 0


def options(command: str) -> list[str]:
    """Return the options of a subcommand, or all subcommands if it is none."""
    from . import parser_of

    parser = parser_of("")
    sub = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    if command not in sub.choices:
        return [*sub.choices, "--help", "--version"]
    return [
        o for a in sub.choices[command]._actions for o in a.option_strings if o.startswith("--")
    ]


def live(args: argparse.Namespace) -> list[str]:
    """Return names that processes have, or, after "=", values of enums, bools and special ones."""
    members = common.members(args, rows=False)
    if args.what == "pids":
        return [str(m.process.pid) for m in members]
    if args.what == "programs":
        return [m.process.program for m in members]
    objects = [o for m in members for o in m.snapshot.objects]
    if args.what == "objects":
        return [o.path for o in objects]
    name, equals, _ = args.word.partition("=")
    if equals:
        words = []
        for member in members:
            try:
                found = common.settings_of(member, name)
            except TuneError:
                continue
            for one in found:
                values = (
                    ("true", "false") if one.field.type == "bool"
                    else (*one.field.values, *one.field.special)
                )
                words += [f"{name}={value}" for value in values]
        return words
    words = [f"{o.path}.{s}" for o in objects for s in o.schema.settings if o.settings]
    if args.what == "names":
        words += [f"{o.path}.{r}" for o in objects for r in o.schema.reports]
    return words
