# SPDX-License-Identifier: BSD-3-Clause
"""The report at the end of a run: as text, as JSON, as a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._goal import Goal
from ._plan import Comparison, Outcome
from ._search import Ask, Result
from ._settings import Targets
from ._space import Config
from ._svg import number, plot

#: Exit status of a verdict.
STATUS = {"found": 0, "unsure": 3, "moved": 3, "guards": 4}
_VERDICT = {
    "found": "better settings were found",
    "unsure": "no setting could be told from what the program has",
    "moved": "no setting could be told: the program's speed jumped meanwhile",
    "guards": "the goal's guards do not hold as the program is, and nothing was found with which "
              "they do",
}


def _percent(value: float) -> str:
    return f"{value * 100:+.1f} %"


def _measured(goal: Goal, value: float) -> float:
    """Convert a value of the search, where larger is better, to the goal's value."""
    return value if goal.maximum else -value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _why(outcome: Outcome, goal: Goal) -> str:
    """Explain why a run found nothing."""
    if outcome.verdict == "moved":
        before, after = (number(_measured(goal, value)) for value in outcome.jumps[-1])
        return (
            f"As it is, it came to {before}, and then to {after}: what is best now was hardly "
            f"searched for. Another "
            "run may tell; a virtual machine's speed jumps when its CPUs are moved on their host."
        )
    if outcome.verdict == "guards":
        return "Other limits, or other settings, may help."
    if not outcome.comparisons:
        return (
            f"Nothing that was tried looked better. Noise of a trial is {outcome.noise * 100:.1f} "
            f"%: a smaller "
            "difference would not be seen."
        )
    best = max(outcome.comparisons, key=lambda c: c.gain)
    if best.pairs and best.gain > 0 and not best.broken:
        return (
            f"What looked best came to {_percent(best.gain)} in {best.pairs} comparisons, between "
            f"{_percent(best.low)} and {_percent(best.high)}: that may be noise (p = "
            f"{best.p:.3f}). Longer trials, "
            "or a quieter machine, would tell."
        )
    return "What looked better in the search did not in comparisons with the start."


def text(goal: Goal, targets: Targets, outcome: Outcome, trials: int, confidence: float) -> str:
    """Return the report as text."""
    space = targets.space
    lines = [f"{_VERDICT[outcome.verdict]} ({trials} trials, noise {outcome.noise * 100:.1f} %)"]
    lines.append(f"  goal   {goal.text}")
    level = _measured(goal, outcome.level)
    lines.append(f"  start  {targets.words(space.values(space.start))}: {number(level)}")
    found = outcome.found
    if found is None:
        return "\n".join([*lines, f"  {_why(outcome, goal)}"]) + "\n"
    lines.append(f"  best   {targets.words(space.values(outcome.best))}")
    if found.start_broken * 2 > found.pairs:
        lines.append("         keeps the guards, which the start does not")
    lines.append(
        f"         {'' if goal.maximum else 'better by '}{_percent(found.gain)}, between "
        f"{_percent(found.low)} and "
        f"{_percent(found.high)}, in {found.pairs} comparisons"
        f" (p = {found.p:.2g}, for {confidence * 100:g} % confidence)"
    )
    if outcome.ablation:
        lines.append("  what is lost if a setting alone goes back:")
        width = max(len(name) for name, _ in outcome.ablation)
        for name, lost in sorted(outcome.ablation, key=lambda one: -one[1].gain):
            if lost.broken * 2 > lost.pairs:
                words = "a guard breaks"
            elif not lost.pairs:
                words = "not tried: no more trials"
            elif lost.real:
                words = f"{lost.gain * 100:.1f} % ({lost.low * 100:.1f} to {lost.high * 100:.1f})"
            else:
                words = (
                    "nothing that can be told from noise "
                    f"({_percent(lost.low)} to {_percent(lost.high)})"
                )
            lines.append(f"    {name:{width}}  {words}")
    return "\n".join(lines) + "\n"


def _json(targets: Targets, comparison: Comparison) -> dict[str, Any]:
    return {
        "settings": targets.space.values(comparison.config),
        "gain": comparison.gain,
        "low": _finite(comparison.low),
        "high": _finite(comparison.high),
        "p": comparison.p,
        "pairs": comparison.pairs,
        "broken": comparison.broken,
        "start_broken": comparison.start_broken,
        "real": comparison.real,
    }


def tree(
    goal: Goal, targets: Targets, outcome: Outcome, trials: int, confidence: float
) -> dict[str, Any]:
    """Return the report for JSON. Gains are relative to the start; above 0 is better."""
    space = targets.space
    return {
        "verdict": outcome.verdict,
        "goal": goal.text,
        "start": space.values(space.start),
        "start_value": _measured(goal, outcome.level),
        "best": space.values(outcome.best) if outcome.found else None,
        "gain": outcome.found.gain if outcome.found else None,
        "confidence": confidence,
        "noise": outcome.noise,
        "trials": trials,
        "jumps": [[_measured(goal, value) for value in jump] for jump in outcome.jumps],
        "comparisons": [_json(targets, one) for one in outcome.comparisons],
        "ablation": [{"setting": name, **_json(targets, one)} for name, one in outcome.ablation],
        "set": targets.command(space.values(outcome.best)) if outcome.found else None,
    }


def svg(goal: Goal, targets: Targets, outcome: Outcome, done: Sequence[tuple[Ask, Result]]) -> str:
    """Return the plot of a run."""
    space = targets.space

    def kind(config: Config) -> str:
        return "start" if config == space.start else "best" if config == outcome.best else "other"

    trials = [
        (
            kind(ask.config),
            None if result.value is None else _measured(goal, result.value),
            result.excess > 0,
        )
        for ask, result in done
    ]
    bars = [
        (name, one.gain, one.low, one.high, one.real)
        for name, one in outcome.ablation
        if one.pairs and math.isfinite(one.low)
    ]
    found = outcome.found
    if found is None:
        subtitle = _VERDICT[outcome.verdict]
    else:
        subtitle = f"best: {targets.words(space.values(outcome.best))}, {_percent(found.gain)}"
    axis = goal.text.split(" where ")[0].split(None, 1)[1]
    return plot(goal.text, subtitle, axis, trials, bars)


def progress(
    targets: Targets,
    goal: Goal,
    number_: int,
    most: int,
    ask: Ask,
    result: Result,
    start: float | None,
) -> str:
    """Return the progress line of a trial."""
    words = targets.words(targets.space.values(ask.config))
    line = f"{number_}/{most} {ask.purpose}: {words}: "
    if result.value is None:
        return line + (result.words or "no value")
    value = _measured(goal, result.value)
    line += number(value)
    if start and ask.config != targets.space.start:
        line += f" ({_percent(value / start - 1)})"
    return line + (f"; {result.words}" if result.words else "")
