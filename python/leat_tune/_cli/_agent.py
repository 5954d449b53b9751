# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune agent: search for better settings of a running program."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from .. import agent
from .._errors import TuneError, Unknown
from ..agent import _log, _report
from ..agent._plan import TRIALS_MIN
from ..agent._space import KNOBS_MAX
from . import common
from .common import Member

_TRY_MAX = 256  # settings of one trial of --try


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "agent", "search for better settings of a running program",
        "Tries settings of a program that runs, under a lease, and tells what is better than what "
        "it has, if\n"
        "that can be told from noise. All settings go back at the end, and if this is killed.",
        "Exit: 0 better settings were found; 3 none can be told from noise, or the speed has "
        "jumped;\n"
        "4 guards can't be kept; else as usual.\n\n"
        "  leat-tune agent --list-goals --program leat-rpc-bench\n"
        "  leat-tune agent --goal 'max calls_per_second where p99_us < 50' --set batch,window "
        "--svg plot.svg",
    )
    parser.add_argument("--goal", metavar="GOAL",
                        help="(max|min) EXPRESSION [where EXPRESSION OP NUMBER [and ...]]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME[=LOW:HIGH|=A|B],...",
                        help=f"settings to search, 1 to {KNOBS_MAX}; may be given again")
    parser.add_argument("--object", metavar="PATTERN",
                        help="objects meant by names that have no COMPONENT.OBJECT (default: all)")
    parser.add_argument(
        "--try",
        dest="trial",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="make one trial of these, print its measures, and end: for other optimisers",
    )
    parser.add_argument("--list-goals", action="store_true",
                        help="print what a goal can name, and end")
    budget = parser.add_argument_group("how long")
    budget.add_argument("--trials", type=common.positive, default=150, metavar="N",
                        help=f"trials at most, at least {TRIALS_MIN} (default: 150)")
    budget.add_argument("--minutes", type=_positive_real, metavar="M",
                        help="end after M minutes, even with fewer trials")
    budget.add_argument("--trial-seconds", type=_positive_real, default=2.0, metavar="S",
                        help="what a trial measures (default: 2)")
    budget.add_argument("--warm-up", type=_not_negative, metavar="S",
                        help="before each, thrown away (default: a quarter of it)")
    claim = parser.add_argument_group("what is claimed")
    claim.add_argument("--confidence", type=_percentage, default=99.0, metavar="PERCENT",
                       help="with which something is called better (default: 99)")
    claim.add_argument("--least", type=_percentage, default=1.0, metavar="PERCENT",
                       help="gain that is worth a change (default: 1)")
    claim.add_argument("--seed", type=common.positive, default=1, metavar="N",
                       help="of the search (default: 1)")
    out = parser.add_argument_group("what comes of it")
    out.add_argument("--apply", action="store_true",
                     help="let the program keep the best, if there is one")
    out.add_argument("--log", metavar="FILE", help="write each trial to a new file")
    out.add_argument("--resume", metavar="FILE",
                     help="go on with the run of a log, with its goal and settings")
    out.add_argument("--svg", metavar="FILE", help="write a plot")
    out.add_argument("--json", action="store_true", help="the report as JSON")
    out.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0")
    return value


def _not_negative(text: str) -> float:
    return _real(text)


def _positive_real(text: str) -> float:
    if (value := _real(text)) < 0.01:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0.01")
    return value


def _percentage(text: str) -> float:
    if (value := _real(text)) >= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is not from 0 to less than 100")
    return value


def _targets(args: argparse.Namespace, member: Member) -> agent.Targets:
    """Return the settings that --set or --try names, without objects that refuse a change."""
    words = args.set or args.trial
    refused = agent.refusing(member.process, agent.present(words, member.snapshot, args.object))
    if args.set:
        return agent.targets(words, member.snapshot, args.object, refused=refused)
    return agent.targets(words, member.snapshot, args.object, one_value=True, most=_TRY_MAX,
                         refused=refused)


def _one(args: argparse.Namespace) -> tuple[Member, agent.Targets]:
    """Return the process to tune, and its settings to change; raise Unknown if several match."""
    members = common.members(args, rows=False)
    if len(members) > 1 and not args.pid:
        # Choose the process that has the settings.
        able = []
        for member in members:
            try:
                able.append((member, _targets(args, member)))
            except (OSError, ValueError):
                continue
        if len(able) == 1:
            return able[0]
        members = [member for member, _ in able] or members
    if len(members) > 1:
        who = ", ".join(map(str, members))
        raise Unknown(f"there are several processes: {who}; say which by --pid or --program")
    return members[0], _targets(args, members[0])


