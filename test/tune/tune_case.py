# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests of agents: a directory, processes, waiting for conditions."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import leat_tune

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = [sys.executable, "-B", "-W", "error", os.path.join(HERE, "fake_process.py")]
LONG = 30.0  # seconds after which a test gives up


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="leat-tune-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def eventually(self, condition, what: str = "it did not come", within: float = LONG):
        """Return the condition's value, once that is true."""
        end = time.monotonic() + within
        while True:
            value = condition()
            if value:
                return value
            self.assertLess(time.monotonic(), end, what)
            select.select([], [], [], 0.002)

    def spawn(self, command: list[str], **options) -> subprocess.Popen:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.addCleanup(self._reap, p)
        return p

    @staticmethod
    def _reap(p: subprocess.Popen) -> None:
        if p.poll() is None:
            p.send_signal(signal.SIGCONT)
            p.kill()
        p.communicate()

    def fake(self, *options: str) -> subprocess.Popen:
        """Start a fake process of its own, and wait until it is ready."""
        p = self.spawn([*FAKE, "--dir", self.dir, *options])
        self.assertIn("-", p.stdout.readline())
        return p

    def only(self) -> leat_tune.Process:
        """Return the only process."""
        [process] = leat_tune.processes(self.dir)
        self.addCleanup(process.close)
        return process
