# SPDX-License-Identifier: BSD-3-Clause
"""leat-top in a real terminal, played by tmux: keys, sizes, changes, processes that come and go,
the end.

    test_top_terminal.py TMUX
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import unittest

from tune_case import Case

import leat_tune

TOP = [sys.executable, "-B", "-W", "error", "-m", "leat_top"]
# The terminal has this size, in a locale with Unicode; leat-top looks every 0.2 s.
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])[;m]")
SIZE, OPTIONS = (120, 40), ("-d", "0.2")


class Terminal(Case):
    def setUp(self):
        super().setUp()
        self.number = 0  # of the tmux server: a server that ends is not talked to again
        self.home = os.path.join(self.dir, "terminal")
        os.mkdir(self.home)

    def path(self, name):
        return os.path.join(self.home, name)

    def tmux(self, *command, check=True):
        done = subprocess.run(
            [TMUX, "-S", self.path(f"socket{self.number}"), "-f", "/dev/null", *command],
            capture_output=True, text=True, timeout=30,
        )
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def start(self, *options, term="tmux-256color", locale="C.UTF-8", size=SIZE, program=TOP):
        """Start leat-top in a shell, which notes the state of the terminal before and after."""
        top = shlex.join([*program, "--tune-dir", self.dir, *OPTIONS, *options])
        with open(self.path("run"), "w", encoding="utf-8") as f:
            f.write(
                # Ctrl-C is for leat-top, not for the shell.
                f"trap : INT\ncd {shlex.quote(self.home)}\nexport TERM={term} "
                f"LC_ALL={locale}\nstty -g > before\n"
                f"sh -c 'echo $$ > pid; exec {top}' 2> errors\necho $? > code\nstty -g > after\n"
                "echo ended with $(cat code)\nexec cat\n"
            )
        # Run the shell in a terminal of a new tmux server.
        self.number += 1
        width, height = size
        shell = f"exec sh {shlex.quote(self.path('run'))}"
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), shell)
        self.addCleanup(self.tmux_end, self.number)

    def tmux_end(self, number):
        subprocess.run([TMUX, "-S", self.path(f"socket{number}"), "kill-server"],
                       capture_output=True, timeout=30)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def until(self, *texts, none=()):
        """Return the screen when it has all these texts, and none of those."""
        seen = ""

        def there():
            nonlocal seen
            seen = self.screen()
            return all(t in seen for t in texts) and not any(t in seen for t in none)

        try:
            self.eventually(there)
        except AssertionError:
            self.fail(f"no {texts} (without {none}) in\n{seen}\n{self.text('errors')}")
        return seen

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def ended(self, code):
        """Check that leat-top ended, and that the terminal is as before."""
        screen = self.until(f"ended with {code}")
        self.assertEqual(self.text("before"), self.text("after"))
        wanted = "#{alternate_on} #{cursor_flag} #{keypad_flag} #{keypad_cursor_flag}"
        flags = self.tmux("display-message", "-p", wanted)
        self.assertEqual(flags.split(), ["0", "1", "0", "0"], "alternate screen, cursor, keypad")
        self.assertNotIn("╭", screen)
        return self.text("errors")

    def pid(self):
        return int(self.text("pid"))

    # ---- tests ----

    def test_keys(self):
        self.fake("--program", "leat-perf", "--load")
        self.start()
        self.until("1 process", "Lcores 3", "Endpoints 3", "leat-perf", "net_fake0")
        self.keys("3")
        self.until("╭─ Endpoints 3", none=("Lcores",))
        # Sorted by operations, reversed, and filtered.
        self.keys("s", "s", "s", "s", "s")
        self.until("▼OPS/s")
        self.keys("r")
        self.until("▲OPS/s")
        self.keys("/")
        self.until("/▏")
        self.keys("ep1", "Enter")
        self.until("1 of 3 with ep1", none=("ep2",))
        self.keys("Enter")
        self.until("endpoint.ep1", "Measurements", "Latency in the last interval", "10.0.1.0:1234")
        self.keys("Escape")
        self.until("1 of 3 with ep1", none=("Measurements",))
        self.keys("Left")
        self.until("╭─ Reactors 3")
        self.keys("?")
        self.until("Shift-Tab")
        self.keys("Escape", "1")
        self.until("╭─ Processes 1")
        self.keys("Space")
        self.until("PAUSED")
        self.keys("+")
        self.until("every 0.1 s")
        self.keys("q")
        self.assertEqual(self.ended(0), "")

    def test_sizes(self):
        self.fake("--load")
        self.start()
        self.until("Lcores 3")
        for width, height, text in (
            (20, 5, "leat-top"), (250, 70, "history"), (80, 24, "Processes"), (40, 10, "Processes"),
            (3, 2, ""), (60, 12, "Processes"), (1, 1, ""), (130, 45, "Lcores 3"),
        ):
            self.tmux("resize-window", "-x", str(width), "-y", str(height))
            screen = self.until(text)
            self.assertLessEqual(max(map(len, screen.split("\n"))), width)
        self.keys("2", "Enter", "e", "e")
        self.until("Change reactor.lcore0")
        for width, height in ((20, 5), (200, 50)):
            self.tmux("resize-window", "-x", str(width), "-y", str(height))
            self.until("1 to 32" if width > 100 else "ep_burst")
        self.keys("Escape", "q")
        self.assertEqual(self.ended(0), "")

    def test_change_a_setting(self):
        self.fake("--program", "leat-perf")
        process = self.only()

        def value(name):
            return process.snapshot().object("reactor.lcore1").settings[name]

        self.start()
        self.until("Lcores 3")
        self.keys("5", "/")
        self.until("/▏")
        self.keys("lcore1.", "Enter")
        self.until(" with lcore1.", "reactor.lcore1.ep_burst")
        self.keys("Home", "e")
        self.until("Change reactor.lcore1", "1 to 32 ops", "default 32")
        self.keys("99", "Enter")
        self.until("refused: ep_burst: 99 is not from 1 to 32", "99▏")
        self.assertEqual(value("ep_burst"), 32)
        self.keys("BSpace", "BSpace", "16", "Enter")
        self.until("reactor.lcore1: ep_burst = 16", none=("Change reactor",))
        self.eventually(lambda: value("ep_burst") == 16)
        # An enum, leased for as long as leat-top runs.
        self.keys("Down", "e")
        self.until("idle_policy", "◂ auto ▸")
        self.keys("Right", "Down", "Left")
        self.until("spin", "while leat-top runs")
        self.keys("Enter")
        self.until("reactor.lcore1: idle_policy = spin")
        self.eventually(lambda: value("idle_policy") == "spin")
        self.until("leat-top[")
        # A setting that takes effect at start; a group whose rule is broken.
        self.keys("Down", "e")
        self.until("takes effect only at start")
        self.keys("Down", "e")
        self.until("changed together: sleep_min_us <= sleep_max_us")
        self.keys("5", "Enter")
        self.until("does not hold")
        self.keys("Escape", "6")
        self.until("╭─ Changes of settings 2", "idle_policy", "spin")
        self.keys("q")
        self.ended(0)
        self.eventually(lambda: value("idle_policy") == "auto")
        self.assertEqual(value("ep_burst"), 16)

    def test_processes_come_and_go(self):
        self.start()
        self.until("no leat process of this user runs")
        first = self.fake("--program", "first", "--load")
        self.until("Processes 1", "first", "Lcores 3")
        second = self.fake("--program", "second", "--load")
        self.until("Processes 2", "second", "Lcores 6")
        self.keys("Down", "Down", "Enter")
        self.until(f"▸ second {second.pid}" if second.pid > first.pid else "▸ first")
        (second if second.pid > first.pid else first).kill()
        self.until("is gone", "Processes 1", "Lcores 3", none=("Processes 2",))
        left = first if second.pid > first.pid else second
        # A stopped process: its last values stay, in red.
        left.send_signal(signal.SIGSTOP)
        screen = self.until("stands still: no sign of life for", "1 in trouble")
        self.assertIn("Lcores 3", screen)
        self.assertIn("\x1b[", self.tmux("capture-pane", "-e", "-p"))
        left.send_signal(signal.SIGCONT)
        self.until("1 process", none=("in trouble",))
        left.kill()
        self.until("no leat process of this user runs", none=("Lcores",))
        self.keys("q")
        self.assertEqual(self.ended(0), "")

    def test_signals(self):
        self.fake()
        for send, code in ((lambda: self.keys("C-c"), 130),
                           (lambda: os.kill(self.pid(), signal.SIGTERM), 143)):
            self.start()
            self.until("Lcores 3")
            send()
            self.assertNotIn("Traceback", self.ended(code))
        # An agent that was killed leaves nothing behind.
        with self.only().session("after") as session:
            self.assertEqual(session.set("reactor.lcore0", {"spin_us": 60}).effective,
                             {"spin_us": 60})

    def test_an_exception(self):
        self.fake()
        code = (
            "import sys; from leat_top import main, app; d = app.App.draw\n"
            "def draw(self, grid):\n"
            " if self.model.objects(): raise RuntimeError('a mistake')\n"
            " d(self, grid)\n"
            "app.App.draw = draw; sys.exit(main.main())"
        )
        broken = self.path("broken.py")
        with open(broken, "w", encoding="utf-8") as f:
            f.write(code)
        self.start(program=[sys.executable, "-B", broken])
        self.assertIn("RuntimeError: a mistake", self.ended(1))

    def test_terminals(self):
        self.fake("--load")
        for term, options, colours in (
            ("xterm", (), True), ("vt100", (), False),
            ("tmux-256color", ("--color", "never"), False), ("tmux-256color", (), True),
        ):
            self.start(*options, term=term)
            self.until("Lcores 3")
            shown = self.tmux("capture-pane", "-e", "-p")
            self.assertEqual(bool(COLOUR.search(shown)), colours, term)
            self.keys("q")
            self.ended(0)
        self.start("--ascii")
        self.until("Lcores 3")
        self.assertTrue(self.screen().isascii())
        self.keys("q")
        self.ended(0)
        self.start(locale="C")
        self.until("Lcores 3")
        self.assertTrue(self.screen().isascii())
        self.keys("q")
        self.ended(0)
        self.start(term="no-such-terminal")
        self.assertIn("leat-top: the type of the terminal is not known", self.ended(1))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1]:
        print("tmux is not installed")
        sys.exit(77)
    TMUX = sys.argv.pop(1)
    sys.exit(unittest.main(verbosity=1))
