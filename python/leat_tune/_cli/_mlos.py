# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune mlos: write files with which mlos_bench (github.com/microsoft/MLOS) tunes a program.

    tunables.json     groups of settings, in the format of tunable-params-schema.json
    environment.json  a LocalEnv, which runs trial.py and reads results.csv
    service.json      LocalExecService
    optimizer.json    MlosCoreOptimizer, with the goal's direction
    mlos_bench.json   refers to the other files, for mlos_bench --config
    trial.py          one trial by leat-tune agent --try, which sets, waits, measures, and restores
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from .. import agent
from .._errors import TuneError, Unknown
from .._schema import Setting
from .._snapshot import Object
from ..agent._measures import objects
from . import common

_SCHEMAS = (
    "https://raw.githubusercontent.com/microsoft/MLOS/main/mlos_bench/mlos_bench/config/schemas/"
)
# The cost of a change, for optimisers that use it: the same as in leat-tune-gen --mlos.
_COSTS = {"now": 1, "next": 2}
_SETTINGS_MAX = 256
_SCRIPT = '''\
#!/usr/bin/env python3
"""One trial for mlos_bench: trial.py SETTINGS.json RESULTS.csv. Made by leat-tune mlos; \
change it as you like."""

import csv
import json
import subprocess
import sys

COMMAND = {command}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    words = [f"{{name}}={{value}}" for name, value in settings.items()]
    done = subprocess.run([*COMMAND, *(f"--try={{word}}" for word in words)], \
stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        # Refused, or a guard was broken: mlos_bench counts the trial as failed.
        print(done.stdout)
        return done.returncode
    tree = json.loads(done.stdout)
    with open(sys.argv[2], "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["metric", "value"])
        rows.writerow(["score", tree["value"]])
        rows.writerows(tree["measures"].items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "mlos", "write files for mlos_bench, another optimiser",
        "Writes what mlos_bench needs to tune a running program with its optimisers: tunable "
        "groups, an\n"
        "environment, and a script that makes a trial by leat-tune agent --try.",
        "  leat-tune mlos DIR --goal 'max calls_per_second where p99_us < 50' --set batch,window\n"
        "  mlos_bench --config DIR/mlos_bench.json",
    )
    parser.add_argument("dir", metavar="DIR", help="where to write; it is made if it is not there")
    parser.add_argument("--goal", required=True, metavar="GOAL", help="as of leat-tune agent")
    parser.add_argument("--set", action="append", default=[], metavar="NAME,...",
                        help="settings (default: all that can change while the program runs)")
    parser.add_argument("--object", metavar="PATTERN",
                        help="objects meant by names that have no COMPONENT.OBJECT (default: all)")
    parser.add_argument("--trials", type=common.positive, default=100, metavar="N",
                        help="(default: 100)")
    parser.add_argument("--trial-seconds", type=float, default=2.0, metavar="S",
                        help="what a trial measures (default: 2)")
    parser.add_argument("--warm-up", type=float, default=0.5, metavar="S",
                        help="before each (default: 0.5)")
    return parser


def tunable(setting: Setting, value: Any) -> dict[str, Any]:
    """Return a setting as an mlos_bench tunable, whose default is the program's current value."""
    meta: dict[str, Any] = {"when": setting.when}
    if setting.unit:
        meta["unit"] = setting.unit
    if setting.special:
        meta["special_names"] = list(setting.special)
    found: dict[str, Any] = {"description": setting.help, "meta": meta}
    if setting.type in ("bool", "enum"):
        values = list(setting.values) if setting.type == "enum" else ["false", "true"]
        return {**found, "type": "categorical", "default": setting.format(value), "values": values}
    found |= {"type": "int" if setting.type == "integer" else "float", "default": value,
              "range": [setting.min, setting.max]}
    if setting.special:
        found["special"] = list(setting.special.values())
    if setting.log and setting.min > 0:
        found["log"] = True
    if setting.quantum:
        bins = int((setting.max - setting.min) / setting.quantum) + 1
        if bins > 1:
            found["quantization_bins"] = bins
    return found


def groups(those: list[tuple[Object, Setting]]) -> dict[str, Any]:
    """Return tunable groups, by name.

    Each group of an object's description becomes a tunable group, and the object's settings that
    are in no group become another.
    """
    found: dict[str, Any] = {}
    for o, setting in those:
        name = o.path if setting.group is None else f"{o.path}.{setting.group}"
        about = o.schema.title if setting.group is None else o.schema.groups[setting.group].help
        group = found.setdefault(name, {"description": about, "cost": 0, "params": {}})
        group["cost"] = max(group["cost"], _COSTS[setting.when])
        group["params"][f"{o.path}.{setting.name}"] = tunable(setting, o.settings[setting.name])
    return found


def _targets(args: argparse.Namespace, member: common.Member) -> agent.Targets:
    """Return the settings that --set names, without objects that refuse a change."""
    words = [word.partition("=")[0] for one in args.set for word in one.split(",")]
    refused = agent.refusing(member.process, agent.present(words, member.snapshot, args.object))
    return agent.targets(words, member.snapshot, args.object, most=_SETTINGS_MAX, refused=refused)


def _chosen(
    args: argparse.Namespace, snapshot, targets: agent.Targets | None
) -> list[tuple[Object, Setting]]:
    """Return the settings to search, with their objects.

    Settings that can't be searched are left out, or, if the user named them, refused.
    """
    every = objects(snapshot, args.object)
    if targets is not None:
        by_path = objects(snapshot)
        found = []
        for target in targets.targets:
            found += [(by_path[path], target.setting) for path in target.paths]
        named = {(o.path, s.name) for o, s in found}
        # The settings of a group are set together: add those that were not named.
        for o, setting in list(found):
            group = o.schema.groups.get(setting.group)
            for name in group.settings if group is not None else ():
                if (o.path, name) not in named:
                    named.add((o.path, name))
                    found.append((o, o.schema.settings[name]))
        return found
    return [
        (o, setting)
        for o in every.values() if o.settings
        for setting in o.schema.settings.values()
        if setting.when in _COSTS and setting.type != "string"
        and (setting.min is None or setting.min < setting.max)
    ]


def run(args: argparse.Namespace) -> int:
    members = common.members(args, rows=False)
    if len(members) > 1:
        raise Unknown(
            "there are several processes: " + ", ".join(map(str, members))
            + "; say which by --pid or --program"
        )
    member = members[0]
    try:
        goal = agent.Goal.parse(args.goal)
        targets = _targets(args, member) if args.set else None
        for name in goal.measures:
            agent.resolve(name, member.snapshot, args.object,
                          components=targets.components if targets is not None else ())
        those = _chosen(args, member.snapshot, targets)
        if not those:
            raise agent.SettingError("nothing of the program can be set while it runs")
    except ValueError as e:
        print(f"leat-tune: {e}", file=sys.stderr)
        return 2
    command = [
        "leat-tune",
        "agent",
        "--json",
        "--program",
        member.process.program,
        "--goal",
        args.goal,
        "--trial-seconds",
        str(args.trial_seconds),
        "--warm-up",
        str(args.warm_up),
    ]
    for option, value in (
        ("--object", args.object),
        ("--tune-dir", args.tune_dir and os.path.abspath(args.tune_dir)),
    ):
        if value:
            command += [option, value]
    tunables = groups(those)
    where = os.path.abspath(args.dir)
    files: dict[str, Any] = {
        "tunables.json": {"$schema": _SCHEMAS + "tunables/tunable-params-schema.json", **tunables},
        "service.json": {
            "$schema": _SCHEMAS + "services/service-schema.json",
            "class": "mlos_bench.services.local.local_exec.LocalExecService",
        },
        "environment.json": {
            "$schema": _SCHEMAS + "environments/environment-schema.json",
            "name": f"{member.process.program}",
            "class": "mlos_bench.environments.local.local_env.LocalEnv",
            "include_services": ["service.json"],
            "include_tunables": ["tunables.json"],
            "config": {
                "tunable_params": list(tunables),
                "dump_params_file": "settings.json",
                "run": ["trial.py settings.json results.csv"],
                "read_results_file": "results.csv",
            },
        },
        "optimizer.json": {
            "$schema": _SCHEMAS + "optimizers/optimizer-schema.json",
            "class": "mlos_bench.optimizers.MlosCoreOptimizer",
            "config": {
                "optimizer_type": "SMAC",
                "max_suggestions": args.trials,
                "optimization_targets": {"score": "max" if goal.maximum else "min"},
            },
        },
        "mlos_bench.json": {
            "$schema": _SCHEMAS + "cli/cli-schema.json",
            "config_path": [where],
            "environment": "environment.json",
            "optimizer": "optimizer.json",
            "storage": "storage/sqlite.jsonc",
            "experiment_id": "leat",
            "trial_id": 1,
        },
    }
    try:
        os.makedirs(where, exist_ok=True)
        for name, tree in files.items():
            with open(os.path.join(where, name), "w", encoding="utf-8") as file:
                file.write(json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
        script = os.path.join(where, "trial.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(_SCRIPT.format(command=json.dumps(command)))
        os.chmod(script, 0o755)
    except OSError as e:
        raise TuneError(e.errno, f"{e.filename}: {e.strerror}") from None
    for name in (*files, "trial.py"):
        print(os.path.join(args.dir, name))
    print(f"mlos_bench --config {os.path.join(args.dir, 'mlos_bench.json')}", file=sys.stderr)
    return 0
