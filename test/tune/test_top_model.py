# SPDX-License-Identifier: BSD-3-Clause
"""leat-top's model: rates, shares, percentiles, objects that come and go, stalled loops."""

import sys
import unittest

from fake_schemas import DESCRIPTIONS
from top_lib import S, WORKER, histogram, seen, thing

from leat_top.model import PAST, Model, Seen, load, natural
from leat_top.summary import facts

REACTOR, PEER = DESCRIPTIONS["reactor"], DESCRIPTIONS["peer"]


def one(model: Model, path: str):
    return next(o for o in model.objects() if o.path == path)


class Rates(unittest.TestCase):
    def test_by_the_time_of_reports(self):
        model = Model()
        model.update([seen(10 * S, [thing(WORKER, 1, "w", 10 * S, calls=1000, waited_ns=0)])])
        self.assertEqual(one(model, "worker.w").rates, {})
        # Looked at 5 s later, but the report was made after 2 s.
        model.update([seen(15 * S, [thing(WORKER, 1, "w", 12 * S, calls=5000, waited_ns=S)])])
        o = one(model, "worker.w")
        self.assertEqual(o.rate("calls"), 2000.0)
        self.assertAlmostEqual(o.share("waited_ns"), 0.5)
        self.assertIsNone(o.share("calls"))
        self.assertEqual(o.age_ns, 3 * S)

    def test_without_a_new_report_they_stay(self):
        model = Model()
        for calls, at, now in ((0, 1, 1), (700, 2, 2), (700, 2, 2.3)):
            model.update([seen(int(now * S), [thing(WORKER, 1, "w", at * S, calls=calls)])])
        self.assertEqual(one(model, "worker.w").rate("calls"), 700.0)

    def test_an_old_report_has_none(self):
        model = Model()
        for calls, at, now in ((0, 1, 1), (700, 2, 2), (700, 2, 9)):
            model.update([seen(now * S, [thing(WORKER, 1, "w", at * S, calls=calls)])])
        self.assertEqual(one(model, "worker.w").rate("calls"), 0.0)

    def test_a_counter_that_began_again(self):
        model = Model()
        for at, calls in ((1, 5000), (2, 10), (3, 30)):
            model.update([seen(at * S, [thing(WORKER, 1, "w", at * S, calls=calls)])])
            if at == 2:
                self.assertIsNone(one(model, "worker.w").rate("calls"))
        self.assertEqual(one(model, "worker.w").rate("calls"), 20.0)

    def test_counters_of_64_bits(self):
        model = Model()
        for at, calls in ((1, 2**64 - 1001), (2, 2**64 - 1)):
            model.update([seen(at * S, [thing(WORKER, 1, "w", at * S, calls=calls)])])
        self.assertEqual(one(model, "worker.w").rate("calls"), 1000.0)

    def test_past_has_an_end(self):
        model = Model()
        for at in range(1, PAST + 20):
            model.update([seen(at * S, [thing(WORKER, 1, "w", at * S, calls=at * at)])])
        past = one(model, "worker.w").past["calls"]
        self.assertEqual(len(past), PAST)
        self.assertEqual(past[-1], 2 * at - 1)

    def test_measurements_that_are_missing(self):
        model = Model()
        for at in (1, 2):
            model.update([seen(at * S, [thing(REACTOR, 1, "lcore0", at * S)])])
        o = one(model, "reactor.lcore0")
        self.assertIsNone(load(o))
        self.assertIsNone(model.processes[0].busy())
        self.assertEqual(o.trouble(), "")
        self.assertEqual(facts(o), [])


class Percentiles(unittest.TestCase):
    def test_of_the_last_interval_alone(self):
        model = Model()
        slow = [1_000_000] * 1000
        model.update([seen(S, [thing(WORKER, 1, "w", S, latency=histogram(*slow))])])
        fast = [1000] * 990 + [50_000] * 10
        model.update([seen(3 * S, [thing(WORKER, 1, "w", 3 * S, latency=histogram(*slow, *fast))])])
        window = one(model, "worker.w").windows["latency"]
        self.assertEqual((window.count, window.rate), (1000, 500.0))
        self.assertAlmostEqual(window.mean, 1490.0)
        self.assertTrue(896 <= window.p50 <= 1024, window.p50)
        self.assertTrue(49152 <= window.p99_9 <= 57344, window.p99_9)
        self.assertLessEqual(window.p99, window.p99_9)
        self.assertEqual(one(model, "worker.w").busiest(), ("latency", window))

    def test_nothing_came(self):
        model = Model()
        for at in (1, 2):
            model.update([seen(at * S, [thing(WORKER, 1, "w", at * S, latency=histogram(77))])])
        window = one(model, "worker.w").windows["latency"]
        self.assertEqual((window.count, window.p99), (0, None))
        self.assertIsNone(one(model, "worker.w").busiest())


