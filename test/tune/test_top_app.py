# SPDX-License-Identifier: BSD-3-Clause
"""leat-top without a terminal: its screens, keys and changes of settings, at any size."""

import random
import sys
import unittest

from fake_schemas import DESCRIPTIONS
from top_lib import S, WORKER, histogram, seen, thing

from leat_top.app import App
from leat_top.format import Glyphs
from leat_top.grid import Grid
from leat_top.link import Outcome
from leat_tune import SESSION, Change, Lease

FIELDS = (
    "busy_ns", "idle_ns", "stalled_ns", "turns", "returned", "held_back_now", "peers", "sessions",
    "conns", "held", "streams", "tasks", "ready",
    "objects", "in_use", "size", "pools", "latency_send", "messages", "running", "state",
)


def objects(at):
    """Return the objects of one process at second at."""
    found = []
    for i in range(3):
        found.append(
            thing(DESCRIPTIONS["reactor"], 1 + i, f"lcore{i}", at * S, state="running",
                  turns=at * 1000, stalled_ns=0,
                  busy_ns=at * S // (i + 2), idle_ns=at * S // 4, sleep_ns=0,
                  running="leat_ep_poll", lcore=i)
        )
        values = [1000 + i] * (at * 100)
        found.append(
            thing(DESCRIPTIONS["endpoint"], 11 + i, f"ep{i}", at * S, device=f"fabric_ring{i}",
                  returned=at * 5000 * (i + 1), posted=at * 5000, tx_bytes=at * 10**6, errors=0,
                  latency_send=histogram(*values))
        )
        found.append(thing(DESCRIPTIONS["peer"], 1, f"peer{i}", at * S, parent=11 + i, state="up",
                           posted=at))
        found.append(
            thing(DESCRIPTIONS["poller"], 1, f"ep{i}", at * S, parent=1 + i, state="waiting",
                  busy_ns=at * S // 3)
        )
    found.append(thing(WORKER, 30, "own", at * S, calls=at * 1_500_000, depth=17, where="somewhere",
                       waited_ns=0))
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.asked = []
        self.app = App(Glyphs(True), 1.0, lambda change: self.asked.append(change) or "")
        self.at = 1
        self.programs = {100: "leat-perf", 200: "kv-server"}
        self.tick()
        self.tick()

    def tick(self, **more):
        self.at += 1
        self.app.update(
            [seen(self.at * S, objects(self.at), pid=pid, program=name, **more)
             for pid, name in self.programs.items()], [],
        )

    def keys(self, *keys):
        for key in keys:
            self.app.key(key)
        return self.screen()

    def type(self, text):
        return self.keys(*text)

    def screen(self, height=40, width=130):
        grid = Grid(height, width)
        self.app.draw(grid)
        return grid.text()

    def line(self, text):
        found = [line for line in self.screen().split("\n") if text in line]
        self.assertTrue(found, f"no '{text}' in\n{self.screen()}")
        return found[0]


class Screens(Case):
    def test_overview(self):
        screen = self.screen()
        for text in (
            "2 processes", "6 lcores", "Busy 36%", "leat-perf", "kv-server", "fabric_ring2",
            "1.50M calls/s", ):
            self.assertIn(text, screen)
        self.assertIn("send", self.line("fabric_ring0"))

    def test_tabs(self):
        self.assertIn("3 endpoint", self.screen())
        self.assertIn("╭─ Endpoints 6", self.keys("3"))
        self.assertIn("╭─ Reactors 6", self.keys("left"))
        self.assertIn("╭─ Workers 2", self.keys("right", "right"))
        self.assertIn("╭─ Settings", self.keys("right"))
        self.assertIn("no setting was changed", self.keys("right"))
        self.assertIn("╭─ Processes", self.keys("right"))
        # No screen has that number.
        self.assertIn("╭─ Processes", self.keys("0"))
        self.assertIn("Reactors", self.keys("2"))
        self.assertIn("╭─ Processes", self.keys("esc"))

    def test_drill_down_and_back(self):
        screen = self.keys("down", "enter")
        self.assertIn("▸ kv-server 200", screen)
        self.assertNotIn("leat-perf", screen)
        screen = self.keys("tab", "down", "enter")
        self.assertIn("endpoint.ep1", screen)
        self.assertIn("Latency in the last interval", screen)
        self.assertIn("peer1", screen)
        screen = self.keys("esc")
        self.assertNotIn("Measurements", screen)
        self.assertIn("leat-perf", self.keys("esc"))

    def test_a_row_is_opened(self):
        self.keys("2", "enter", "tab", "enter")
        self.assertIn("reactor.lcore0 ▸ ", self.screen())
        self.assertIn("poller.ep0", self.screen())

    def test_an_object_that_goes(self):
        self.keys("3", "end", "enter")
        self.assertIn("endpoint.ep2", self.screen())
        del self.programs[200]
        self.tick()
        self.assertIn("endpoint.ep2 is gone", self.screen())
        self.assertIn("╭─ Endpoints 3", self.screen())

    def test_all_go(self):
        self.keys("3")
        self.programs.clear()
        self.tick()
        self.assertIn("no leat process of this user runs", self.screen())

    def test_sort_and_reverse(self):
        def order():
            return [line.split()[1] for line in self.screen().split("\n") if "fabric_ring" in line]

        self.keys("3")
        del self.programs[200]
        self.tick()
        while "▼OPS/s" not in self.screen():
            self.keys("s")
        self.assertEqual(order(), ["ep2", "ep1", "ep0"])
        self.keys("r")
        self.assertIn("▲OPS/s", self.screen())
        self.assertEqual(order(), ["ep0", "ep1", "ep2"])

    def test_filter(self):
        self.keys("3", "/")
        self.assertIn("/ring1▏", self.type("ring1"))
        screen = self.keys("enter")
        self.assertIn("2 of 6 with ring1", screen)
        self.assertNotIn("fabric_ring0", screen)
        # Esc in the line drops the typed text, Esc on the screen the filter.
        self.keys("/", "backspace", "backspace", "esc")
        self.assertIn("2 of 6 with ring1", self.screen())
        self.assertIn("fabric_ring0", self.keys("esc"))
        self.assertIn("nothing matches 'zzz'", self.type("/zzz"))

    def test_help(self):
        self.assertIn("the screen of this number", self.keys("?"))
        self.assertIn("Processes", self.keys("esc"))

    def test_pause_and_interval(self):
        self.assertIn("PAUSED", self.keys("p"))
        self.assertIn("PAUSED  every 1 s", self.screen())
        self.assertTrue(self.app.paused)
        self.assertNotIn("PAUSED", self.keys("p"))
        self.assertIn("every 0.5 s", self.keys("+"))
        self.assertIn("every 2 s", self.keys("-", "-"))
        self.keys(*"-" * 20)
        self.assertEqual(self.app.interval, 60)

    def test_quit(self):
        self.assertFalse(self.app.quit)
        self.keys("q")
        self.assertTrue(self.app.quit)

    def test_stands_still(self):
        standing = thing(DESCRIPTIONS["reactor"], 1, "lcore0", 50 * S, stalled_ns=3_200_000_000,
                         running="app_poll")
        self.app.update([seen(50 * S, [standing])], [])
        self.assertIn("stands still for 3.20 s in app_poll", self.line("lcore0 "))
        self.assertIn("1 in trouble", self.screen())
        self.app.update([seen(60 * S, [standing], heartbeat_ns=50 * S)], [])
        self.assertIn("no sign of life for 10.0 s", self.screen())

    def test_history_and_leases(self):
        change = Change(1, 1_700_000_000 * S, 1, 30, "worker.own", "batch", "set",
                        "agent[9]\x1b[2J", "8", "16")
        lease = Lease(30, "worker.own", ("batch",), 1, 0, "agent[9]")
        self.tick(changes=[change], leases=(lease,))
        self.assertIn("agent[9]", self.keys("5", "/", *"batch", "enter"))
        self.assertIn("agent[9]?[2J", self.keys("6"))


class Foreign(Case):
    def test_components_that_are_named_like_those_of_leat(self):
        found = []
        names = "reactor endpoint rpc msg stream task perf memory poller mempool"
        for i, name in enumerate(names.split()):
            text = f'component = "{name}"\ntitle = "Words"\nhelp = "Words."\n'
            for field in FIELDS:
                text += f'[[report]]\nname = "{field}"\nkind = "text"\ntype = "string"\n'
                text += 'size = 32\nhelp = "Words."\n'
            for parent in (0, 20 + i):
                found.append(thing(text, 20 + i, "x", 50 * S, parent=parent,
                                   **dict.fromkeys(FIELDS, "nan")))
        change = Change(1, 2**64 - 1, 1, 20, "reactor.x", "y", "set", "z", "8", "16")
        for at in (50, 51):
            self.app.update([seen(at * S, found, changes=[change])], [])
        for tab in range(13):
            self.app.key("right")
            for key in ("s",) * 14 + ("enter", "tab", "enter", "esc", "esc"):
                self.keys(key)
        self.keys("1", "enter")


class Edits(Case):
    def open(self, setting):
        """Open the form of a setting of the first process's worker."""
        self.keys("5", "/", *f"{setting} ", "enter", "home", "e")
        return self.screen()

    def answer(self, effective=None, refused=""):
        change = self.asked[-1]
        self.app.answered(Outcome(change, effective or {}, 1, refused))
        return self.screen()

    def test_a_number(self):
        screen = self.open("worker.own.batch")
        for text in ("Change worker.own", "1 to 64 calls, automatic; default 8",
                     "Calls of a batch.", "for good"):
            self.assertIn(text, screen)
        # The first character replaces the old value.
        self.assertIn("32▏", self.type("32"))
        self.assertIn("waiting", self.keys("enter"))
        [change] = self.asked
        self.assertEqual((change.key[0], change.path, change.values, change.lease),
                         (100, "worker.own", {"batch": "32"}, None))
        screen = self.answer({"batch": 30})
        self.assertIn("worker.own: batch = 30 (batch asked for 32)", screen)
        self.assertNotIn("Change worker.own", screen)

    def test_line_editing(self):
        self.open("worker.own.batch")
        self.keys("right", "9", "home", "1", "right", "backspace", "end")
        self.assertIn("19▏", self.screen())
        self.assertIn("automatic▏", self.keys("clear", *"automatic"))
        self.keys(*"x" * 400)
        self.keys("enter")
        self.assertEqual(len(self.asked[0].values["batch"]), 255)

    def test_refused_stays_open(self):
        self.open("worker.own.batch")
        self.keys("7", "7", "enter")
        screen = self.answer(refused="batch: 77 is not from 1 to 64")
        self.assertIn("refused: batch: 77 is not from 1 to 64", screen)
        self.assertIn("77", screen)
        self.assertIn("Change worker.own", screen)
        self.assertNotIn("Change worker.own", self.keys("esc"))

    def test_choices(self):
        self.open("worker.own.mode")
        self.assertIn("◂ fast ▸", self.screen())
        self.assertIn("◂ safe ▸", self.keys("right"))
        self.assertIn("◂ off ▸", self.keys("left", "left"))
        self.keys("enter")
        self.assertEqual(self.asked[0].values, {"mode": "off"})

    def test_a_group_and_a_lease(self):
        screen = self.open("worker.own.low")
        self.assertIn("changed together: low <= high", screen)
        self.keys("2", "0", "down", "8", "0", "down", "right", "enter")
        self.assertEqual(self.asked[0].values, {"low": "20", "high": "80"})
        self.assertEqual(self.asked[0].lease, 10.0)
        self.answer({"low": 20, "high": 80})
        self.keys("e", "down", "down", "left")
        self.assertIn("while leat-top runs", self.screen())
        self.keys("enter")
        self.assertEqual(self.asked[1].lease, SESSION)

    def test_only_at_start(self):
        self.keys("5", "/", *"own.threads", "enter", "e")
        self.assertIn("takes effect only at start", self.screen())
        self.assertEqual(self.asked, [])

    def test_from_an_object(self):
        self.keys("4", "enter", "e", "end", "home", "e")
        self.assertIn("Change worker.own", self.screen())

    def test_the_process_has_gone(self):
        self.app.change = lambda change: "its process has ended"
        self.open("worker.own.batch")
        self.assertIn("refused: its process has ended", self.keys("enter"))

    def test_an_answer_to_a_form_that_was_left(self):
        self.open("worker.own.batch")
        self.keys("9", "enter", "esc")
        self.assertIn("worker.own: refused: too late", self.answer(refused="too late"))


class Sizes(Case):
    def test_any(self):
        views = [(), ("down", "enter"), ("2",), ("3", "enter"), ("4", "enter", "e", "e"),
                 ("5", "e"), ("6",), ("?",)]
        for utf8 in (True, False):
            self.app.glyphs = Glyphs(utf8)
            for keys in views:
                for key in ("esc",) * 9 + keys:
                    self.app.key(key)
                for height in (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 25, 50):
                    for width in (0, 1, 2, 5, 10, 20, 37, 60, 101, 200):
                        grid = Grid(height, width)
                        self.app.draw(grid)
                        if utf8:
                            continue
                        self.assertTrue(grid.text().isascii(), grid.text())

    def test_small_ones_show_something(self):
        self.assertIn("leat-perf", self.screen(5, 20))
        self.assertIn("lcore0", self.keys("2") and self.screen(5, 20))
        self.assertIn("batch",
                      self.keys("5", "/", *"own.batch", "enter", "e") and self.screen(6, 24))

    def test_random_keys(self):
        keys = ["up", "down", "left", "right", "pgup", "pgdn", "home", "end", "tab", "btab",
                "enter", "esc",
                "backspace", "delete", "clear", "f1", *"0123456789serS<>/?phjk+-= x\u00e9"]
        rnd = random.Random(4)
        for i in range(3000):
            self.app.key(rnd.choice(keys))
            if i % 5 == 0:
                self.screen(rnd.randrange(60), rnd.randrange(200))
            if i % 100 == 0:
                if rnd.random() < 0.5:
                    self.programs.pop(200, None)
                else:
                    self.programs[200] = "kv-server"
                self.tick()
            if self.asked:
                self.answer_any(rnd)
        self.assertFalse(self.app.quit)

    def answer_any(self, rnd):
        change = self.asked.pop()
        refused = rnd.choice(["", "no"])
        self.app.answered(Outcome(change, {} if refused else dict.fromkeys(change.values, 1), 1,
                                  refused))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
