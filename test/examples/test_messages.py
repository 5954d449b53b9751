# SPDX-License-Identifier: BSD-3-Clause
"""Examples of messages and remote calls, as processes.

test_messages.py PROVIDER HELLO ECHO KV RPC [EAL ARGUMENT...]
"""

import re
import signal
import socket
import subprocess
import sys
import threading
import unittest

PROVIDER, HELLO, ECHO, KV, RPC = sys.argv[1:6]
EAL = sys.argv[6:]
DEADLINE = 60


class Program:
    """A process, whose lines are read while it runs."""

    def __init__(self, test, number, program, *args):
        iface = ",iface=lo" if PROVIDER == "tcp" else ""
        device = f"--vdev=fabric_ofi0,provider={PROVIDER}{iface}"
        self.lines = []
        self.more = threading.Condition()
        self.p = subprocess.Popen(
            [program, *EAL, "-l", "0", f"--file-prefix=leat-test-{test.port}-{number}", device,
             "--", *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.err = []
        self.threads = [threading.Thread(target=self.read), threading.Thread(target=self.read_err)]
        for t in self.threads:
            t.start()
        test.addCleanup(self.end)

    def read(self):
        for line in self.p.stdout:
            with self.more:
                self.lines.append(line.rstrip("\n"))
                self.more.notify_all()

    def read_err(self):
        for line in self.p.stderr:
            with self.more:
                self.err.append(line)
                self.more.notify_all()

    def end(self):
        self.p.kill()
        self.p.wait()
        for t in self.threads:
            t.join()
        self.p.stdout.close()
        self.p.stderr.close()

    def line(self, pattern, behind=0):
        """Wait for a line that matches, from line `behind` on. Return its number, and the match."""
        with self.more:
            def found():
                for i, text in enumerate(self.lines[behind:], behind):
                    m = re.fullmatch(pattern, text)
                    if m:
                        return i, m
                return None
            if not self.more.wait_for(found, DEADLINE):
                raise AssertionError(f"no line is like {pattern}: {self.lines} {''.join(self.err)}")
            return found()

    def error(self, pattern, behind=0):
        """Wait for a line on stderr that matches, from line `behind` on."""
        with self.more:
            if not self.more.wait_for(lambda: any(re.fullmatch(pattern, e.rstrip("\n"))
                                                  for e in self.err[behind:]), DEADLINE):
                raise AssertionError(f"no error is like {pattern}: {''.join(self.err)}")

    def ends(self, code=0):
        self.p.wait(DEADLINE)
        for t in self.threads:
            t.join()
        if self.p.returncode != code:
            raise AssertionError(f"ends with {self.p.returncode}: {self.lines} {''.join(self.err)}")

    def interrupt(self):
        self.p.send_signal(signal.SIGINT)


class Messages(unittest.TestCase):
    def setUp(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.addr = f"127.0.0.1:{self.port}"

    def test_hello(self):
        client = Program(self, 1, HELLO, "client", self.addr)
        server = Program(self, 2, HELLO, "server", self.addr)
        client.line("hello, client")
        server.line("hello, server")
        client.ends()
        server.ends()

    def test_echo(self):
        server = Program(self, 1, ECHO, "server", self.addr)
        for number, size in ((2, 0), (3, 64), (4, 100000)):
            client = Program(self, number, ECHO, "client", self.addr, "200", str(size))
            client.line(rf"200 echoes of {size} B, [0-9.]+ us each")
            client.ends()
        server.interrupt()
        server.ends()

    def test_kv(self):
        def served(behind):
            """Wait until the client reports answers; return the number of the line after."""
            return client.line(r"[1-9]\d* requests/s, \d+ late, 0 wrong", behind)[0] + 1

        client = Program(self, 1, KV, "client", self.addr, "16", "0", "500")
        server = Program(self, 2, KV, "server", self.addr)
        served(0)
        # The server is stopped in the middle, and started again: the client finds the new one.
        server.interrupt()
        server.line(r"server: [1-9]\d* requests")
        server.ends()
        behind = len(client.lines)
        server = Program(self, 3, KV, "server", self.addr)
        served(served(behind))
        # The server is killed.
        server.p.kill()
        server.ends(-signal.SIGKILL)
        behind = len(client.lines)
        server = Program(self, 4, KV, "server", self.addr)
        served(served(behind))
        client.interrupt()
        _, m = client.line(r"client: (\d+) answered, \d+ late, 0 wrong, (\d+) sessions")
        client.ends()
        self.assertGreater(int(m[1]), 0)
        self.assertGreaterEqual(int(m[2]), 3)
        # A client is killed with requests in flight.
        client = Program(self, 6, KV, "client", self.addr, "16", "0")
        served(0)
        client.p.kill()
        client.ends(-signal.SIGKILL)
        # The server sees the client's end, and serves the next one.
        client = Program(self, 5, KV, "client", self.addr, "4", "1")
        client.line(r"client: [1-9]\d* answered, 0 late, 0 wrong, 1 sessions")
        client.ends()
        server.interrupt()
        server.ends()

    def test_rpc(self):
        def keys(client):
            """Interrupt the client. Return the number of its keys."""
            client.interrupt()
            _, m = client.line(r"(\d+) keys")
            client.ends()
            return int(m[1])

        # The client starts first, and reports that its calls time out.
        client = Program(self, 1, RPC, "client", self.addr, "100000000")
        client.error(r"key 1: Connection timed out")
        server = Program(self, 2, RPC, "server", self.addr)
        client.error(r"key 1: answered")
        # A second client gets answers, too.
        client2 = Program(self, 3, RPC, "client", self.addr, "100")
        client2.line(r"no such key within 2 ms: Connection timed out")
        # The server is killed, and started again: the client goes on.
        behind = len(client.err)
        server.p.kill()
        server.ends(-signal.SIGKILL)
        server = Program(self, 4, RPC, "server", self.addr)
        client.error(r"key \d+: answered", behind)
        self.assertGreater(keys(client), 1)
        # A server is interrupted in the middle of calls.
        client = Program(self, 5, RPC, "client", self.addr, "100000000")
        client.error(r"key 1: answered")
        server.interrupt()
        server.ends()
        client.error(r"key \d+: (?!answered).*")
        self.assertGreater(keys(client), 0)

    def test_nonsense(self):
        Program(self, 1, KV, "x").ends(2)
        for args in (["x", self.addr], ["client"], ["client", self.addr, "x"],
                     ["server", self.addr, "1", "1"]):
            Program(self, 1, RPC, *args).ends(2)
        Program(self, 2, ECHO, "client").ends(2)
        for number, program in ((3, ECHO), (4, KV), (7, RPC)):
            client = Program(self, number, program, "client", "nonsense")
            client.ends(1)
            self.assertIn("nonsense", "".join(client.err))
        for args in (["x"], ["server", self.addr, "x"]):
            Program(self, 5, HELLO, *args).ends(2)
        for numbers in (["0"], ["257"], ["-1"], ["1", "x"], ["1", "1", "0"], ["1", "1", "1", "1"]):
            Program(self, 6, KV, "client", self.addr, *numbers).ends(2)

    def test_help(self):
        for program in (HELLO, ECHO, KV, RPC):
            p = Program(self, 1, program, "--help")
            p.ends()
            self.assertTrue(p.err[0].startswith("usage: "))

    def test_no_server(self):
        """A client reports once that there is no server; its exit code is 0 when interrupted."""
        client = Program(self, 1, KV, "client", self.addr, "1", "0")
        for _ in range(3):
            behind = len(client.lines)
            client.line(r"0 requests/s, 0 late, 0 wrong", behind)
        client.interrupt()
        client.ends()
        self.assertEqual(sum("no server at" in text for text in client.err), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
