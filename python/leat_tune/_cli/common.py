# SPDX-License-Identifier: BSD-3-Clause
"""Common to subcommands: choosing processes, settings and measurements, and printing values."""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import re
import sys
import time
from dataclasses import dataclass

from .._dir import default_dir
from .._errors import Gone, TimedOut, TuneError, Unknown, nearest
from .._histogram import Histogram, bucket_begin
from .._process import Process, scan, sweep
from .._schema import Field, Report, Setting
from .._session import Session
from .._snapshot import Object, Snapshot

AGENT = "leat-tune"
HUNG = 3.0  # seconds since the last heartbeat after which a process counts as hung
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)?\Z")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def warn(words: object) -> None:
    print(f"leat-tune: warning: {words}", file=sys.stderr)


def duration(text: str) -> float:
    """Argument type: parse 30s, 1.5m, 500ms, 2h, or seconds without a unit. Return seconds."""
    match = _DURATION.match(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0.001 <= seconds <= 30 * 86400:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a time from 1ms to 720h, such as 30s or 5m"
        )
    return seconds


def positive(text: str) -> int:
    """Argument type: parse an integer from 1."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1")
    return int(text)


def command(
    sub, name: str, help: str, about: str = "", examples: str = ""
) -> argparse.ArgumentParser:
    """Create a subcommand's parser, with the options that choose processes."""
    parser = sub.add_parser(
        name, help=help, description=about or help, epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_where(parser)
    return parser


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose processes."""
    group = parser.add_argument_group("which processes")
    group.add_argument("--pid", type=positive, action="append", metavar="PID",
                       help="this one; may be given again")
    group.add_argument("--program", action="append", metavar="NAME",
                       help="those of this program, or pattern; may be given again")
    group.add_argument("--tune-dir", metavar="DIR",
                       help="their directory (default: that of this user)")


@dataclass(frozen=True)
class Member:
    """A chosen process, and its snapshot."""

    process: Process
    snapshot: Snapshot

    def __str__(self) -> str:
        return f"{self.process.pid} ({self.process.program})"


@dataclass(frozen=True)
class Found:
    """A setting or a measurement of an object of a process."""

    member: Member
    object: Object
    field: Field

    @property
    def name(self) -> str:
        return f"{self.object.path}.{self.field.name}"

    @property
    def value(self):
        of = self.object.settings if isinstance(self.field, Setting) else self.object.report
        return of.get(self.field.name)


def members(args: argparse.Namespace, rows: bool = True) -> list[Member]:
    """Return the processes that args chooses; print errors of other files as warnings."""
    # Remove the files of killed processes, which could not do it themselves.
    sweep(args.tune_dir)
    processes, problems = scan(args.tune_dir)
    for problem in problems:
        warn(problem)
    found = []
    for process in processes:
        if args.pid and process.pid not in args.pid:
            continue
        if args.program and not any(
            fnmatch.fnmatchcase(process.program, one) for one in args.program
        ):
            continue
        try:
            found.append(Member(process, process.snapshot(rows)))
        except TuneError as e:
            warn(f"process {process.pid} ({process.program}): {e}")
    if not found:
        if args.pid or args.program:
            there = ", ".join(f"{p.pid} ({p.program})" for p in processes) or "none"
            raise Unknown(f"no such process; there are: {there}")
        where = f"in {args.tune_dir}" if args.tune_dir else f"of this user in {default_dir()}"
        raise Unknown(
            f"there is no leat process {where}: none runs, or with --no-tune, or another --tune-dir"
        )
    return found


def of_pid(name: str, those: list[Member]) -> tuple[str, list[Member]]:
    """Split a leading PID: off a name. Return the rest, and the processes to look in."""
    pid, colon, rest = name.partition(":")
    if not colon or not pid.isascii() or not pid.isdigit():
        return name, those
    chosen = [m for m in those if m.process.pid == int(pid)]
    if not chosen:
        raise Unknown(f"there is no process {pid}; there are: " + ", ".join(map(str, those)))
    return rest, chosen


def settings_of(member: Member, name: str) -> list[Found]:
    """Return the settings that a name or pattern means; raise Unknown if there are none."""
    return [Found(member, o, s) for o, s in member.snapshot.resolve(name)]


def anything_of(member: Member, name: str) -> list[Found]:
    """Return the settings and measurements that a name or pattern means, also those of rows."""
    component, _, rest = name.partition(".")
    pattern, dot, last = rest.rpartition(".")
    found = []
    for o in member.snapshot.objects:
        above, _, own = o.path.partition(".")
        if o.row and "/" not in pattern and o.component != component:
            continue
        if not fnmatch.fnmatchcase(above, component) and not (o.row and o.component == component):
            continue
        if dot and own != pattern and not fnmatch.fnmatchcase(own, pattern) and o.name != pattern:
            continue
        for field in (*o.schema.settings.values(), *o.schema.reports.values()):
            aliases = field.aliases if isinstance(field, Setting) else ()
            if fnmatch.fnmatchcase(field.name, last) or last in aliases:
                found.append(Found(member, o, field))
    if found:
        return found
    of_reports = {
        r for o in member.snapshot.objects for r in o.schema.reports if o.component == component
    }
    alike = nearest(last, of_reports, 1)
    try:
        member.snapshot.resolve(name)
    except Unknown as e:
        if alike and not e.nearest:
            raise Unknown(e.strerror, alike) from None
        raise
    raise Unknown(f"there is no '{name}'")


def choose_anything(names: list[str], members: list[Member]) -> list[Found]:
    """Return the settings and measurements that names mean.

    Processes show rows only on request. If a name is not found, ask them for rows and look again.
    """
    try:
        return [one for name in names for one in choose(name, members, anything_of)]
    except Unknown:
        now = refreshed(members)
        return [one for name in names for one in choose(name, now, anything_of)]


def choose(name: str, those: list[Member], resolve=settings_of) -> list[Found]:
    """Return what resolve() finds in the one process that has the name; else raise Unknown."""
    rest, candidates = of_pid(name, those)
    found: list[list[Found]] = []
    problem: Unknown | None = None
    for member in candidates:
        try:
            found.append(resolve(member, rest))
        except Unknown as e:
            if problem is None or not problem.nearest:
                problem = e
    if not found:
        assert problem is not None
        raise problem
    if len(found) > 1:
        who = ", ".join(str(one[0].member) for one in found)
        raise Unknown(
            f"'{name}' is of several processes: {who}; say which by --pid, --program, or PID:{rest}"
        )
    return found[0]


def hung_words(member: Member) -> str | None:
    """Return a message if the process is hung, or None."""
    age = (member.snapshot.time_ns - member.snapshot.heartbeat_ns) / 1e9
    if age > HUNG:
        return f"process {member} was last there {age:.0f} s ago: it is stopped, or hangs"
    return None


# ---- values ----


def json_value(value):
    """Return a value as JSON can represent it: null for infinity and NaN."""
    if isinstance(value, Histogram):
        return {
            "count": value.count,
            "sum_ns": value.sum,
            **{
                f"p{str(p).replace('.', '')}_ns": round(value.percentile(p), 1)
                for p in (50, 90, 99, 99.9)
            },
            "buckets": [[bucket_begin(i) if i else 0, n] for i, n in enumerate(value.buckets) if n],
        }
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def text_value(field: Field, value) -> str:
    """Return a value as text, without its unit."""
    if value is None:
        return "-"
    if isinstance(value, Histogram):
        if not value.count:
            return "none yet"
        return f"{value.count}, p50 {value.percentile(50):.0f} p99 {value.percentile(99):.0f} ns"
    if isinstance(value, str) and field.type == "string":
        return f'"{value}"'
    return field.format(value)


def unit_of(field: Field) -> str:
    """Return the unit to print after text_value(); "" if that text includes the unit."""
    return "" if isinstance(field, Report) and field.kind == "histogram" else field.unit


def range_of(setting: Setting) -> str:
    """Describe the values of a setting: "1 to 100, automatic"."""
    if setting.type in ("integer", "real"):
        return ", ".join([f"{setting.format(setting.min)} to {setting.format(setting.max)}"
                          if setting.min not in setting.special.values()
                          else f"{setting.min} to {setting.max}", *setting.special])
    if setting.type == "bool":
        return "true, false"
    return ", ".join(setting.values) if setting.type == "enum" else f"{setting.size - 1} bytes"


def clock(seconds: float) -> str:
    """Return a time of day, given in seconds since the epoch, as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def table(lines: list[tuple[str, ...]], indent: str = "  ") -> None:
    """Print lines in columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print((indent + "  ".join(cell.ljust(width) for cell, width in zip(line, widths))).rstrip())


def print_json(tree, indent: int | None = 1) -> None:
    print(json.dumps(tree, indent=indent, allow_nan=False), flush=True)


def print_document(args: argparse.Namespace, **tree) -> None:
    """Print the JSON document of a command.

    New members may be added; version increases when a member changes its meaning or is removed.
    """
    print_json({"schema": "leat-tune", "version": 1, "leat": args.leat_version, **tree})


def watch_or_warn(member: Member, interval: float, rows: bool) -> Session | None:
    """Begin a session in which the process updates its values each interval seconds.

    Return None, with a warning, if the process does not answer.
    """
    try:
        session = member.process.session(AGENT, timeout=1.0)
        session.watch(interval, rows=rows)
        return session
    except (TimedOut, Gone) as e:
        warn(f"{e}; its values are those of when it was last there")
        return None


def refreshed(members: list[Member]) -> list[Member]:
    """Return the same processes with current values and rows; warn of those that do not answer."""
    found = []
    for member in members:
        try:
            with member.process.session(AGENT, timeout=1.0) as session:
                found.append(Member(member.process, session.refresh()))
        except (TimedOut, Gone) as e:
            warn(f"{e}; its values are those of when it was last there")
            found.append(member)
    return found
