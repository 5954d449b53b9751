# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune export: serve metrics for Prometheus."""

from __future__ import annotations

import argparse
import fnmatch
import re
import signal
import sys
import threading

from .._errors import TuneError
from .._process import Process, scan
from .._session import Session
from ..metrics import Collector, Server, loopback, render
from . import common

DEFAULT = "127.0.0.1:9464"
# Seconds between two updates of rows, and between two searches for new processes.
ROWS_SECONDS = 1.0
_LISTEN = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]]*):(?P<port>[0-9]{1,5})\Z")


def listen(text: str) -> tuple[str, int]:
    """Argument type: parse HOST:PORT or [IPv6]:PORT."""
    match = _LISTEN.match(text)
    if not match or int(match["port"]) > 65535:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not HOST:PORT, such as {DEFAULT} or [::1]:9464"
        )
    return match["host"] or "0.0.0.0", int(match["port"])


def add_parser(sub) -> argparse.ArgumentParser:
    parser = common.command(
        sub, "export", "metrics of all processes, for Prometheus",
        "Serves the measurements of all processes of this user over HTTP, at /metrics, as "
        "OpenMetrics\n"
        "or Prometheus text. A scrape reads files: it sends nothing to a process, and waits for "
        "none.",
        "  leat-tune export\n"
        "  leat-tune export --once | promtool check metrics",
    )
    parser.add_argument("--listen", type=listen, default=listen(DEFAULT), metavar="HOST:PORT",
                        help=f"where to listen; port 0: any that is free (default: {DEFAULT})")
    parser.add_argument("--allow-remote", action="store_true",
                        help="listen where other machines can connect: whoever can may read all "
                             "metrics")
    parser.add_argument("--rows", nargs="?", choices=("each", "sum", "none"), const="each",
                        default="sum",
                        help="peers and pollers: a series for each, or summed for each endpoint "
                             "and "
                        "reactor, or none (default: sum; --rows alone: each)")
    parser.add_argument("--texts", action="store_true",
                        help="texts, too, as labels of info metrics: a text that changes is a new "
                        "series")
    parser.add_argument("--once", action="store_true", help="print them on standard output, and "
                                                            "end")
    parser.add_argument("--openmetrics", action="store_true",
                        help="with --once: OpenMetrics (default: Prometheus text)")
    return parser


class _Asker:
    """A thread that keeps a session with each process, in which the process updates its rows.

    Scrapes do not wait for this thread. It retries a process that does not answer.
    """

    def __init__(self, find) -> None:
        self._find = find
        self._sessions: dict[int, tuple[Process, Session]] = {}
        self._warned = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except TuneError:
                pass  # the scrape reports it
            except OSError as e:
                # For example libleat-channel is missing. All metrics but those of rows work.
                if not self._warned:
                    common.warn(f"no process is asked for rows: {e.strerror or e}")
                self._warned = True
            self._stop.wait(ROWS_SECONDS)
        for instance in list(self._sessions):
            self._leave(instance)

    def _leave(self, instance: int) -> None:
        process, session = self._sessions.pop(instance)
        session.close()
        process.close()

    def look(self) -> None:
        """Begin sessions with new processes, and end those with dead ones."""
        for instance, (process, _) in list(self._sessions.items()):
            if not process.alive():
                self._leave(instance)
        for process in self._find()[0]:
            if process.instance in self._sessions or self._stop.is_set():
                process.close()
                continue
            session = None
            try:
                if not process.hung:
                    session = process.session("leat-tune export", timeout=1.0)
                    session.watch(ROWS_SECONDS, rows=True)
                    self._sessions[process.instance] = process, session
            except TuneError:
                pass  # the process ends, or does not answer: the next look retries
            finally:
                if process.instance not in self._sessions:
                    if session is not None:
                        session.close()
                    process.close()


def _wanted(process: Process, args: argparse.Namespace) -> bool:
    if args.pid and process.pid not in args.pid:
        return False
    return not args.program or any(
        fnmatch.fnmatchcase(process.program, one) for one in args.program
    )


def run(args: argparse.Namespace) -> int:
    def find() -> tuple[list[Process], list[OSError]]:
        processes, problems = scan(args.tune_dir)
        chosen = []
        for process in processes:
            if _wanted(process, args):
                chosen.append(process)
            else:
                process.close()
        return chosen, problems

    collector = Collector(find, rows=args.rows, texts=args.texts)
    if args.once:
        processes, problems = find()
        for problem in problems:
            common.warn(problem)
        for process in processes:
            process.close()
        sys.stdout.write(render(collector.collect(), args.openmetrics))
        return 0
    host, port = args.listen
    if not loopback(host):
        if not args.allow_remote:
            print(f"leat-tune: {host} is not this machine alone: whoever can connect may read all "
                  "metrics. If that is wanted, say --allow-remote", file=sys.stderr)
            return 2
        common.warn(f"whoever can connect to {host} may read all metrics: there is no password")
    return _serve(args, collector, find, host, port)


def _serve(args: argparse.Namespace, collector: Collector, find, host: str, port: int) -> int:
    try:
        server = Server(host, port, lambda openmetrics: render(collector.collect(), openmetrics))
    except OSError as e:
        print(f"leat-tune: can't listen on {host}:{port}: {e.strerror}", file=sys.stderr)
        return 1
    # A scraper that disconnects during an answer must not kill this program.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # Block these signals and wait for them with sigwait(), so that they interrupt no call.
    wanted = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    asker = _Asker(find) if args.rows != "none" else None
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        print(f"leat-tune: metrics at http://{shown}:{server.port}/metrics", file=sys.stderr,
              flush=True)
        number = signal.sigwait(wanted)
        server.shutdown()
        thread.join()
    if asker is not None:
        asker.stop()
    return 128 + number if number == signal.SIGINT else 0
