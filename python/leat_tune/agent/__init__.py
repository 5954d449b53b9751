# SPDX-License-Identifier: BSD-3-Clause
"""A search for better settings of a running program: leat-tune agent.

    _goal       what is wanted: max calls_per_second where p99_us < 50
    _measures   what a program measures, between two moments
    _space      settings, and the values that are tried
    _stats      medians, rank test, bootstrap
    _search     candidates, by halving and steps along each setting
    _plan       search, comparison with the start, ablation: a generator that asks for trials
    _live       trials of a real program
    _report     what is told at the end; _svg draws it

All but _live are pure: the plan asks for a trial by yield, and whoever runs it sends the result. Tests
send it numbers, and somebody's own optimiser may take _live alone. doc/guide/tune-agent.md says how it
works.
"""

from ._goal import Goal, GoalError
from ._plan import Ask, Budget, Result, plan
from ._space import Knob, Space

__all__ = ["Ask", "Budget", "Goal", "GoalError", "Knob", "Result", "Space", "plan"]
