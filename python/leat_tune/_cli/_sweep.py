# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune sweep: remove the files of processes that were killed."""

from __future__ import annotations

import argparse

from .._process import sweep
from . import common


def add_parser(sub) -> argparse.ArgumentParser:
    parser = sub.add_parser(
        "sweep", help="remove files of processes that were killed",
        description="Removes what processes left that were killed. Other commands, and programs "
                    "that "
        "start, do so, too.",
    )
    parser.add_argument("--tune-dir", metavar="DIR",
                        help="their directory (default: that of this user)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    removed = sweep(args.tune_dir)
    if args.json:
        common.print_document(args, removed=removed)
    else:
        print(f"{removed} file{'' if removed == 1 else 's'} removed")
    return 0
