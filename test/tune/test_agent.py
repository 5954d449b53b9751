# SPDX-License-Identifier: BSD-3-Clause
"""The search: goals, statistics, and its results on formulas with noise."""

import collections
import random
import statistics
import unittest

import landscape
from leat_tune.agent import Budget, Goal, GoalError, Knob, Result, Space, plan
from leat_tune.agent import _stats
from leat_tune.agent._goal import Missing
from leat_tune.agent._search import FIRST, Unmeasured


class Goals(unittest.TestCase):
    def test_the_example(self):
        goal = Goal.parse("max calls_per_second where p99_us < 50")
        self.assertTrue(goal.maximum)
        self.assertEqual(goal.measures, ["calls_per_second", "p99_us"])
        self.assertEqual(goal.value({"calls_per_second": 3.0}), 3.0)
        (guard,) = goal.guards
        self.assertEqual((guard.text, guard.excess(49.9), guard.excess(75.0)),
                         ("p99_us < 50", 0.0, 0.5))
        self.assertGreater(guard.excess(50.0), 0.0)

    def test_arithmetic(self):
        values = {"a": 2.0, "b": 3.0, "x.y.c": 4.0, "x.*.c": 5.0}
        for text, wanted in (
            ("a + b * 2", 8.0), ("(a + b) * 2", 10.0), ("a - b - 1", -2.0), ("-a * -b", 6.0),
            ("8 / a / 2", 2.0), ("x.y.c*2", 8.0), ("x.*.c*2", 10.0), ("x.y.c-1", 3.0),
            ("a*1.5e1", 30.0), ("  a  ", 2.0), ("a+.5", 2.5),
        ):
            self.assertEqual(Goal.parse("min " + text).value(values), wanted, text)

    def test_guards(self):
        goal = Goal.parse("min a where a + b <= -1.5 and b>1e3 and a < 2")
        self.assertEqual([(g.compare, g.limit) for g in goal.guards],
                         [("<=", -1.5), (">", 1000.0), ("<", 2.0)])

    def test_no_value(self):
        for text in ("max a", "max b / z", "max n", "max b * b"):
            with self.assertRaises(Missing):
                Goal.parse(text).value({"b": 1e200, "z": 0.0, "n": float("nan")})

    def test_refused(self):
        for text, column, words in (
            ("", 1, "'max' or 'min'"), ("a", 1, "'max' or 'min'"), ("max", 4, "a measure"),
            ("max 3", 6, "nothing is measured"), ("max a b", 7, "'where'"),
            ("max a where", 12, "a measure"),
            ("max a where b", 14, "one of <"), ("max a where b < c", 17, "a number"),
            ("max a where 1 < 2", 15, "nothing is measured"), ("max a where b < 1 c", 19, "'and'"),
            ("max (a", 7, "')'"), ("max $a", 5, "neither"), ("max a where and", 13, "a measure"),
            ("max 1a", 5, "neither"), ("max a..b", 6, "neither"), ("max a < 1", 7, "'where'"),
            ("max a*1e999", 7, "too large"), ("max " + "(" * 99 + "a", 37, "parentheses"),
            ("max " + "-" * 99 + "a", 37, "parentheses"),
        ):
            with self.assertRaises(GoalError, msg=text) as caught:
                Goal.parse(text)
            self.assertIn(f"column {column}:", str(caught.exception), text)
            self.assertIn(words, str(caught.exception), text)
        with self.assertRaises(GoalError):
            Goal.parse("max " + "a+" * 1000 + "a")

    def test_hostile_text_ends(self):
        rng = random.Random(1)
        for _ in range(3000):
            text = "max " + "".join(rng.choice("ab1.*()+-/<>= where and e#:")
                                    for _ in range(rng.randint(0, 40)))
            try:
                Goal.parse(text)
            except GoalError:
                pass


