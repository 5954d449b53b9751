# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP server for scrapes: GET /metrics.

No client can keep it busy: the number of connections, the bytes of a request and its duration are
bounded. A server on a loopback address refuses requests whose Host is a foreign name. Otherwise a
web page could read the metrics through a browser on this machine (DNS rebinding).
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
from typing import Any

from ._text import OPENMETRICS, choose

_PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><title>leat-tune export</title></head>
<body><h1>leat-tune export</h1><p><a href="/metrics">Metrics</a></p></body></html>
"""


@dataclass(frozen=True)
class Limits:
    """Limits of the server."""

    connections: int = 16
    request_bytes: int = 16384
    request_seconds: float = 5.0  #: from the first byte to the last
    idle_seconds: float = 120.0  #: between two requests of a connection
    answer_seconds: float = 30.0  #: until a client has read the answer


class _Input(io.RawIOBase):
    """The input of a connection, which limits the bytes and the duration of each request."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        super().__init__()
        self._sock = sock
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """Begin the next request."""
        self._left = self._limits.request_bytes
        self._deadline: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
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
        # On a TimeoutError of _Input the base class calls log_error() and ends the connection.
        self._input.begin()
        super().handle_one_request()

    def log_message(self, format: str, *args: object) -> None:
        pass  # do not log scrapes; errors are counted in metrics

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status >= 400:
            # Close: an unread body would be parsed as the next request.
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
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Server(socketserver.ThreadingTCPServer):
    """The server: run serve_forever() in a thread; then shutdown() and server_close()."""

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
        """Listen at host and port.

        metrics returns the text of a scrape; its argument is True for OpenMetrics. Raises OSError
        as socket(2), bind(2) and listen(2), and socket.gaierror.
        """
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, address = found[0][0], found[0][4]
        self.limits = limits or Limits()
        self.metrics = metrics
        self._host = host.strip("[]")
        self._only_here = loopback(self._host)
        self._slots = threading.BoundedSemaphore(self.limits.connections)
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self.server_address[1]

    def allows(self, host: str) -> bool:
        """Whether a Host header is an address or a local name, which no foreign page can have."""
        if not self._only_here or not host:
            return True  # browsers always send a Host
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name in ("localhost", self._host):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            # Do not block: a new connection's buffer has room for this answer.
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(
                    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: "
                    b"0\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that disconnects during an answer is no error of this server.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