class Life(unittest.TestCase):
    def test_come_and_go(self):
        model = Model()
        a, b = thing(WORKER, 1, "w", S, calls=1), thing(WORKER, 2, "w10", S, calls=1)
        model.update([seen(S, [a, b]), seen(S, [a], pid=7)])
        self.assertEqual([p.pid for p in model.processes], [7, 100])
        key = one(model, "worker.w10").key
        self.assertEqual(model.find(key).name, "w10")
        model.update([seen(2 * S, [thing(WORKER, 1, "w", 2 * S, calls=3)])])
        self.assertEqual(one(model, "worker.w").rate("calls"), 2.0)
        self.assertIsNone(model.find(key))
        # The same pid and number, but another process: nothing of the former process counts.
        other = seen(3 * S, [thing(WORKER, 1, "w", 3 * S, calls=9)])
        model.update([Seen(other.pid, other.program, 1, other.start, False, other.snapshot)])
        self.assertIsNone(one(model, "worker.w").rate("calls"))

    def test_rows(self):
        model = Model()
        for at, names in ((1, "ab"), (2, "ac")):
            rows = [
                thing(PEER, i, name, at * S, parent=1, posted=at * 10 * i)
                for i, name in enumerate(names, 1)
            ]
            orphan = thing(PEER, 1, "x", at * S, parent=99, posted=1)
            model.update([seen(at * S, [thing(WORKER, 1, "w", at * S, calls=at), *rows, orphan])])
        [o] = model.objects()
        self.assertEqual([r.name for r in o.rows], ["a", "c"])
        # A row may have the number of an object, and a place that another row had.
        self.assertEqual(o.rate("calls"), 1.0)
        self.assertEqual(o.rows[0].rate("posted"), 10.0)
        self.assertIsNone(o.rows[1].rate("posted"))
        self.assertIs(model.find(o.rows[1].key), o.rows[1])

    def test_unreadable(self):
        model = Model()
        model.update([Seen(5, "p\x1b[31m", 1, 0.0, False, None, "the block is \x1b[2J wrong")])
        self.assertEqual(model.processes[0].state(), "the block is ?[2J wrong")
        self.assertEqual(model.processes[0].program, "p?[31m")

    def test_order(self):
        self.assertEqual(sorted(["l10", "l2", "l1", "k"], key=natural), ["k", "l1", "l2", "l10"])


class Trouble(unittest.TestCase):
    def lcore(self, now, stalled, **more):
        model = Model()
        o = thing(REACTOR, 1, "lcore2", now - S, stalled_ns=stalled, running="app_poll", busy_ns=1,
                  **more)
        model.update([seen(now, [o])])
        return model

    def test_an_lcore_that_stands_still(self):
        model = self.lcore(10 * S, 2_200_000_000)
        o = one(model, "reactor.lcore2")
        # 2.2 s at the time of the report, which was made a second ago.
        self.assertEqual(o.trouble(), "stands still for 3.20 s in app_poll")
        self.assertEqual(model.processes[0].state(), "lcore2 stands still for 3.20 s in app_poll")

    def test_a_long_turn_is_none(self):
        self.assertEqual(one(self.lcore(10 * S, 400_000_000), "reactor.lcore2").trouble(), "")

    def test_a_process_that_was_stopped(self):
        model = Model()
        model.update([seen(20 * S, [thing(REACTOR, 1, "lcore0", 8 * S, stalled_ns=0)],
                           heartbeat_ns=8 * S)])
        self.assertTrue(model.processes[0].hung)
        self.assertEqual(model.processes[0].state(), "stands still: no sign of life for 12.0 s")

    def test_load(self):
        model = Model()
        for at in (1, 2):
            values = {"busy_ns": at * S // 2, "idle_ns": at * S // 4, "sleep_ns": at * S // 4}
            model.update([seen(at * S, [thing(REACTOR, 1, "lcore0", at * S, **values)])])
        self.assertEqual(load(one(model, "reactor.lcore0")), (0.5, 0.25, 0.25))
        self.assertEqual(model.processes[0].busy(), (0.5, 0.25, 0.25))
        self.assertEqual(list(model.processes[0].past["busy"]), [None, 0.5])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
