# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune get: print values of settings and measurements."""

from __future__ import annotations

import argparse

from . import common


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "get", "values of settings and measurements",
        "Prints settings and measurements, as a settings file has them: NAME = VALUE.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME",
                        help="such as reactor.lcore0.spin_us, endpoint.*.posted")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    members = common.members(args)
    found = common.choose_anything(args.names, members)
    if args.json:
        common.print_document(args, values=[
            {"pid": one.member.process.pid, "name": one.name, "value": common.json_value(one.value),
             "unit": one.field.unit or None}
            for one in found
        ])
        return 0
    for one in found:
        unit = common.unit_of(one.field)
        print(f"{one.name} = {common.text_value(one.field, one.value)}"
              + (f"  # {unit}" if unit else ""))
    return 0
