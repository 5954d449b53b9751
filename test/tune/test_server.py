# SPDX-License-Identifier: BSD-3-Clause
"""The exporter's HTTP: its answers, and clients that it does not wait for."""

import http.client
import socket
import threading
import unittest

import fake
import openmetrics
from leat_tune import metrics
from leat_tune.metrics._server import loopback


class Case(unittest.TestCase):
    limits = metrics.Limits()

    def setUp(self):
        collector = metrics.Collector(lambda: ([fake.Process("perf", 7, [fake.ep()])], []))
        self.server = metrics.Server(
            "127.0.0.1", 0, lambda om: metrics.render(collector.collect(), om), self.limits)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        self.addCleanup(connection.close)
        return connection

    def raw(self):
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        self.addCleanup(sock.close)
        return sock

    def ask(self, path="/metrics", connection=None, method="GET", **headers):
        connection = connection or self.connect()
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()


def until_closed(sock):
    data = b""
    while chunk := sock.recv(65536):
        data += chunk
    return data


class Answers(Case):
    def test_content_negotiation(self):
        answer, body = self.ask(Accept="application/openmetrics-text;version=1.0.0,"
                                       "text/plain;q=0.5")
        self.assertEqual((answer.status, answer.headers["Content-Type"]),
                         (200, metrics.OPENMETRICS))
        self.assertEqual(openmetrics.value(openmetrics.parse(body), "leat_up", pid="7"), 1)
        answer, body = self.ask()
        self.assertEqual(answer.headers["Content-Type"], metrics.PROMETHEUS)
        self.assertNotIn("# EOF", body)

    def test_a_connection_serves_many(self):
        connection = self.connect()
        for _ in range(20):
            self.assertEqual(self.ask(connection=connection)[0].status, 200)

    def test_other_requests(self):
        for path, status in (("/", 200), ("/-/healthy", 200), ("/metrics?x=y", 200), ("/none", 404),
                             ("/metrics/", 404)):
            self.assertEqual(self.ask(path)[0].status, status, path)
        answer, body = self.ask(method="HEAD")
        self.assertEqual((answer.status, body), (200, ""))
        self.assertGreater(int(answer.headers["Content-Length"]), 1000)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.ask(method=method)[0].status, 501, method)

    def test_a_body_is_refused(self):
        sock = self.raw()
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n"
                     b"GET /metrics HTTP/1.1\r\n\r\n")
        data = until_closed(sock)
        self.assertTrue(data.startswith(b"HTTP/1.1 400"))
        self.assertEqual(data.count(b"HTTP/1.1 "), 1)

    def test_a_name_of_the_outside_is_refused(self):
        for host, status in (("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:9464", 200),
                             ("evil.example", 403), ("evil.example:9464", 403)):
            self.assertEqual(self.ask(Host=host)[0].status, status, host)

    def test_addresses(self):
        for host in ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"):
            self.assertTrue(loopback(host), host)
        for host in ("0.0.0.0", "::", "", "10.1.2.3", "localhost.example", "machine"):
            self.assertFalse(loopback(host), host)

    def test_nonsense(self):
        for data in (b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                     b"GET /metrics HTTP/1.1\r\nHost localhost\r\n\r\n"):
            sock = self.raw()
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            until_closed(sock)
        self.assertEqual(self.ask()[0].status, 200)


class Bounds(Case):
    limits = metrics.Limits(connections=4, request_bytes=4096, request_seconds=0.2,
                            idle_seconds=30.0)

    def test_a_request_that_does_not_end(self):
        for begin in (b"GET /" + b"x" * 5000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000):
            sock = self.raw()
            try:
                sock.sendall(begin)
                until_closed(sock)
            except ConnectionError:
                pass
        self.assertEqual(self.ask()[0].status, 200)

    def test_a_request_that_takes_too_long(self):
        sock = self.raw()
        sock.sendall(b"GET / HTTP/1.1\r\n")
        self.assertNotIn(b"200", until_closed(sock))

    def test_too_many_connections(self):
        socks = [self.raw() for _ in range(4)]
        # Each connection takes a slot as soon as it is accepted, and connections are accepted in
        # turn.
        self.assertTrue(until_closed(self.raw()).startswith(b"HTTP/1.1 503"))
        for sock in socks:
            sock.close()

        # A slot is free again when its thread has seen the end.
        while True:
            try:
                if self.ask()[0].status == 200:
                    break
            except ConnectionError:
                pass


if __name__ == "__main__":
    unittest.main()
