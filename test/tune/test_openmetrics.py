# SPDX-License-Identifier: BSD-3-Clause
"""The text of a scrape: both formats, names and units, rows, and processes that leave or hang."""

import shutil
import subprocess
import unittest

import fake
import openmetrics
from leat_tune import metrics
from leat_tune.metrics import _names, _rows, _text


def collect(processes, problems=(), **options):
    return metrics.Collector(lambda: (list(processes), list(problems)), **options)


def scrape(collector):
    return openmetrics.parse(metrics.render(collector.collect(), True))


class Names(unittest.TestCase):
    def name(self, *args, **more):
        schema = {"component": "x", "reports": [fake.report(*args, **more)]}
        return next(metrics.families(schema)).sample

    def test_units_are_base_units(self):
        self.assertEqual(self.name("busy_ns", unit="ns"), "leat_x_busy_seconds_total")
        self.assertEqual(self.name("busy", unit="us"), "leat_x_busy_seconds_total")
        self.assertEqual(self.name("us", unit="us"), "leat_x_seconds_total")
        self.assertEqual(self.name("sent_bytes", unit="bytes"), "leat_x_sent_bytes_total")
        self.assertEqual(self.name("bytes", unit="bytes"), "leat_x_bytes_total")
        self.assertEqual(self.name("ops", unit="ops"), "leat_x_ops_total")
        self.assertEqual(self.name("load", "gauge", unit="percent"), "leat_x_load_ratio")
        self.assertEqual(self.name("runs", unit="calls"), "leat_x_runs_calls_total")
        self.assertEqual(self.name("latency", "histogram"), "leat_x_latency_seconds")

    def test_no_name_twice(self):
        for schema in (fake.EP, fake.PEER):
            names = [f.name for f in metrics.families(schema.json)]
            self.assertEqual(len(names), len(set(names)))

    def test_list(self):
        names = _names.metric_list([fake.EP.json])
        for name in ("leat_up", "leat_ep_ops_total", "leat_ep_latency_seconds_bucket",
                     "leat_ep_address_info"):
            self.assertIn(name, names)
        self.assertNotIn("leat_ep_latency_seconds", names)


