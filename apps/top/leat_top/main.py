# SPDX-License-Identifier: BSD-3-Clause
"""Parse the arguments, and run the program."""

from __future__ import annotations

import argparse
import curses
import locale
import os
import signal
import sys
import time

import leat_tune

from .app import App
from .batch import BatchOptions, run_batch
from .format import Glyphs
from .grid import Grid
from .known import sortable
from .source import Source, Wanted
from .terminal import Terminal
from .wake import Wake

INTERVAL_MIN, INTERVAL_MAX = 0.01, 3600.0
_WIDTH = 160  # columns of --batch when standard output is not a terminal
_EPILOG = """\
Processes are found in a directory of this user: --tune-dir, or else that which leat programs
use without that option. Keys of the terminal view: press ? there. leat-top(1) describes all.

Exit status: 0, 1 after a failure, 2 for wrong arguments, 130 after Ctrl-C."""


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not INTERVAL_MIN <= value <= INTERVAL_MAX:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number of seconds from {INTERVAL_MIN:g} to {INTERVAL_MAX:g}"
        )
    return value


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 999999999")
    return int(text)


def parser(version: str) -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="leat-top",
        description="View of every leat process of this user: lcores, endpoints, latencies, "
        "settings.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = p.add_argument_group("which processes")
    which.add_argument(
        "--pid", type=_positive, action="append", metavar="PID", help="only this one; repeatable"
    )
    which.add_argument(
        "--program", action="append", metavar="NAME",
        help="only of this name, which may be a pattern (leat-*); repeatable",
    )
    which.add_argument("--tune-dir", metavar="DIR", help="where they are found")
    how = p.add_argument_group("what is shown")
    how.add_argument(
        "-d",
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="SECONDS",
        help="time between two looks (1)",
    )
    how.add_argument(
        "--sort", choices=sortable(), metavar="COLUMN",
        help=f"sort tables that have it by it: {', '.join(sortable())}",
    )
    how.add_argument("--reverse", action="store_true", help="the other way round; with --sort")
    how.add_argument(
        "--filter", default="", metavar="TEXT", help="only rows with this text; with --batch"
    )
    how.add_argument(
        "--color", choices=("never", "auto", "always"), default="auto",
        help="auto: on a terminal that has colours",
    )
    how.add_argument("--ascii", action="store_true", help="no characters but those of ASCII")
    out = p.add_argument_group("without a terminal")
    mode = out.add_mutually_exclusive_group()
    mode.add_argument(
        "--batch", action="store_true", help="tables on standard output, for each interval"
    )
    mode.add_argument(
        "--json",
        action="store_true",
        help="a JSON document, in a line of its own, for each interval",
    )
    out.add_argument(
        "-n", "--count", type=_positive, metavar="N", help="so many, then end; with --batch, --json"
    )
    p.add_argument("--version", action="version", version=f"leat-top {version}")
    return p


def main(arguments: list[str] | None = None, version: str = "(not installed)") -> int:
    p = parser(version)
    args = p.parse_args(arguments)
    batch = args.batch or args.json
    if args.count is not None and not batch:
        p.error("-n is for --batch and --json")
    if args.filter and not args.batch:
        p.error("--filter is for --batch; in the terminal view press /")
    if args.reverse and args.sort is None:
        p.error("--reverse needs --sort")
    locale.setlocale(locale.LC_ALL, "")
    utf8 = locale.nl_langinfo(locale.CODESET).upper() == "UTF-8" and not args.ascii
    wanted = Wanted(args.tune_dir, frozenset(args.pid or ()), tuple(args.program or ()))
    try:
        with Wake() as wake:
            source = Source(wanted, wake.notify, args.interval)
            try:
                if batch:
                    _batch(args, source, wake, utf8)
                else:
                    _view(args, source, wake, utf8)
            finally:
                source.close()
        return wake.end()
    except leat_tune.TuneError as e:
        print(f"leat-top: {e}", file=sys.stderr)
    except curses.error as e:
        term = "the type of the terminal is not known" if "setupterm" in str(e) else str(e)
        print(f"leat-top: {term}; --batch needs none", file=sys.stderr)
    except OSError as e:
        print(f"leat-top: {e}", file=sys.stderr)
    return 1


def _batch(args, source: Source, wake: Wake, utf8: bool) -> None:
    # End silently when the reader of the output ends, as other filters do.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(errors="replace")
    terminal = sys.stdout.isatty()
    width = os.get_terminal_size(1).columns if terminal else _WIDTH
    options = BatchOptions(
        json=args.json,
        count=args.count,
        width=max(width, 20),
        colors=args.color == "always" or args.color == "auto" and terminal,
        filter=args.filter,
        sort=args.sort,
        reverse=args.reverse,
    )
    run_batch(source, wake, options, Glyphs(utf8))


def _view(args, source: Source, wake: Wake, utf8: bool) -> None:
    if not (os.isatty(0) and os.isatty(1)):
        raise OSError("standard input or output is not a terminal; use --batch or --json")
    curses.setupterm()
    sort = (args.sort, args.reverse) if args.sort is not None else None
    app = App(Glyphs(utf8), args.interval, source.change, sort)
    # Read once before curses begins, so that an unsafe directory is reported normally.
    app.update(source.read(), source.problems)
    source.require()
    with Terminal(args.color, utf8) as terminal:
        loop(app, source, wake, terminal)


def loop(app: App, source: Source, wake: Wake, terminal: Terminal) -> None:
    """Run until q, a signal, or the end of the terminal."""
    # Read a second time soon: before that there are no rates.
    due = time.monotonic() + min(0.3, app.interval)
    while not app.quit and not wake.stop:
        if wake.resized:
            wake.resized = False
            terminal.resized()
        grid = Grid(*terminal.size())
        app.draw(grid)
        terminal.show(grid)
        there = wake.wait(due, terminal=True)
        for key in terminal.keys():
            app.key(key)
        if not there:
            return
        for outcome in source.outcomes():
            app.answered(outcome)
            app.refreshed = True
        now = time.monotonic()
        if app.interval != source.interval:
            source.set_interval(app.interval)
        if app.refreshed or now >= due:
            if not app.paused:
                look(app, source)
            app.refreshed = False
            due = now + app.interval


def look(app: App, source: Source) -> None:
    try:
        app.update(source.read(), source.problems)
    except leat_tune.DirError as e:
        app.say(str(e), "bad")