class Knobs(unittest.TestCase):
    def test_a_range(self):
        knob = Knob.of_range("k", 1, 1024, 3, log=True)
        self.assertEqual((knob.values[0], knob.values[-1], knob.values[knob.start]), (1, 1024, 3))
        self.assertEqual(list(knob.values), sorted(set(knob.values)))
        self.assertLessEqual(len(knob.values), 21)
        self.assertLessEqual({2**i for i in range(11)}, set(knob.values))
        self.assertEqual(Knob.of_range("k", 1, 3, 2).values, (1, 2, 3))
        self.assertEqual(Knob.of_range("k", 5, 5, 5).values, (5,))
        self.assertEqual(Knob.of_range("k", 0, 64, 8, quantum=8).values, tuple(range(0, 65, 8)))
        zero = Knob.of_range("k", 0, 1 << 20, 0, log=True)
        self.assertEqual((zero.values[0], zero.values[1], zero.values[-1]), (0, 1, 1 << 20))
        real = Knob.of_range("k", 0.1, 10.0, 1.0, integer=False, log=True)
        self.assertEqual((real.values[0], real.values[-1], real.ordered),
                         (0.1, 10.0, len(real.values)))

    def test_special_values(self):
        knob = Knob.of_range("k", 16, 64, 0, special=(0, -1))
        self.assertEqual(knob.values[knob.ordered :], (0, -1))
        self.assertEqual(knob.values[knob.start], 0)
        self.assertNotIn(0, knob.values[: knob.ordered])

    def test_neighbours_stay_inside(self):
        space = landscape.LANDSCAPES[-1].space
        rng = random.Random(2)
        for config in space.spread(50, rng):
            for which in range(len(space.knobs)):
                for stride in (1, 4):
                    for one in space.neighbours(config, which, stride):
                        self.assertNotEqual(one, config)
                        space.values(one)
            for one in space.diagonals(config, 2, rng):
                space.values(one)

    def test_what_is_not_allowed_is_never_tried(self):
        only = next(l for l in landscape.LANDSCAPES if l.name == "only together")
        _, asked = only.run(1, 0.02)
        for ask in asked:
            self.assertTrue(only.space.allowed(ask.config))


class Statistics(unittest.TestCase):
    def test_signed_rank(self):
        self.assertEqual(_stats.signed_rank([]), 1.0)
        self.assertEqual(_stats.signed_rank([1, 2, 3, 4, 5]), 1 / 32)
        self.assertEqual(_stats.signed_rank([-1, 2, 3, 4, 5]), 2 / 32)
        self.assertEqual(_stats.signed_rank([-1, -2, -3]), 1.0)
        self.assertGreaterEqual(_stats.signed_rank([0, 0, 0, 0]), 0.5)
        self.assertEqual(_stats.signed_rank([1, 1, 1, 1]), 1 / 16)

    def test_signed_rank_is_exact(self):
        # Count, among all combinations of signs, those whose sum of ranks is at least as large.
        values = [0.5, -1.5, 2.5, 3.5, -4.5, 5.5, 6.5]
        ranks = range(1, 8)
        seen = sum(r for r, v in zip(ranks, values) if v > 0)
        sums = [sum(r for i, r in enumerate(ranks) if signs >> i & 1) for signs in range(128)]
        self.assertEqual(_stats.signed_rank(values), sum(s >= seen for s in sums) / 128)

    def test_false_alarms_are_as_rare_as_they_say(self):
        rng = random.Random(3)
        alarms = sum(_stats.signed_rank([rng.gauss(0, 1) for _ in range(10)]) <= 0.05
                     for _ in range(2000))
        self.assertLess(alarms / 2000, 0.065)
        self.assertGreater(alarms / 2000, 0.03)

    def test_noise_ignores_a_wild_value(self):
        rng = random.Random(4)
        values = [rng.gauss(10, 1) for _ in range(200)]
        self.assertAlmostEqual(_stats.noise([*values, 1e9]), 1.0, delta=0.2)

    def test_interval(self):
        rng = random.Random(5)
        inside = 0
        for _ in range(100):
            low, high = _stats.interval([rng.gauss(1, 1) for _ in range(15)], rng)
            inside += low <= 1 <= high
        self.assertGreaterEqual(inside, 88)