class Text(unittest.TestCase):
    def test_values(self):
        found = scrape(collect([fake.Process("perf", 7, [fake.ep()])]))

        def value(name, **labels):
            return openmetrics.value(found, name, program="perf", pid="7", object="ep0", **labels)

        self.assertEqual(value("leat_ep_ops_total"), 10)
        self.assertEqual(value("leat_ep_busy_seconds_total"), 1.5)
        self.assertEqual(value("leat_ep_wait_seconds_total"), 2e-6)
        self.assertEqual(value("leat_ep_waiting"), -3)
        self.assertEqual(value("leat_ep_load_ratio"), 0.125)
        self.assertEqual(value("leat_ep_up"), 1)
        self.assertEqual(value("leat_ep_state", leat_ep_state="busy"), 1)
        self.assertEqual(value("leat_ep_state", leat_ep_state="idle"), 0)
        self.assertEqual(value("leat_ep_latency_seconds_count"), 4)
        self.assertEqual(value("leat_ep_latency_seconds_bucket", le="6.4e-08"), 1)
        self.assertEqual(value("leat_ep_latency_seconds_bucket", le="1.28e-07"), 2)
        self.assertEqual(value("leat_ep_latency_seconds_bucket", le="8.192e-06"), 3)
        self.assertEqual(value("leat_ep_latency_seconds_bucket", le="4.294967296"), 3)
        self.assertAlmostEqual(value("leat_ep_latency_seconds_sum"), (5140 + (1 << 40)) / 1e9)
        self.assertEqual(found["leat_ep_busy_seconds"]["UNIT"], "seconds")
        self.assertEqual(found["leat_ep_ops"]["HELP"], "The ops.")
        self.assertGreater(value("leat_ep_ops_created"), 0)
        with self.assertRaises(KeyError):
            value("leat_ep_address_info")

    def test_bounds_are_powers_of_two(self):
        bounds = _text.bounds(112)
        self.assertEqual(len(bounds), 27)
        self.assertEqual([round(float(le) * 1e9) for le in bounds], [1 << i for i in range(6, 33)])

    def test_texts_when_wanted(self):
        found = scrape(collect([fake.Process("perf", 7, [fake.ep()])], texts=True))
        self.assertEqual(openmetrics.value(found, "leat_ep_address_info", object="ep0",
                                           address="a:1"), 1)

    def test_labels_are_escaped(self):
        name = 'a"b\\c\nd}é\x1b\udc80'
        found = scrape(collect([fake.Process("perf", 7, [fake.ep(name)])]))
        self.assertEqual(openmetrics.value(found, "leat_ep_ops_total",
                                           object='a"b\\c\nd}é\N{REPLACEMENT CHARACTER}?'), 10)

    def test_every_helpful_line_in_both_formats(self):
        collector = collect([fake.Process("perf", 7, [fake.ep()])], texts=True)
        text = metrics.render(collector.collect(), False)
        self.assertIn("# TYPE leat_ep_ops_total counter\n# HELP leat_ep_ops_total The ops.\n", text)
        self.assertIn("# TYPE leat_ep_address_info gauge", text)
        self.assertIn("# TYPE leat_ep_state gauge", text)
        for word in ("# EOF", "# UNIT", "_created", "stateset"):
            self.assertNotIn(word, text)

    @unittest.skipUnless(shutil.which("promtool"), "promtool was not found (package prometheus)")
    def test_promtool(self):
        rows = [fake.peer("p0", 3), fake.peer("p1", 4)]
        for mode in ("each", "sum", "none"):
            collector = collect([fake.Process("perf", 7, [fake.ep(), *rows]),
                                 fake.Process("perf", 8, [fake.ep(), fake.ep("ep1", id=2)])],
                                texts=True, rows=mode)
            text = metrics.render(collector.collect(), False)
            done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                  capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_accept(self):
        om, prom = metrics.OPENMETRICS, metrics.PROMETHEUS
        for accept, wanted in (
            (None, prom), ("*/*", prom), ("text/plain", prom),
            ("application/openmetrics-text", om),
            # Prometheus 2.42
            ("application/openmetrics-text;version=1.0.0,"
             "application/openmetrics-text;version=0.0.1;q=0.75,"
             "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", om),
            ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5", prom),
            ("application/openmetrics-text;q=0.1,text/plain;q=0.5", prom),
            ("application/openmetrics-text;q=0", prom),
            ("application/openmetrics-text;q=x", prom),
            ("application/openmetrics-text;q=nan", prom), (";;;,,,=;q", prom), ("," * 10000, prom),
        ):
            self.assertEqual(metrics.choose(accept), wanted, accept)


class Processes(unittest.TestCase):
    def test_nothing_there(self):
        found = scrape(collect([]))
        self.assertEqual(openmetrics.value(found, "leat_exporter_processes"), 0)

    def test_hung(self):
        found = scrape(collect([fake.Process("perf", 7, [fake.ep()], age=60.0)]))
        self.assertEqual(openmetrics.value(found, "leat_up", pid="7"), 0)
        self.assertGreater(openmetrics.value(found, "leat_heartbeat_age_seconds", pid="7"), 59)
        self.assertEqual(openmetrics.value(found, "leat_ep_ops_total", pid="7"), 10)

    def test_one_that_leaves_meanwhile(self):
        collector = collect([fake.Process("a", 1, [fake.ep()], fails=FileNotFoundError(2, "gone")),
                             fake.Process("b", 2, [fake.ep()])])
        for scrapes in (1, 2):
            found = scrape(collector)
            self.assertEqual(openmetrics.value(found, "leat_exporter_processes"), 1)
            self.assertEqual(openmetrics.value(found, "leat_exporter_scrape_errors_total",
                                               reason="gone"), scrapes)
            self.assertEqual(openmetrics.value(found, "leat_up", pid="2"), 1)
            with self.assertRaises(KeyError):
                openmetrics.value(found, "leat_up", pid="1")

    def test_no_directory(self):
        def scan():
            raise PermissionError(13, "not yours")

        found = scrape(metrics.Collector(scan))
        self.assertEqual(openmetrics.value(found, "leat_exporter_scrape_errors_total",
                                           reason="directory"), 1)

    def test_releases_that_disagree(self):
        other = fake.Schema("ep", [fake.report("ops", "gauge"), fake.report("new")])
        old = fake.Object(other, "ep0", {"ops": 5, "new": 6})
        same = fake.Object(fake.Schema("ep", [fake.report("ops", unit="ops")]), "ep0", {"ops": 7})
        found = scrape(collect([fake.Process("a", 1, [fake.ep()]), fake.Process("b", 2, [old]),
                                fake.Process("c", 3, [same])]))
        self.assertEqual(openmetrics.value(found, "leat_ep_ops_total", pid="1"), 10)
        self.assertEqual(openmetrics.value(found, "leat_ep_ops_total", pid="3"), 7)
        self.assertEqual(openmetrics.value(found, "leat_ep_new_total", pid="2"), 6)

    def test_a_pid_twice(self):
        found = scrape(collect([fake.Process("a", 1, [fake.ep()]),
                                fake.Process("a", 1, [fake.ep(ops=9)])]))
        self.assertEqual(openmetrics.value(found, "leat_ep_ops_total", pid="1"), 10)
        self.assertGreater(
            openmetrics.value(found, "leat_exporter_scrape_errors_total", reason="duplicate"), 0)