def _measures(
    args: argparse.Namespace, goal: agent.Goal, member: Member, targets: agent.Targets
) -> dict[str, agent.Measure]:
    return {
        name: agent.resolve(name, member.snapshot, args.object, components=targets.components,
                            without=targets.refused)
        for name in goal.measures
    }


def _list_goals(args: argparse.Namespace) -> int:
    members = common.members(args, rows=False)
    if args.json:
        common.print_document(
            args,
            measures=[
                {
                    "pid": m.process.pid,
                    "measure": f"{one.component}.{one.name}",
                    "unit": one.unit or None,
                    "objects": list(one.paths),
                    "help": one.help,
                }
                for m in members
                for one in agent.listed(m.snapshot, args.object)
            ],
        )
        return 0
    for member in members:
        print(f"{member}")
        lines = [(f"{one.component}.{one.name}", one.unit, one.help)
                 for one in agent.listed(member.snapshot, args.object)]
        if lines:
            common.table(lines)
    return 0


class _Run:
    """A run of the plan on a process."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.old: list[dict[str, Any]] = []
        if args.resume:
            head, self.old = _log.read(args.resume)
            try:
                args.goal, args.set, args.object = (
                    str(head["goal"]),
                    list(head["set"]),
                    head["object"],
                )
                args.seed, args.trials = int(head["seed"]), int(head["trials"])
                args.trial_seconds, args.warm_up = float(head["trial_seconds"]), float(
                    head["warm_up"]
                )
                args.confidence, args.least = float(head["confidence"]), float(head["least"])
                self.knobs = head["knobs"]
            except (KeyError, TypeError, ValueError):
                raise agent.LogError(f"{args.resume}: its first line is not whole") from None
        if args.warm_up is None:
            args.warm_up = args.trial_seconds / 4
        if args.minutes is not None and not args.resume:
            within = int(args.minutes * 60 / (args.trial_seconds + args.warm_up + 0.05))
            if within < TRIALS_MIN:
                raise ValueError(f"in {args.minutes:g} minutes there is time for {within} trials; "
                                 f"{TRIALS_MIN} are needed: give more time, or shorter ones")
            args.trials = min(args.trials, within)
        if args.trials < TRIALS_MIN:
            raise ValueError(f"--trials: at least {TRIALS_MIN} are needed to tell anything from "
                             f"noise")
        self.goal = agent.Goal.parse(args.goal)
        self.member, self.targets = _one(args)
        self.measures = _measures(args, self.goal, self.member, self.targets)
        knobs = {t.knob.name: list(t.knob.values) for t in self.targets.targets}
        if args.resume and knobs != self.knobs:
            raise agent.LogError(
                f"{args.resume}: the program has not the settings of that run, or other values"
            )
        self.done: list[tuple[agent.Ask, agent.Result]] = []
        self.head = {
            "leat_tune_agent": _log.VERSION,
            "goal": args.goal,
            "set": args.set,
            "object": args.object,
            "knobs": knobs,
            "start": self.targets.space.values(self.targets.space.start),
            "program": self.member.process.program,
            "seed": args.seed,
            "trials": args.trials,
            "trial_seconds": args.trial_seconds,
            "warm_up": args.warm_up,
            "confidence": args.confidence,
            "least": args.least,
            "time": round(time.time(), 3),
        }

    def warn(self) -> None:
        for path, why in self.targets.refused.items():
            common.warn(f"{path} is left out, since it refuses a change: {why}")
        for target in self.targets.targets:
            if target.setting.when == "next":
                common.warn(f"{target.knob.name} takes effect with what the program makes next: "
                            "if it makes nothing, it will show nothing")

    def run(self, live: agent.Live, log: agent.Log | None) -> agent.Outcome:
        args, space = self.args, self.targets.space
        begin = time.monotonic()
        budget = agent.Budget(
            args.trials,
            lambda: args.minutes is not None and time.monotonic() - begin > args.minutes * 60)
        plan = agent.plan(space, budget, seed=args.seed, confidence=args.confidence / 100,
                          least=args.least / 100)
        old = iter(self.old)
        start: float | None = None
        try:
            ask = next(plan)
            while True:
                line = next(old, None)
                result = _log.result_of(space, ask, line) if line is not None else None
                if line is not None and result is None:
                    common.warn(
                        "the log goes another way from here on: the rest of it does not count"
                    )
                    old = iter(())
                if result is None:
                    result = self._trial(live, ask, log)
                if ask.config == space.start and result.value is not None:
                    start = abs(result.value)
                self.done.append((ask, result))
                if not args.quiet:
                    print(_report.progress(self.targets, self.goal, len(self.done), args.trials,
                                           ask, result, start),
                          file=sys.stderr, flush=True)
                ask = plan.send(result)
        except StopIteration as end:
            return end.value

    def _trial(self, live: agent.Live, ask: agent.Ask, log: agent.Log | None) -> agent.Result:
        result = live.trial(ask.config)
        if log is not None:
            more = {"effective": live.effective} if live.effective else {}
            log.write(_log.trial_line(len(self.done) + 1, self.targets.space, ask, result, more))
        return result


def _try(args: argparse.Namespace) -> int:
    """Make one trial, of values that another optimiser chose."""
    try:
        goal = agent.Goal.parse(args.goal)
        member, targets = _one(args)
        measures = _measures(args, goal, member, targets)
    except ValueError as e:
        print(f"leat-tune: {e}", file=sys.stderr)
        return 2
    space = targets.space
    config = tuple(0 for _ in space.knobs)
    warm_up = args.trial_seconds / 4 if args.warm_up is None else args.warm_up
    with agent.Live(member.process, targets, goal, measures, seconds=args.trial_seconds,
                    warm_up=warm_up) as live:
        result = live.trial(config)
        effective = dict(live.effective)
    value = None if result.value is None else result.value if goal.maximum else -result.value
    if args.json:
        common.print_document(
            args,
            pid=member.process.pid,
            program=member.process.program,
            settings=space.values(config),
            effective=effective,
            value=value,
            broken=result.excess > 0,
            words=result.words,
            measures=result.measures,
        )
    else:
        print("no value" if value is None else f"{value:.6g}", end="")
        print(f"  # {result.words}" if result.words else "")
    return 1 if value is None else _report.STATUS["guards"] if result.excess else 0


def run(args: argparse.Namespace) -> int:
    if args.list_goals:
        return _list_goals(args)
    if args.trial:
        if not args.goal or args.set or args.resume:
            args.parser.error("--try takes --goal, and neither --set nor --resume")
        return _try(args)
    if args.resume:
        if args.goal or args.set or args.log:
            args.parser.error("--resume takes --goal, --set and the log from FILE")
    elif not args.goal or not args.set:
        args.parser.error("--goal and --set are needed; --list-goals prints what a goal can name")
    try:
        one = _Run(args)
    except ValueError as e:
        print(f"leat-tune: {e}", file=sys.stderr)
        return 2
    one.warn()
    log = None
    if args.resume or args.log:
        log = agent.Log(args.resume or args.log, keep=bool(args.resume))
        if args.log:
            log.write(one.head)
    try:
        with agent.Live(one.member.process, one.targets, one.goal, one.measures,
                        seconds=args.trial_seconds, warm_up=args.warm_up) as live:
            outcome = one.run(live, log)
            if args.apply and outcome.found:
                live.keep(outcome.best)
    except agent.Unmeasured as e:
        raise TuneError(61, f"the goal has no value as the program is: {e}") from None
    except (TuneError, KeyboardInterrupt):
        if log is not None:
            print(f"leat-tune: go on with: leat-tune agent --resume {args.resume or args.log}",
                  file=sys.stderr)
        raise
    finally:
        if log is not None:
            log.close()
    return _print_outcome(args, one, outcome)


def _print_outcome(args: argparse.Namespace, one: _Run, outcome: agent.Outcome) -> int:
    confidence = args.confidence / 100
    if args.svg:
        with open(args.svg, "w", encoding="utf-8") as file:
            file.write(_report.svg(one.goal, one.targets, outcome, one.done))
    tree = _report.tree(one.goal, one.targets, outcome, len(one.done), confidence)
    kept = bool(args.apply and outcome.found)
    if args.json:
        common.print_document(args, pid=one.member.process.pid,
                              program=one.member.process.program, kept=kept, **tree)
    else:
        print(_report.text(one.goal, one.targets, outcome, len(one.done), confidence), end="")
        if kept:
            print("  the program keeps them")
        elif outcome.found:
            print(f"  to keep them: leat-tune set --pid {one.member.process.pid} {tree['set']}")
    return _report.STATUS[outcome.verdict]
