# SPDX-License-Identifier: BSD-3-Clause
"""leat-top's numbers, bars, graphs, grid and tables."""

import math
import random
import sys
import unittest

from leat_top.ansi import paint
from leat_top.columns import amount, words
from leat_top.format import (
    Glyphs,
    clean,
    duration,
    fit,
    graph,
    load_bar,
    long_time,
    meter,
    nice_top,
    percent,
    si,
    sparkline,
    width_of,
    with_unit,
)
from leat_top.grid import Grid, Rect
from leat_top.table import Table

UTF8, ASCII = Glyphs(True), Glyphs(False)


class Numbers(unittest.TestCase):
    def test_si(self):
        for value, text in (
            (None, "-"), (math.nan, "-"), (math.inf, "inf"), (0, "0"), (0.001, "0"), (0.25, "0.25"),
            (7, "7"),
            (9.996, "10.0"), (99.96, "100"), (999, "999"), (999.4, "999"), (999.6, "1.00k"),
            (1234, "1.23k"),
            (12345, "12.3k"), (999_499, "999k"), (999_500, "1.00M"), (-1500, "-1.50k"),
            (3.2e15, "3.20P"), ):
            self.assertEqual(si(value), text, value)

    def test_si_is_never_wider(self):
        rnd = random.Random(1)
        for _ in range(20000):
            value = 10 ** rnd.uniform(-6, 20.9)
            text = si(value)
            self.assertLessEqual(len(text), 5, value)
            prefix = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
            power = prefix[text[-1]] if text[-1].isalpha() else 0
            back = float(text.rstrip("kMGTPE")) * 10**power
            self.assertLessEqual(abs(back - value), max(value * 0.0051, 0.0051), value)

    def test_duration(self):
        for ns, text in (
            (None, "-"), (0, "0 ns"), (0.4, "0 ns"), (850, "850 ns"), (999.6, "1.00 us"),
            (4210, "4.21 us"),
            (12e6, "12.0 ms"), (999.6e6, "1.00 s"), (3.2e9, "3.20 s"), (99.9e9, "99.9 s"),
            (310e9, "5m10s"), (-5000, "-5.00 us"),
        ):
            self.assertEqual(duration(ns), text, ns)
        self.assertEqual(duration(1500, micro="µ"), "1.50 µs")
        rnd = random.Random(2)
        for _ in range(20000):
            self.assertLessEqual(len(duration(10 ** rnd.uniform(-1, 16))), 7)

    def test_long_time(self):
        for seconds, text in ((0, "0s"), (59.9, "59s"), (185, "3m05s"), (7800, "2h10m"),
                              (367200, "4d06h")):
            self.assertEqual(long_time(seconds), text)

    def test_units(self):
        self.assertEqual(with_unit(1_200_000, "bytes"), "1.20 MB")
        self.assertEqual(with_unit(12, "bytes", rate=True), "12 B/s")
        self.assertEqual(with_unit(4.2, "us"), "4.20 us")
        self.assertEqual(with_unit(5e8, "ns", rate=True), "50%")
        self.assertEqual(with_unit(3, "calls", rate=True), "3 calls/s")
        self.assertEqual(with_unit(True, None), "yes")
        self.assertEqual(percent(0.994), "99%")
        self.assertEqual(percent(None), "-")

    def test_nice_top(self):
        for value, top in ((0, 1), (0.3, 0.5), (1, 1), (1.01, 2), (4.2, 5), (7, 10), (1e6, 1e6)):
            self.assertAlmostEqual(nice_top(value), top)

    def test_fit(self):
        self.assertEqual(fit("abc", 5), "abc  ")
        self.assertEqual(fit("abc", 5, right=True), "  abc")
        self.assertEqual(fit("abcdef", 4), "abc~")
        self.assertEqual(fit("abc", 0), "")
        # Characters of two columns, and of none.
        self.assertEqual(width_of("日本e\u0301"), 5)
        for width in range(8):
            self.assertEqual(width_of(fit("日本語", width)), width)

    def test_nothing_that_a_terminal_obeys(self):
        self.assertEqual(clean("a\x1b]0;x\x07b\nc\u202ed"), "a?]0;x?b?c?d")


