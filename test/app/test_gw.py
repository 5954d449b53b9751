# SPDX-License-Identifier: BSD-3-Clause
"""Redis' own programs, and clients that misbehave, through both legs.

test_gw.py LEAT_REDIS_GATEWAY VDEV [soak]"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from gw_lib import (DEADLINE, Failed, Gateways, Proc, Resp, Server, Skipped, case, check, cli,
                    command, main, need_redis, until)

VDEV = sys.argv[2]
SOAK = "soak" in sys.argv[3:]


def gateways(server, *app, **how):
    return Gateways(VDEV, server.sock, app, **how)


def check_unshare(before):
    """Skip a test that needs a file /etc/hosts of its own where the system does not allow it."""
    p = subprocess.run([*before, "getent", "ahosts", "twofold"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, check=False)
    if p.returncode != 0:
        raise Skipped("no /etc/hosts of its own here: " + p.stderr.strip())
    first = p.stdout.split()[0]
    check(first == "127.0.0.1", "the first address is " + first)


@case
def redis_cli():
    with Server() as s, gateways(s) as g:
        check(cli(g.where, "SET", "a", "1") == "OK\n", "SET")
        check(cli(g.where, "INCR", "a") == "2\n", "INCR")
        check(cli(g.where, "GET", "a") == "2\n", "GET")
        # Several commands on one connection, as from a terminal.
        check(cli(g.where, stdin=b"PING\nECHO hello\nGET a\n") == "PONG\nhello\n2\n", "from stdin")
        lines = b"".join(command("SET", "k%d" % i, "v%d" % i) for i in range(20000))
        out = cli(g.where, "--pipe", stdin=lines)
        check("errors: 0, replies: 20000" in out, out)
        check(s.direct.call("DBSIZE") == 20001, "DBSIZE")
        check(s.direct.call("GET", "k19999") == b"v19999", "the last one")


@case
def tcp_backend_and_unix_listener():
    with Server() as s:
        path = "unix:" + s.dir + "/listen"
        with Gateways(VDEV, "127.0.0.1:" + s.port, listen=path) as g:
            check(g.where == path, g.where)
            check(cli(path, "PING") == "PONG\n", "PING")
            # The log names the client's address at the server.
            c = g.connect()
            name = c.call("CLIENT", "ID") and dict(
                f.split("=", 1)
                for f in c.call("CLIENT", "LIST", "ID", c.call("CLIENT", "ID")).decode().split())
            g.forward.expect("is the backend's client %s " % name["addr"].replace(".", "\\."),
                             which="err")
            c.close()
        check(not os.path.exists(path[5:]), "the socket's file is left")


@case
def values_of_any_size():
    rng = random.Random(1)
    with Server() as s, gateways(s) as g:
        c = g.connect()
        for size in (0, 1, 63, 64, 4096, 65535, 65536, 65537, 262143, 262144, 262145, 1 << 20,
                     (16 << 20) - 1, 16 << 20):
            value = rng.randbytes(size)
            check(c.call("SET", "v", value) == "+OK", "SET of %d B" % size)
            check(s.direct.call("GET", "v") == value, "%d B arrived otherwise" % size)
            check(c.call("GET", "v") == value, "%d B came back otherwise" % size)
        c.close()


@case
def pipelines():
    with Server() as s, gateways(s) as g:
        c = g.connect()
        for depth in (1, 2, 16, 512):
            for n in range(4):
                c.s.sendall(b"".join(command("ECHO", "%d/%d" % (n, i)) for i in range(depth)))
                for i in range(depth):
                    got = c.read()
                    check(got == b"%d/%d" % (n, i), "%r instead of %d/%d" % (got, n, i))
        c.close()


@case
def both_directions_full():
    """A client that writes without reading is stopped, and loses nothing when it reads at last."""
    with Server("--client-output-buffer-limit", "normal 0 0 0") as s, gateways(s, "--client-bytes",
                                                                               "64K") as g:
        value = os.urandom(1 << 20)
        s.direct.call("SET", "v", value)
        c = g.connect(rcvbuf=65536)
        n = 64
        t = threading.Thread(target=lambda: c.s.sendall(b"".join(command("GET", "v")
                                                                 for _ in range(n))), daemon=True)
        t.start()
        other = g.connect()
        for _ in range(20):
            check(other.call("PING") == "+PONG", "another client is not served")
        for i in range(n):
            check(c.read() == value, "value %d" % i)
        t.join(DEADLINE)
        c.close()
        other.close()


@case
def subscriber_that_does_not_read():
    with Server() as s, gateways(s, "--client-bytes", "64K") as g:
        sub = g.connect(rcvbuf=65536)
        check(sub.call("SUBSCRIBE", "ch")[0] == b"subscribe", "SUBSCRIBE")
        text, n = b"x" * 10000, 2000
        pub = g.connect()
        for i in range(n):
            check(pub.call("PUBLISH", "ch", b"%d " % i + text) == 1, "PUBLISH %d" % i)
        # Replies that the client did not read wait at the server, not in the gateway.
        held = [f for f in s.direct.call("CLIENT", "LIST", "TYPE", "pubsub").decode().split()
                if f.startswith("omem=")]
        check(int(held[0][5:]) > 10000 * n // 2, "the server holds %s" % held)
        for i in range(n):
            got = sub.read()
            check(got == [b"message", b"ch", b"%d " % i + text], "message %d" % i)
        sub.close()
        pub.close()
        until("the server forgets them", lambda: s.clients() == 0)


@case
def monitor():
    with Server() as s, gateways(s) as g:
        m = g.connect()
        check(m.call("MONITOR") == "+OK", "MONITOR")
        for i in range(500):
            s.direct.call("SET", "m", i)
        for i in range(500):
            line = m.read()
            check('"SET" "m" "%d"' % i in line, line)
        m.close()


@case
def blocking_commands():
    with Server() as s, gateways(s) as g:
        a, b = g.connect(), g.connect()
        a.send("BLPOP", "list", "0")
        until("it is blocked", lambda: "cmd=blpop" in s.direct.call("CLIENT", "LIST").decode())
        check(b.call("RPUSH", "list", "x") == 1, "RPUSH")
        check(a.read() == [b"list", b"x"], "BLPOP")
        check(a.call("BLPOP", "list", "0.05") is None, "BLPOP with a time-out")
        a.close()
        b.close()


@case
def redis_benchmark():
    with Server() as s, gateways(s) as g:
        for tests, more in (("set,get,lrange_100", ["-c", "50", "-P", "16", "-n", "20000"]),
                            ("set,get", ["-c", "100", "-n", "2000", "-d", "20000"]),
                            ("set,get", ["-c", "1", "-n", "500"])):
            p = subprocess.run(["redis-benchmark", "-p", g.where.rsplit(":", 1)[1], "-q", "-t",
                                tests, *more],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, timeout=DEADLINE)
            said = p.stdout.count(b"requests per second")
            check(p.returncode == 0 and said == (4 if "lrange" in tests else 2) and
                  b"rror" not in p.stdout, "%s: %s" % (more, p.stdout.decode()))
        until("the server forgets them", lambda: s.clients() == 0)


@case
def half_closed():
    """A client that ends its direction gets the answers to its commands, and then the end."""
    with Server() as s, gateways(s) as g:
        for n in (1, 100):
            c = g.connect()
            check(c.call("PING") == "+PONG", "PING")
            c.s.sendall(b"".join(command("SET", "h%d" % i, "x" * 1000) for i in range(n)))
            c.s.shutdown(socket.SHUT_WR)
            # Redis itself answers what it has read, and drops commands that come with the end.
            try:
                while c.read() == "+OK":
                    pass
            except EOFError:
                pass
            c.close()
        until("all was set",
              lambda: s.direct.call("EXISTS", *["h%d" % i for i in range(100)]) == 100)
        until("the server forgets them", lambda: s.clients() == 0)


@case
def closed_at_once():
    """Bytes written before a close, and before a reset, arrive."""
    with Server() as s, gateways(s) as g:
        for i in range(50):
            c = g.connect()
            c.s.sendall(command("RPUSH", "l", i) + command("RPUSH", "big", b"x" * 100000))
            c.close()
        until("all came",
              lambda: s.direct.call("LLEN", "l") == 50 and s.direct.call("LLEN", "big") == 50)
        until("the server forgets them", lambda: s.clients() == 0)
        # QUIT: the server closes the connection, after its answer.
        c = g.connect()
        c.s.sendall(command("PING") + command("QUIT"))
        check(c.read() == "+PONG" and c.read() == "+OK" and c.ended(), "QUIT")
        c.close()
        # The server kills a client's connection: the client sees the end without sending anything.
        c = g.connect()
        number = c.call("CLIENT", "ID")
        s.direct.call("CLIENT", "KILL", "ID", number)
        check(c.ended(), "a client that was killed goes on")
        c.close()


@case
def server_killed_and_started_again():
    with Server() as s, gateways(s, "--backend-timeout", "60") as g:
        cs = [g.connect() for _ in range(20)]
        for c in cs:
            check(c.call("PING") == "+PONG", "PING")
        cs[0].send("BLPOP", "never", "0")
        s.kill()
        for c in cs:
            check(c.ended(), "a client of a dead server waits")
            c.close()
        # A client that connects meanwhile is served when the server is back.
        c = g.connect()
        c.send("PING")
        s.start()
        check(c.read() == "+PONG", "PING after the restart")
        c.close()
        until("the server forgets it", lambda: s.clients() == 0)


@case
def server_that_is_not_there():
    with Server() as s, gateways(s, "--backend-timeout", "0.2") as g:
        s.kill()
        for _ in range(5):
            c = g.connect()
            c.send("PING")
            check(c.ended(), "a client without a server waits")
            c.close()
        s.start()
        check(cli(g.where, "PING") == "PONG\n", "PING")


@case
def backend_with_an_address_that_does_not_answer():
    """The gateway connects to the second address of a name whose first one drops packets."""
    with tempfile.TemporaryDirectory() as d, Server("--bind", "127.0.0.2") as s, \
            socket.socket() as full:
        # A listener with a full queue does not answer.
        full.bind(("127.0.0.1", int(s.port)))
        full.listen(0)
        waiting = []
        for _ in range(8):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", int(s.port)))
        hosts = os.path.join(d, "hosts")
        with open(hosts, "w", encoding="utf-8") as f:
            f.write("127.0.0.1 twofold\n127.0.0.2 twofold\n")
        Proc.before = ["unshare", "-rm", "sh", "-c",
                       'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        try:
            check_unshare(Proc.before)
            with Gateways(VDEV, "twofold:" + s.port, ["--backend-timeout", "4"]) as g:
                check(cli(g.where, "PING") == "PONG\n", "PING")
        finally:
            Proc.before = []
            for w in waiting:
                w.close()


@case
def client_killed():
    with Server() as s, gateways(s) as g:
        until("legs are ready", lambda: cli(g.where, "PING"))
        before = g.fds()
        for _ in range(3):
            p = subprocess.Popen(["redis-benchmark", "-p", g.where.rsplit(":", 1)[1], "-n",
                                  "100000000", "-c", "20",
                                  "-P", "16", "-d", "1000", "-q", "-t", "set"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            until("its clients", lambda: s.clients() >= 20)
            p.send_signal(signal.SIGKILL)
            p.wait()
            until("the server forgets them", lambda: s.clients() == 0)
        until("all descriptors are closed", lambda: g.fds() <= before)
        check(cli(g.where, "PING") == "PONG\n", "PING")


@case
def many_connects():
    """A thousand clients, in soak ten thousand, are served while another client transfers data."""
    with Server() as s, gateways(s) as g:
        steady = g.connect()
        value = os.urandom(100000)
        check(steady.call("SET", "v", value) == "+OK", "SET")
        before = g.fds()
        for i in range(500 if SOAK else 50):
            cs = [g.connect() for _ in range(20)]
            for j, c in enumerate(cs):
                if j % 4 != 0:
                    c.send("PING")
            for j, c in enumerate(cs):
                if j % 4 in (1, 2):
                    check(c.read() == "+PONG", "PING")
                # A third of the clients closes without reading the answer, some with a reset.
                if j % 4 == 3:
                    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                c.close()
            check(steady.call("GET", "v") == value, "another client got something else")
        until("the server forgets them", lambda: s.clients() == 1)
        until("all descriptors are closed", lambda: g.fds() <= before)
        steady.close()


@case
def four_clients_that_close_in_a_loop():
    with Server() as s, gateways(s) as g:
        def loop(seed):
            rng = random.Random(seed)
            try:
                for _ in range(40):
                    c = g.connect()
                    c.s.sendall(command("ECHO", "x" * 100) * 16)
                    for _ in range(rng.randrange(17)):
                        check(c.read() == b"x" * 100, "ECHO")
                    c.close()
            except Exception as e:
                failed.append(e)

        failed = []
        threads = [threading.Thread(target=loop, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(DEADLINE)
            check(not t.is_alive(), "a client is stuck")
        check(not failed, str(failed))
        until("the server forgets them", lambda: s.clients() == 0)


@case
def limits():
    with Server() as s, gateways(s, "--clients", "3") as g:
        cs = [g.connect() for _ in range(3)]
        for c in cs:
            check(c.call("PING") == "+PONG", "PING")
        c = g.connect()
        check(c.ended(), "a fourth one is let in")
        c.close()
        g.reverse.expect("not let in: there are as many clients", which="err")
        cs.pop().close()

        def again():
            c = g.connect()
            try:
                c.send("PING")
                return c.read() == "+PONG"
            except (EOFError, ConnectionError):
                return False
            finally:
                c.close()

        until("there is room again", again)
        for c in cs:
            c.close()


@case
def password():
    with Server("--requirepass", "secret") as s:
        s.direct.call("AUTH", "secret")
        with gateways(s) as g:
            c = g.connect()
            check(c.call("GET", "a").startswith("-NOAUTH"), "without a password")
            check(c.call("AUTH", "secret") == "+OK" and c.call("GET", "a") is None, "with it")
            c.close()


@case
def allow():
    with Server() as s:
        with gateways(s, "--allow", "192.0.2.0/24,127.0.0.0/8") as g:
            check(cli(g.where, "PING") == "PONG\n", "PING")
        with gateways(s, "--allow", "192.0.2.0/24", "--allow", "fd00::/8") as g:
            c = g.connect()
            check(c.ended(), "it was let in")
            c.close()
            g.reverse.expect("127.0.0.1:[0-9]+: not let in: --allow does not name it", which="err")


@case
def stop_lets_requests_finish():
    with Server() as s:
        g = gateways(s, "--drain", "60")
        a, b = g.connect(), g.connect()
        check(b.call("PING") == "+PONG", "PING")
        a.send("BLPOP", "list", "0")
        until("it is blocked", lambda: "cmd=blpop" in s.direct.call("CLIENT", "LIST").decode())
        for p in reversed(g.all):
            p.signal(signal.SIGINT)
        # A client that waits for nothing is disconnected; no new clients are accepted.
        check(b.ended(), "a client is kept that waits for nothing")
        until("no more are let in", lambda: refused(g.where))
        s.direct.call("RPUSH", "list", "x" * 100000)
        check(a.read() == [b"list", b"x" * 100000], "the answer")
        check(a.ended(), "the end")
        for p in g.all:
            code = p.wait()
            check(code == 0, "exit code %s\n%s" % (code, p.text()))


def refused(where):
    try:
        Resp(where).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it was closed while this client connected
    return False


@case
def stop_has_a_deadline():
    with Server() as s:
        g = gateways(s, "--drain", "0.3")
        a = g.connect()
        a.send("BLPOP", "list", "0")
        until("it is blocked", lambda: "cmd=blpop" in s.direct.call("CLIENT", "LIST").decode())
        for p in g.all:
            p.signal(signal.SIGTERM)
        check(a.ended(), "the end")
        for p in g.all:
            check(p.wait() in (0, 1), p.text())
        until("the server forgets it", lambda: s.clients() == 0)
        # A second signal ends the gateway whatever is in flight.
        g = gateways(s, "--drain", "600")
        a = g.connect()
        a.send("BLPOP", "list", "0")
        until("it is blocked", lambda: "cmd=blpop" in s.direct.call("CLIENT", "LIST").decode())
        for p in g.all:
            p.signal(signal.SIGINT)
        # Two signals that arrive before the first is handled count as one.
        for p in (g.forward, g.reverse):
            p.expect("%s .*: stops: 1 clients" % ("forward" if p is g.forward else "reverse"),
                     which="err")
        for p in g.all:
            p.signal(signal.SIGINT)
            check(p.wait() == -signal.SIGINT, p.text())
        check(a.ended(), "the end")


class Backend:
    """A server that does with each connection what the test says."""

    def __init__(self, serve):
        self.l = socket.socket()
        self.l.bind(("127.0.0.1", 0))
        self.l.listen(64)
        self.addr = "127.0.0.1:%d" % self.l.getsockname()[1]
        self.failed = []
        self.serve = serve
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                s, _ = self.l.accept()
            except OSError:
                return
            s.settimeout(DEADLINE)
            threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        try:
            self.serve(s)
        except Exception as e:
            self.failed.append(repr(e))
        s.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        # close() alone would leave the thread in accept(), which could later accept connections of
        # another socket with the same number.
        self.l.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.l.close()


def read_all(s):
    parts = []
    while True:
        data = s.recv(1 << 16)
        if not data:
            return b"".join(parts)
        parts.append(data)


RESET = b"\1\0\0\0\0\0\0\0"


@case
def ends_in_every_order():
    """Either side ends its direction first, or both at once, with little or much data in flight: no
    byte is lost."""
    rng = random.Random(2)
    done = threading.Semaphore(0)
    todo = {}

    def serve(s):
        key = s.recv(1)
        order, request, reply = todo[key]
        if order == "server first":
            s.sendall(reply)
            s.shutdown(socket.SHUT_WR)
        if order == "at once":
            t = threading.Thread(target=lambda: (s.sendall(reply), s.shutdown(socket.SHUT_WR)))
            t.start()
        got = read_all(s)
        check(got == request, "%s: %d B came, not %d" % (order, len(got), len(request)))
        if order == "client first":
            s.sendall(reply)
        if order == "at once":
            t.join(DEADLINE)
        done.release()

    with Backend(serve) as b, Gateways(VDEV, b.addr, ["--client-bytes", "64K"]) as g:
        n = 0
        for order in ("client first", "server first", "at once"):
            for a in (0, 1, 65536, 3000000):
                for z in (0, 1, 65535, 3000000):
                    n += 1
                    key = bytes([n])
                    todo[key] = order, rng.randbytes(a), rng.randbytes(z)
                    c = g.connect()
                    c.s.sendall(key)
                    got = None
                    if order == "server first":
                        got = read_all(c.s)
                        c.s.sendall(todo[key][1])
                        c.s.shutdown(socket.SHUT_WR)
                    else:
                        def send():
                            c.s.sendall(todo[key][1])
                            c.s.shutdown(socket.SHUT_WR)
                        t = threading.Thread(target=send)
                        t.start()
                        got = read_all(c.s)
                        t.join(DEADLINE)
                    check(got == todo[key][2], "%s: %d B came back, not %d" % (order, len(got), z))
                    check(done.acquire(timeout=DEADLINE),
                          "%s, %d B, %d B: %s" % (order, a, z, b.failed))
                    c.close()
        check(not b.failed, str(b.failed))


@case
def resets():
    """Bytes that came before a reset are delivered; the other side sees the end."""
    def serve(s):
        what = s.recv(1)
        if what == b"r":
            # The server answers, and resets when the client has got the answer.
            s.sendall(b"y" * 100000)
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return
        try:
            got.append(len(read_all(s)))
        except ConnectionResetError:
            got.append(-1)

    got = []
    with Backend(serve) as b, Gateways(VDEV, b.addr) as g:
        for _ in range(10):
            c = g.connect()
            c.s.sendall(b"r")
            check(len(c.f.read(100000)) == 100000, "what came before")
            c.s.sendall(b".")
            check(c.ended(), "a client of a server that was reset waits")
            c.close()
        for i in range(10):
            c = g.connect()
            c.s.sendall(b"w" + b"z" * 1000)
            c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            c.close()
            until("the server hears of the end", lambda: len(got) == i + 1)
        check(not b.failed, str(b.failed))


@case
def half_closed_and_silent():
    """A server that neither answers nor closes: the client is kept for --linger."""
    ended, over = threading.Event(), threading.Event()

    def serve(s):
        read_all(s)
        check(ended.wait(DEADLINE), "the client is kept for ever")
        # The gateway has closed the connection: further commands are refused.
        try:
            while True:
                s.sendall(b"late")
        except (BrokenPipeError, ConnectionResetError):
            over.set()

    with Backend(serve) as b, Gateways(VDEV, b.addr, ["--linger", "0.3"]) as g:
        c = g.connect()
        c.s.sendall(b"question")
        c.s.shutdown(socket.SHUT_WR)
        check(c.ended(), "it is kept for ever")
        g.forward.expect("client 1: .* ended", which="err")
        ended.set()
        check(over.wait(DEADLINE), "the server is not told: %s" % b.failed)
        c.close()


@case
def memory():
    with Server() as s, gateways(s, "--memory", "1M", "--client-bytes", "256K") as g:
        cs = [g.connect() for _ in range(2)]
        for c in cs:
            check(c.call("PING") == "+PONG", "PING")
        c = g.connect()
        c.s.sendall(command("PING"))
        cs.pop().close()
        # A client that waits for memory gets what another client frees.
        check(c.read() == "+PONG", "PING")
        c.close()
        cs.pop().close()


@case
def numbers():
    with Server() as s, gateways(s, "--stats", "0.1", "--json") as g:
        c = g.connect()
        for _ in range(100):
            check(c.call("PING") == "+PONG", "PING")
        c.close()
        request, reply = 100 * len(command("PING")), 100 * len("+PONG\r\n")

        def all_told():
            told = {}
            for p in g.all:
                for line in p.out().splitlines():
                    if line.startswith("{"):
                        j = json.loads(line)
                        told[j["leg"].split()[0]] = j
            good = [j for j in told.values() if j["latencies"] >= 100 and j["ended"] == 1 and
                    j["clients"] == 0]
            return good if len(good) == 2 else None

        for j in until("the numbers", all_told):
            check(j["schema"] == "leat-redis-gateway" and j["version"] == 1, str(j))
            check(j["request_bytes"] == request and j["reply_bytes"] == reply, str(j))
            check(0 < j["p50_us"] <= j["p99_us"] <= j["p99_9_us"] <= j["max_us"] * 1.02, str(j))
            check(j["accepted"] == 1 and j["dropped_bytes"] == 0, str(j))


@case
def asleep():
    """With silent clients the gateway takes almost no CPU time."""
    with Server() as s, gateways(s) as g:
        # Connect one after the other: another test connects a hundred at once.
        cs = []
        for _ in range(100):
            cs.append(g.connect())
            check(cs[-1].call("PING") == "+PONG", "PING")
        best = None
        # Use the smallest share: other load of this machine makes it larger, never smaller.
        for _ in range(5):
            begin, cpu = time.monotonic(), g.cpu()
            time.sleep(1)
            share = (g.cpu() - cpu) / (time.monotonic() - begin) / len(g.all)
            best = share if best is None else min(best, share)
            if best <= 0.02:
                break
        print("# %.1f %% of a CPU per process" % (best * 100))
        check(best <= 0.03, "%.1f %% of a CPU" % (best * 100))
        for c in cs:
            c.close()


if not VDEV.startswith("fabric_ring"):
    @case
    def gateway_killed():
        """Kill either gateway: no client of the remaining one, or of the server, is stuck."""
        for which in (0, 1):
            with Server() as s:
                g = gateways(s)
                c = g.connect()
                check(c.call("PING") == "+PONG", "PING")
                g.all[which].kill()
                if which == 0:
                    check(c.ended(), "a client waits for a gateway that is gone")
                until("the server forgets it", lambda: s.clients() == 0)
                other = g.all[1 - which]
                other.signal(signal.SIGINT)
                check(other.wait() == 0, other.text())
                c.close()

main(need_redis)
