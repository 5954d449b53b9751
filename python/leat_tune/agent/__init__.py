# SPDX-License-Identifier: BSD-3-Clause
"""Search for better settings of a running program: leat-tune agent.

    _goal       the goal: max calls_per_second where p99_us < 50
    _measures   measures of a program between two moments
    _space      the searched settings, and the values that are tried
    _settings   turns the arguments of --set into a space
    _stats      medians, rank test, bootstrap
    _search     finds candidates, by halving and by steps along each setting
    _plan       search, comparison with the start, ablation: a generator that asks for trials
    _live       makes trials of a running program
    _log        writes trials to a file, from which a run can be resumed
    _report     the report at the end; _svg draws it

All modules but _live are pure: the plan yields the trials that it wants, and its caller sends the
results. Tests send numbers; another optimiser may use _live alone. doc/guide/tune-agent.md explains
how it works.
"""

from ._goal import Goal, GoalError
from ._live import Live, refusing
from ._log import Log, LogError
from ._measures import Measure, listed, resolve
from ._plan import Ask, Budget, Outcome, Result, Unmeasured, plan
from ._settings import SettingError, Targets, present, targets
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
    "present",
    "refusing",
    "resolve",
    "targets",
]
