# SPDX-License-Identifier: BSD-3-Clause
"""A search for better settings of a running program: leat-tune agent.

    _goal       what is wanted: max calls_per_second where p99_us < 50
    _measures   what a program measures, between two moments
    _space      settings, and the values that are tried
    _settings   --set, from a program's settings to a space
    _stats      medians, rank test, bootstrap
    _search     candidates, by halving and steps along each setting
    _plan       search, comparison with the start, ablation: a generator that asks for trials
    _live       trials of a running program
    _log        trials in a file, from which a run goes on
    _report     what is told at the end; _svg draws it

All but _live are pure: the plan asks for a trial by yield, and whoever runs it sends the result. Tests
send it numbers, and somebody's own optimiser may take _live alone. doc/guide/tune-agent.md says how it
works.
"""

from ._goal import Goal, GoalError
from ._live import Live
from ._log import Log, LogError
from ._measures import Measure, listed, resolve
from ._plan import Ask, Budget, Outcome, Result, Unmeasured, plan
from ._settings import SettingError, Targets, targets
from ._space import Knob, Space

__all__ = [
    "Ask",
    "Budget",
    "Goal",
    "GoalError",
    "Knob",
    "Live",
    "Log",
    "LogError",
    "Measure",
    "Outcome",
    "Result",
    "SettingError",
    "Space",
    "Targets",
    "Unmeasured",
    "listed",
    "plan",
    "resolve",
    "targets",
]