class Finds(unittest.TestCase):
    def test_within_ten_per_cent_of_a_sweep(self):
        for one in landscape.LANDSCAPES:
            best, start = one.best(), one.true(one.space.start)
            self.assertLess(start, best / 1.5, one.name)
            for seed in range(4):
                with self.subTest(one.name, seed=seed):
                    outcome, asked = one.run(seed, 0.05, trials=120 + 40 * len(one.knobs))
                    self.assertEqual(outcome.verdict, "found")
                    self.assertGreaterEqual(one.true(outcome.best), 0.9 * best)
                    self.assertFalse(one.guard(one.space.values(outcome.best)))
                    self.assertLessEqual(len(asked), 120 + 40 * len(one.knobs))

    def test_counts_that_divide_each_other(self):
        one = landscape.DIVISORS
        best = max(one.value({"window": window, "burst": burst})
                   for window in range(1, 257) for burst in range(1, min(window, 64) + 1))
        for seed in range(8):
            outcome, _ = one.run(seed, 0.05)
            self.assertEqual(outcome.verdict, "found")
            self.assertGreaterEqual(one.true(outcome.best), 0.9 * best, seed)

    def test_speed_that_jumps(self):
        # After the jump all settings are faster, and the settings best before it gain little.
        one = landscape.DIVISORS
        best = one.best()
        for until in (3, 5, 12, 40):
            for seed in range(4):
                with self.subTest(until=until, seed=seed):
                    outcome, _ = one.run(seed, 0.03, trials=180, until=until, before=lambda s: (
                        30 + 300 * landscape.bump(s["burst"], 4, 1)))
                    self.assertEqual(outcome.verdict, "found")
                    self.assertGreaterEqual(one.true(outcome.best), 0.9 * best)

    def test_speed_that_jumps_late(self):
        # After a late jump there are few trials or none: the search must not claim a new best.
        one = landscape.DIVISORS
        moved = collections.Counter()
        for until in range(50, 200, 10):
            for seed in range(4):
                with self.subTest(until=until, seed=seed):
                    outcome, asked = one.run(seed, 0.03, trials=180, until=until, before=lambda s: (
                        30 + 300 * landscape.bump(s["burst"], 4, 1)))
                    moved[outcome.verdict] += 1
                    # A jump in the last five pairs of a comparison is not noticed.
                    purposes = {ask.purpose for ask in asked[: until + 10]}
                    if outcome.verdict == "moved":
                        self.assertEqual(outcome.best, one.space.start)
                        self.assertTrue(outcome.jumps)
                    elif len(asked) > until + 10 and "ablation" not in purposes:
                        self.assertEqual(outcome.verdict, "found")
                        self.assertGreaterEqual(one.true(outcome.best), 0.9 * one.best())
        self.assertGreaterEqual(moved["moved"], 10)

    def test_noise_alone(self):
        for options in ({"noise": 0.05}, {"noise": 0.3}, {"noise": 0.05, "drift": 0.5},
                        {"noise": 0.1, "wild": 0.05}):
            with self.subTest(**options):
                verdicts = [landscape.FLAT.run(seed, **options)[0].verdict for seed in range(100)]
                self.assertGreaterEqual(verdicts.count("unsure"), 95)

    def test_never_worse_than_the_start(self):
        for one in (landscape.AT_BEST, *landscape.LANDSCAPES):
            start = one.true(one.space.start)
            for noise in (0.1, 0.4):
                for seed in range(3):
                    outcome, _ = one.run(seed, noise)
                    self.assertGreaterEqual(one.true(outcome.best), start, (one.name, noise, seed))

    def test_drift_is_no_gain(self):
        # On a machine that becomes slower, or faster, no setting may be found to be better.
        for drift in (0.6, -0.6):
            verdicts = [landscape.AT_BEST.run(seed, 0.03, drift=drift)[0].verdict
                        for seed in range(40)]
            self.assertGreaterEqual(verdicts.count("unsure"), 39)

    def test_gain_is_what_it_says(self):
        one = landscape.LANDSCAPES[0]
        outcome, _ = one.run(1, 0.02)
        start = one.true(one.space.start)
        true = one.true(outcome.best) / start - 1
        self.assertAlmostEqual(outcome.found.gain, true, delta=0.1 * true)
        self.assertLessEqual(outcome.found.low, outcome.found.gain)
        self.assertGreaterEqual(outcome.found.high, outcome.found.gain)

    def test_ablation(self):
        one = landscape.Landscape(
            "one matters", [landscape.SIZES, landscape.WINDOW],
            lambda s: 1000 * (0.2 + landscape.bump(s["batch"], 256, 3)) * (1 +
                                                                           0.0001 * s["window"]))
        matters = collections.Counter()
        for seed in range(10):
            outcome, _ = one.run(seed, 0.03)
            for name, lost in outcome.ablation:
                matters[name] += lost.real
                if name == "batch":
                    self.assertGreater(lost.gain, 1.0)
        self.assertEqual(matters["batch"], 10)
        self.assertLessEqual(matters["window"], 5)

    def test_the_start_breaks_the_guard(self):
        one = landscape.Landscape("too much", [landscape.SIZES], lambda s: 100 + s["batch"],
                                  lambda s: max(0.0, 16 / s["batch"] - 1))
        for seed in range(5):
            outcome, _ = one.run(seed, 0.02)
            self.assertEqual(outcome.verdict, "found")
            self.assertGreaterEqual(one.space.values(outcome.best)["batch"], 16)
        none = landscape.Landscape("never", [landscape.SIZES], lambda s: 100.0, lambda s: 1.0)
        self.assertEqual(none.run(1, 0.02)[0].verdict, "guards")

    def test_settings_that_fail(self):
        def value(settings):
            return 1000.0 + settings["batch"]

        space = Space([landscape.SIZES])
        generator = plan(space, Budget(100), seed=3)
        ask = next(generator)
        rng = random.Random(6)
        while True:
            settings = space.values(ask.config)
            refused = settings["batch"] > 100
            result = Result(None,
                            words="EINVAL") if refused else Result(value(settings) +
                                                                   rng.gauss(0, 5))
            try:
                ask = generator.send(result)
            except StopIteration as end:
                outcome = end.value
                break
        self.assertEqual(outcome.verdict, "found")
        self.assertLessEqual(space.values(outcome.best)["batch"], 100)

    def test_nothing_is_measured(self):
        generator = plan(Space([landscape.SIZES]), Budget(100))
        next(generator)
        with self.assertRaisesRegex(Unmeasured, "no call"):
            for _ in range(FIRST):
                generator.send(Result(None, words="no call"))

    def test_values_that_are_zero_or_less(self):
        space = Space([landscape.SIZES])
        rng = random.Random(7)
        generator = plan(space, Budget(100))
        next(generator)
        with self.assertRaises(StopIteration) as end:
            while True:
                generator.send(Result(rng.choice((0.0, -0.0, -1.0))))
        self.assertEqual(end.exception.value.verdict, "unsure")

    def test_the_same_again(self):
        one = landscape.LANDSCAPES[1]
        first, again = one.run(5, 0.05), one.run(5, 0.05)
        self.assertEqual(first, again)

    def test_start_and_candidate_in_turns(self):
        _, asked = landscape.LANDSCAPES[1].run(1, 0.05)
        start = landscape.LANDSCAPES[1].space.start
        turns = [ask.config == start for ask in asked if ask.purpose == "compare"]
        self.assertGreaterEqual(len(turns), 20)
        for i in range(0, len(turns), 2):
            self.assertEqual(turns[i] + turns[i + 1], 1)
        # The order alternates, so that a machine that becomes slower favours neither.
        self.assertEqual(turns[:4], [True, False, False, True])

    def test_time_that_is_up(self):
        compared = 0
        generator = plan(Space([landscape.SIZES]), Budget(1000, lambda: compared >= 7))
        ask = next(generator)
        with self.assertRaises(StopIteration) as end:
            while True:
                compared += ask.purpose == "compare"
                ask = generator.send(Result(100.0 + ask.config[0]))
        # The search stops in the middle of a comparison: nothing is claimed.
        self.assertEqual(end.exception.value.verdict, "unsure")
        self.assertLessEqual(compared, 8)

    def test_too_few_trials(self):
        with self.assertRaises(ValueError):
            plan(Space([landscape.SIZES]), Budget(39))

    def test_interval_of_nothing(self):
        self.assertEqual(_stats.interval([], random.Random(1)), (-float("inf"), float("inf")))
        self.assertEqual(statistics.median(_stats.interval([1.0], random.Random(1))), 1.0)


if __name__ == "__main__":
    unittest.main()