class Bars(unittest.TestCase):
    def text(self, parts):
        return "".join(text for text, _ in parts)

    def test_load(self):
        self.assertEqual(self.text(load_bar(0.5, 0.3, 0.2, 10, ASCII)), "#####---..")
        self.assertEqual(self.text(load_bar(0.5, 0.3, 0.2, 10, UTF8)), "■■■■■▪▪▪··")
        # The rest of the bar is time that another program had.
        self.assertEqual(self.text(load_bar(0.2, 0.2, 0.1, 10, ASCII)), "##--.     ")
        self.assertEqual(self.text(load_bar(0.01, 0.99, 0, 10, ASCII)), "#---------")

    def test_every_width(self):
        rnd = random.Random(3)
        for width in range(40):
            for _ in range(50):
                shares = [rnd.uniform(-0.1, 1.3) for _ in range(3)]
                self.assertEqual(len(self.text(load_bar(*shares, width, UTF8))), width, shares)
                self.assertEqual(len(self.text(meter(shares[0], width, UTF8))), width)

    def test_sparkline(self):
        self.assertEqual(sparkline([0, 1, 4, 8], 6, ASCII), "  ..=#")
        self.assertEqual(sparkline([8, None, 8], 3, ASCII), "# #")
        self.assertEqual(sparkline([], 3, ASCII), "   ")
        self.assertEqual(sparkline([1, 2], 0, ASCII), "")
        # A cell shows two values, in four levels.
        self.assertEqual(sparkline([4, 4], 1, UTF8), "⣿")
        self.assertEqual(sparkline([1, 4], 1, UTF8), "⣸")

    def test_graph(self):
        self.assertEqual(graph([2, 4], 2, 2, ASCII), [" #", "##"])
        self.assertEqual(graph([None, 4], 1, 1, UTF8), ["⢸"])
        for width in range(5):
            for height in range(5):
                lines = graph([1, 2, 3] * 9, width, height, UTF8, 3)
                self.assertEqual([len(line) for line in lines], [width] * height)


class Grids(unittest.TestCase):
    def test_nothing_is_drawn_outside(self):
        grid = Grid(2, 4)
        for y, x in ((-1, 0), (2, 0), (0, -2), (1, 3)):
            grid.put(y, x, "abcd", "bad")
        self.assertEqual(grid.text(), "cd\n   a")
        # Half of a wide character is not drawn.
        grid = Grid(1, 3)
        grid.put(0, 0, "日本")
        self.assertEqual(grid.text(), "日")
        self.assertEqual(Grid(0, 0).text(), "")

    def test_runs(self):
        grid = Grid(1, 6)
        grid.put(0, 1, "ab", "bad")
        self.assertEqual([(x, text) for x, text, _ in grid.runs(0)],
                         [(0, " "), (1, "ab"), (3, "   ")])
        self.assertIn("\x1b[1;38;5;203mab\x1b[0m", paint(grid, True))
        self.assertEqual(paint(grid, False), " ab\n")

    def test_box(self):
        grid = Grid(3, 12)
        grid.box(grid.rect(), [("Title", "title")], ASCII.box, note="4")
        self.assertEqual(grid.text(), "+- Title --+\n|          |\n+----------+")


class Tables(unittest.TestCase):
    columns = [
        words("name", "NAME", 6, lambda r: r[0], keep=9),
        amount("n", "N", lambda r: r[1], keep=5),
        amount("m", "M", lambda r: r[2], keep=1),
    ]
    rows = [("b2", 5, 1), ("b10", None, 2), ("a", 7, 3)]

    def table(self):
        return Table(list(self.columns))

    def arranged(self, table):
        return [r[0] for r in table.arrange(self.rows, lambda r: r[0])]

    def test_sort(self):
        table = self.table()
        self.assertEqual(self.arranged(table), ["a", "b2", "b10"])
        table.choose(1)
        # The largest first; unknown values last, in either order.
        self.assertEqual(self.arranged(table), ["a", "b2", "b10"])
        table.reverse = True
        self.assertEqual(self.arranged(table), ["b2", "a", "b10"])
        table.choose(-2)
        self.assertEqual(table.sort, "m")

    def test_filter(self):
        table = self.table()
        table.filter = "B"
        self.assertEqual(self.arranged(table), ["b2", "b10"])

    def test_cursor_stays_on_its_row(self):
        table, key = self.table(), lambda r: r[0]
        rows = table.arrange(self.rows, key)
        table.move(rows, key, 1)
        self.assertEqual(table.place(rows, key)[0], "b2")
        self.assertEqual(table.place([("x", 1, 1), *rows], key)[0], "b2")
        # The selected row is gone: the row in its place is selected.
        self.assertEqual(table.place([rows[0], rows[2]], key)[0], "b10")
        self.assertIsNone(table.place([], key))

    def test_columns_that_fit(self):
        table = self.table()
        for width, names in (
            (30, "name n m"), (20, "name n m"), (19, "name n"), (13, "name n"), (12, "name"),
            (1, "name"), ):
            self.assertEqual(" ".join(c.name for c, _ in table.fitting(width)), names, width)

    def test_scroll(self):
        table, key = self.table(), lambda r: r[0]
        rows = [(f"r{i}", i, i) for i in range(100)]
        arranged = table.arrange(rows, key)
        for step, first in ((0, "r0"), (8, "r0"), (1, "r1"), (10**9, "r91"), (-1, "r91"),
                            (-20, "r78")):
            table.move(arranged, key, step)
            grid = Grid(10, 30)
            table.draw(grid, grid.rect(), arranged, ASCII, key)
            self.assertEqual(grid.text().split("\n")[1].split()[0], first, step)

    def test_every_size(self):
        for height in range(6):
            for width in range(40):
                grid = Grid(height, width)
                self.table().draw(grid, Rect(0, 0, height, width), self.rows, UTF8, lambda r: r[0])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
