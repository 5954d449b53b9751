# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune export: processes that come, stop, hang and die, and Prometheus that scrapes meanwhile.

test_export.py [--minutes N]: how long Prometheus scrapes (default: 10 s)
"""

import argparse
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import openmetrics

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 10.0
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: leat
  static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def tune(*args, **options):
    return subprocess.Popen([sys.executable, "-B", "-m", "leat_tune._cli", *args], text=True,
                            **options)


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="leat-export-")
        self.addCleanup(shutil.rmtree, self.dir)

    def process(self, objects=2):
        """Start a fake process, and wait until it is ready."""
        child = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "fake_process.py"), "--dir", self.dir,
             "--objects", str(objects), "--load"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(end, child)
        self.assertTrue(child.stdout.readline())
        return child

    def export(self, *args, listen="127.0.0.1:0"):
        """Start the exporter; return it and its port."""
        child = tune("export", "--tune-dir", self.dir, "--listen", listen, *args,
                     stderr=subprocess.PIPE)
        self.addCleanup(end, child)
        while True:
            line = child.stderr.readline()
            self.assertTrue(line, "the exporter ended")
            match = re.search(r"http://[^ ]*:(\d+)/metrics", line)
            if match:
                return child, int(match[1])

    def scrape(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/metrics", headers=OPENMETRICS)
            return openmetrics.parse(connection.getresponse().read().decode())
        finally:
            connection.close()

    def until(self, port, condition):
        """Scrape again until the condition holds."""
        deadline = time.monotonic() + 60
        while True:
            found = self.scrape(port)
            try:
                if condition(found):
                    return found
            except KeyError:
                pass
            self.assertLess(time.monotonic(), deadline, "it never held")


def value(found, name, process=None, **labels):
    if process is not None:
        labels["pid"] = str(process.pid)
    return openmetrics.value(found, name, **labels)


class Life(Case):
    def test_processes_come_and_go(self):
        _, port = self.export()
        self.assertEqual(value(self.scrape(port), "leat_exporter_processes"), 0)
        a, b = self.process(), self.process()
        found = self.until(port, lambda f: value(f, "leat_exporter_processes") == 2)
        for one in (a, b):
            self.assertEqual(value(found, "leat_up", one), 1)
            self.assertGreaterEqual(value(found, "leat_reactor_turns_total", one, object="lcore0"),
                                    0)
        # The counters of running processes move.
        before = value(found, "leat_reactor_turns_total", a, object="lcore0")
        self.until(port,
                   lambda f: value(f, "leat_reactor_turns_total", a, object="lcore0") > before)
        b.kill()
        b.wait()
        found = self.scrape(port)
        with self.assertRaises(KeyError):
            value(found, "leat_up", b)
        self.assertEqual(value(found, "leat_up", a), 1)

    def test_a_scraper_that_leaves(self):
        exporter, port = self.export()
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as gone:
                gone.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3)
        self.assertEqual(value(self.scrape(port), "leat_exporter_processes"), 0)
        self.assertIsNone(exporter.poll())

    def test_one_that_is_stopped(self):
        _, port = self.export()
        one = self.process()
        before = self.until(port, lambda f: value(f, "leat_up", one) == 1)
        os.kill(one.pid, signal.SIGSTOP)
        found = self.until(port, lambda f: value(f, "leat_up", one) == 0)
        self.assertGreater(value(found, "leat_heartbeat_age_seconds", one), 3)
        self.assertGreaterEqual(value(found, "leat_reactor_turns_total", one),
                                value(before, "leat_reactor_turns_total", one))
        # Another process that starts meanwhile is seen: the stopped one does not block.
        other = self.process()
        self.until(port, lambda f: value(f, "leat_rows", other, component="peer") == 2)
        os.kill(one.pid, signal.SIGCONT)
        self.until(port, lambda f: value(f, "leat_up", one) == 1)

    def test_rows(self):
        self.process()
        _, port = self.export("--rows")
        found = self.until(port, lambda f: value(f, "leat_peer_posted_ops_total", parent="ep0"))
        self.assertEqual(len({dict(pairs)["object"]
                              for _, pairs in found["leat_peer_posted_ops"]["samples"]}), 4)

    def test_a_directory_of_rubbish(self):
        with open(os.path.join(self.dir, "1-0000000000000001.block"), "wb") as file:
            file.write(os.urandom(8192))
        os.chmod(file.name, 0o600)
        os.symlink("/etc/passwd", os.path.join(self.dir, "2-0000000000000002.block"))
        _, port = self.export()
        found = self.scrape(port)
        self.assertEqual(value(found, "leat_exporter_problems"), 2)
        os.chmod(self.dir, 0o755)
        found = self.scrape(port)
        self.assertEqual(value(found, "leat_exporter_scrape_errors_total", reason="directory"), 1)
        self.assertEqual(value(found, "leat_exporter_processes"), 0)

    def test_signals(self):
        for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            child, port = self.export()
            idle = socket.create_connection(("127.0.0.1", port))
            self.addCleanup(idle.close)
            child.send_signal(number)
            self.assertEqual(child.wait(30), status)


class Usage(Case):
    def run_tune(self, *args):
        child = tune("export", "--tune-dir", self.dir, *args, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
        self.addCleanup(end, child)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def test_once(self):
        one = self.process()
        status, out, err = self.run_tune("--once", "--openmetrics")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(value(openmetrics.parse(out), "leat_up", one), 1)
        status, out, _ = self.run_tune("--once", "--program", "other*")
        self.assertEqual(status, 0)
        self.assertIn("leat_exporter_processes 0\n", out)
        if shutil.which("promtool"):
            _, out, _ = self.run_tune("--once", "--texts", "--rows")
            done = subprocess.run(["promtool", "check", "metrics"], input=out, text=True,
                                  capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_remote_only_when_it_is_said(self):
        for listen in ("0.0.0.0:0", ":0", "[::]:0", "10.0.0.1:0"):
            status, _, err = self.run_tune("--listen", listen)
            self.assertEqual(status, 2, listen)
            self.assertIn("--allow-remote", err)
        child = tune("export", "--tune-dir", self.dir, "--listen", "0.0.0.0:0", "--allow-remote",
                     stderr=subprocess.PIPE)
        self.addCleanup(end, child)
        self.assertIn("warning: whoever can connect", child.stderr.readline())

    def test_nonsense(self):
        for args in (("--listen", "nonsense"), ("--listen", "127.0.0.1:70000"),
                     ("--listen", "1:2:3"), ("--rows=some",), ("--unknown",)):
            self.assertEqual(self.run_tune(*args)[0], 2, args)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            status, _, err = self.run_tune("--listen", "127.0.0.1:%d" % taken.getsockname()[1])
            self.assertEqual(status, 1)
            self.assertIn("in use", err)


@unittest.skipUnless(shutil.which("prometheus"), "prometheus was not found (package prometheus)")
class Prometheus(Case):
    def start(self, port):
        """Start Prometheus; return it and its own port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = free.getsockname()[1]
        config = os.path.join(self.dir, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(port=port))
        child = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{own}",
             f"--storage.tsdb.path={self.dir}/data", "--log.level=warn"], stderr=subprocess.PIPE,
            text=True)
        self.addCleanup(end, child)
        return child, own

    def query(self, port, expression):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET",
                               "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                return []
            return json.loads(body)["data"]["result"]
        except ConnectionError:
            return []
        finally:
            connection.close()

    def wait_for(self, port, expression, child):
        deadline = time.monotonic() + 60
        while not (result := self.query(port, expression)):
            self.assertIsNone(child.poll(), "prometheus ended")
            self.assertLess(time.monotonic(), deadline, expression)
            select.select([], [], [], 0.1)
        return result

    def test_it_scrapes_while_processes_come_and_go(self):
        exporter, port = self.export("--rows", "--texts")
        child, own = self.start(port)
        stays = self.process()
        seen = {str(stays.pid)}
        rng = random.Random(1)
        others, leaving = [], []
        self.wait_for(own, f'leat_up{{pid="{stays.pid}"}} == 1', child)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if len(others) < 4 or rng.random() < 0.5:
                others.append(self.process(objects=rng.randint(1, 3)))
                seen.add(str(others[-1].pid))
            else:
                victim = others.pop(rng.randrange(len(others)))
                victim.send_signal(rng.choice((signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP)))
                leaving.append(victim)
                if len(leaving) > 4:
                    end(leaving.pop(0))
            select.select([], [], [], 0.2)
        self.assertIsNone(exporter.poll())
        # No scrape failed, and none had an answer that Prometheus refuses.
        span = f"[{int(time.monotonic() - deadline + SECONDS) + 60}s]"
        (up,) = self.query(own, f"min_over_time(up{span})")
        self.assertEqual(up["value"][1], "1")
        (count,) = self.query(own, f"count_over_time(up{span})")
        self.assertGreater(int(count["value"][1]), SECONDS / 2)
        (turns,) = self.query(own,
                              f'increase(leat_reactor_turns_total{{pid="{stays.pid}",'
                              f'object="lcore0"}}{span})')
        self.assertGreater(float(turns["value"][1]), 0)
        pids = {one["metric"]["pid"] for one in self.query(own, f"last_over_time(leat_up{span})")}
        self.assertLess(1, len(pids & seen))
        (samples,) = self.query(own, f'max_over_time(scrape_samples_scraped{{job="leat"}}{span})')
        self.assertGreater(int(samples["value"][1]), 100)
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=60)
        # Prometheus warns of samples that are duplicate, out of order, or unreadable.
        self.assertEqual([line for line in err.splitlines() if "scrape" in line.lower()], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float)
    options, rest = parser.parse_known_args()
    if options.minutes is not None:
        SECONDS = options.minutes * 60
    unittest.main(argv=sys.argv[:1] + rest)
