# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune save: write a settings file."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time

from .._errors import Unknown
from .._schema import Setting
from .._snapshot import Object
from . import common
from .common import Member

WHEN = {"now": "", "next": "; with the next thing that is made", "start": "; only at start"}


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "save", "write a settings file",
        "Writes the settings of a process that differ from their defaults, for --settings FILE of "
        "its next\nstart. A FILE that is there is replaced as a whole.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", default="-",
                        help="-, the default: to stdout")
    parser.add_argument("--all", action="store_true", help="those that have their default, too")
    return parser


def run(args: argparse.Namespace) -> int:
    members = common.members(args, rows=False)
    if len(members) > 1:
        who = ", ".join(map(str, members))
        raise Unknown(f"there are several processes: {who}; say which by --pid or --program")
    text = "".join(line + "\n" for line in lines_of(members[0], args.all))
    if args.file == "-":
        sys.stdout.write(text)
    else:
        write(args.file, text)
    return 0


def lines_of(member: Member, every: bool) -> list[str]:
    """Return the lines of a settings file; every: with settings that have their defaults."""
    process = member.process
    lines = [f"# Settings of {process.program}, process {process.pid}, at "
             f"{common.clock(time.time())}."]
    for o in member.snapshot.objects:
        wanted = {s.name for s in o.schema.settings.values()
                  if o.settings and (every or o.settings[s.name] != s.default)}
        for group in o.schema.groups.values():
            # In a file, too, all settings of a group must be given together.
            if wanted & set(group.settings):
                wanted |= set(group.settings)
        if wanted:
            lines += ["", f"# {o.schema.title}: {o.name}"]
        for s in o.schema.settings.values():
            if s.name in wanted:
                lines.append(_line(o, s))
    return lines


def _line(o: Object, s: Setting) -> str:
    # The object's name in a file is a pattern: escape it for fnmatch(3).
    name = re.sub(r"([\\*?\[])", r"\\\1", o.name)
    value = s.format(o.settings[s.name])
    about = f"{s.unit + ', ' if s.unit else ''}{common.range_of(s)}{WHEN[s.when]}"
    if s.type == "string":
        return f"# {about}\n{o.component}.{name}.{s.name} = \"{value}\""
    line = f"{o.component}.{name}.{s.name} = {value}"
    # A file can't contain a name with "=": write the line as a comment.
    return f"{'# ' if '=' in name else ''}{line:<48}  # {about}"


def write(path: str, text: str) -> None:
    """Replace a file atomically: on an error the old file stays."""
    directory = os.path.dirname(path) or "."
    umask = os.umask(0)
    os.umask(umask)
    fd, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=directory)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, 0o666 & ~umask)
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
