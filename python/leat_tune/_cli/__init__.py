# SPDX-License-Identifier: BSD-3-Clause
"""The program leat-tune. Each subcommand is a module of this package with two functions:

    add_parser(sub)     create its argument parser
    run(args)           run it, and return the exit status
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from typing import NoReturn

from .._errors import TuneError

# In the order of --help.
COMMANDS = ("list", "get", "set", "watch", "history", "save", "export", "agent", "mlos", "sweep")
#: For the completion of shells: not in any help or message.
HIDDEN = "complete"

USAGE = "leat-tune COMMAND [OPTION]... [NAME]..."
ABOUT = """\
Read and change settings of running leat processes of this user. NAME of a setting or a measurement:

  reactor.lcore0.spin_us       COMPONENT.OBJECT.NAME
  reactor.*.spin_us            OBJECT and NAME may be patterns
  reactor.spin_us              of all objects of a component
  1234:reactor.lcore0.spin_us  of process 1234

A process is chosen by --pid, --program or PID:, where more than one has a setting of that name."""
EXAMPLES = """\
Exit: 0; 1 failed, or refused; 2 wrong usage; 128 + N ended by signal N (130: Ctrl-C).

  leat-tune list
  leat-tune set reactor.lcore0.idle_policy=sleep --for 30s
  leat-tune watch endpoint.*.posted --interval 0.5
  leat-tune save site.conf      then, at the next start: --settings site.conf"""


class Parser(argparse.ArgumentParser):
    """Its errors name the --help of the command."""

    def error(self, message: str) -> NoReturn:
        super().error(f"{message} (see {self.prog} --help)")


def parser_of(version: str, commands: tuple[str, ...] = COMMANDS) -> argparse.ArgumentParser:
    """Return the program's argument parser, with these subcommands."""
    parser = Parser(
        prog="leat-tune", usage=USAGE, description=ABOUT, epilog=EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"leat-tune {version}".rstrip())
    sub = parser.add_subparsers(
        prog="leat-tune", metavar="COMMAND", required=True, title="commands"
    )
    for name in commands:
        module = importlib.import_module(f"{__name__}._{name}")
        command = module.add_parser(sub)
        command.allow_abbrev = False
        command.set_defaults(run=module.run, parser=command, leat_version=version)
    return parser


def command_first(argv: list[str]) -> list[str]:
    """Move options that choose processes from before COMMAND to after it."""
    i = 0
    while i < len(argv) and argv[i].split("=", 1)[0] in ("--pid", "--program", "--tune-dir"):
        i += 1 if "=" in argv[i] else 2
    return argv[i : i + 1] + argv[:i] + argv[i + 1 :] if i < len(argv) else argv


def main(argv: list[str] | None = None, version: str = "") -> int:
    """Run the program, and return its exit status."""
    # End silently when the reader of the output ends, such as head.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    argv = command_first(sys.argv[1:] if argv is None else argv)
    commands = (HIDDEN,) if argv[:1] == [HIDDEN] else COMMANDS
    args, unknown = parser_of(version, commands).parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status = args.run(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except TuneError as e:
        print(f"leat-tune: {e}", file=sys.stderr)
    except OSError as e:
        where = f"{os.fsdecode(e.filename)}: " if e.filename else ""
        print(f"leat-tune: {where}{e.strerror or e}", file=sys.stderr)
    return 1