class Rows(unittest.TestCase):
    def test_each(self):
        found = scrape(collect([fake.Process("a", 1, [fake.ep(), fake.peer("p", 3)])], rows="each"))
        self.assertEqual(openmetrics.value(found, "leat_peer_ops_total", object="p", parent="ep0"),
                         3)

    def test_sum(self):
        found = scrape(collect([fake.Process("a", 1,
                                             [fake.ep(), fake.peer("p", 3), fake.peer("q", 4)])]))
        self.assertEqual(openmetrics.value(found, "leat_peer_ops_total", object="ep0"), 7)
        self.assertEqual(openmetrics.value(found, "leat_peer_credits", object="ep0"), 4)
        self.assertEqual(openmetrics.value(found, "leat_peer_longest_seconds", object="ep0"), 4e-6)
        self.assertEqual(openmetrics.value(found, "leat_peer_latency_seconds_count", object="ep0"),
                         7)
        self.assertEqual(openmetrics.value(found, "leat_rows", component="peer", object="ep0"), 2)
        self.assertNotIn("leat_peer_last", found)
        self.assertNotIn("parent", str(found["leat_peer_ops"]["samples"]))

    def test_none(self):
        found = scrape(collect([fake.Process("a", 1, [fake.ep(), fake.peer("p", 3)])], rows="none"))
        self.assertNotIn("leat_peer_ops", found)

    def test_a_sum_never_falls(self):
        process = fake.Process("a", 1, [])
        collector = collect([process])

        def after(*peers):
            process.objects = [fake.ep(), *(fake.peer(name, ops) for name, ops in peers)]
            found = scrape(collector)
            return (openmetrics.value(found, "leat_peer_ops_total"),
                    openmetrics.value(found, "leat_peer_latency_seconds_count"))

        self.assertEqual(after(("p", 5), ("q", 1)), (6, 6))
        self.assertEqual(after(("p", 7), ("q", 1)), (8, 8))
        self.assertEqual(after(("p", 7)), (8, 8))
        self.assertEqual(after(), (8, 8))
        self.assertEqual(after(("p", 2)), (10, 10))  # another peer with that name
        self.assertEqual(after(("p", 2), ("q", 3)), (12, 12))  # the same peer, again

    def test_many_names_are_bounded(self):
        sums = _rows.RowSums()
        family = next(f for f in metrics.families(fake.PEER.json) if f.report == "ops")
        for i in range(_rows.KEPT * 2):
            sums.begin()
            sums.row(f"p{i}", [(family, 1)])
        self.assertEqual(sums.sums(), [(family, _rows.KEPT * 2)])
        self.assertEqual(len(sums._rows), _rows.KEPT)


if __name__ == "__main__":
    unittest.main()
