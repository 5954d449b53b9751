# SPDX-License-Identifier: BSD-3-Clause
"""HTTP for scrapes: GET /metrics, and nothing that a stranger could make it do at length.

Connections, bytes of a request and the time that one may take are bounded, and so is what is kept of
them. A request whose Host is a name of the outside is refused: a page in a browser could else read
what only this machine may.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from ._text import OPENMETRICS, choose

_PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><title>leat-tune export</title></head>
<body><h1>leat-tune export</h1><p><a href="/metrics">Metrics</a></p></body></html>
"""


@dataclass(frozen=True)
class Limits:
    """Of the server."""

    connections: int = 16
    request_bytes: int = 16384
    request_seconds: float = 5.0  #: from the first byte to the last
    idle_seconds: float = 120.0  #: between two requests of a connection
    answer_seconds: float = 30.0  #: a peer that does not read


class _Input(io.RawIOBase):
    """A connection's bytes: so many, in so much time, for each request."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        super().__init__()
        self._sock = sock
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """The next request."""
        self._left = self._limits.request_bytes
        self._deadline: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if self._left <= 0:
            raise TimeoutError("a request that does not end")
        if self._deadline is None:
            wait = self._limits.idle_seconds
        else:
            wait = self._deadline - time.monotonic()
            if wait <= 0:
                raise TimeoutError("a request that takes too long")
        self._sock.settimeout(wait)
        nb = self._sock.recv_into(buffer, min(len(buffer), self._left))
        self._left -= nb
        if self._deadline is None:
            self._deadline = time.monotonic() + self._limits.request_seconds
        self._sock.settimeout(self._limits.answer_seconds)
        return nb


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "leat-tune"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self._input = _Input(self.connection, self.server.limits)
        self.rfile = io.BufferedReader(self._input, 4096)  # type: ignore[assignment]

    def handle_one_request(self) -> None:
        # TimeoutError of _Input: the base class says so to log_error(), and ends the connection.
        self._input.begin()
        super().handle_one_request()

    def log_message(self, format: str, *args: object) -> None:
        pass  # a scrape is no news; what went wrong is a metric

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status >= 400:
            # A body that was not read would be taken for the next request.
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _text(self, status: int, words: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", words.encode() + b"\n")

    def do_GET(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if length.strip() != "0" or "Transfer-Encoding" in self.headers:
            self._text(400, "a request without a body is wanted")
            return
        if not self.server.allows(self.headers.get("Host", "")):
            self._text(403, "not a host of this exporter")
            return
        path = self.path.split("?", 1)[0]
        if path == "/metrics":
            kind = choose(self.headers.get("Accept"))
            self._answer(200, kind, self.server.metrics(kind == OPENMETRICS).encode())
        elif path == "/-/healthy":
            self._text(200, "ok")
        elif path == "/":
            self._answer(200, "text/html; charset=utf-8", _PAGE)
        else:
            self._text(404, "there is /metrics")

    do_HEAD = do_GET


def loopback(host: str) -> bool:
    """Does an address mean this machine alone?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Server(socketserver.ThreadingTCPServer):
    """serve_forever() in a thread, then shutdown() and server_close()."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Callable[[bool], str],
        limits: Limits | None = None,
    ) -> None:
        """
        metrics: makes the text; True: OpenMetrics.
        OSError: what socket(2), bind(2) and listen(2) refuse; socket.gaierror.
        """
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, address = found[0][0], found[0][4]
        self.limits = limits or Limits()
        self.metrics = metrics
        self._host = host.strip("[]")
        self._only_here = loopback(self._host)
        self._slots = threading.BoundedSemaphore(self.limits.connections)
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    @property
    def port(self) -> int:
        return self.server_address[1]

    def allows(self, host: str) -> bool:
        """Of the Host line: an address, or a name that can't be anybody else's."""
        if not self._only_here or not host:
            return True  # a browser names one
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name in ("localhost", self._host):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def process_request(self, request, client_address) -> None:
        if not self._slots.acquire(blocking=False):
            # It is told so if its buffer has room for it, as a new connection's has.
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request, client_address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request, client_address) -> None:
        # A peer that left in the middle of an answer is none of ours.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
