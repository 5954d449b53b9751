#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another user gets no access, and can't mislead an agent: tried as that user, so it needs root.

test_users.py TUNE-PROCESS
"""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import leat_tune

OTHER = 65534  # the user nobody
SKIP = 77


def as_other(function) -> str:
    """Return the result of a function in a process of the other user: text, or its exception's
    name."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            text = str(function())
        except BaseException as e:
            text = f"{type(e).__name__}: {e}"
        os.write(write, text.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        text = f.read().decode()
    os.waitpid(pid, 0)
    return text


def connect(path: pathlib.Path) -> str:
    """Return whether a session is opened. The process closes the connection of another user."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(path))
        return "in" if s.recv(1) else "turned away"


def run(program: str, directory: pathlib.Path, user: int) -> subprocess.CompletedProcess:
    """Run a process that should not start; one that does is ended."""
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    with subprocess.Popen(
        [program, "--tune-dir", str(directory)], env=env, text=True, user=user, group=user,
        extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as p:
        if p.stdout.readline() == "ready\n":
            p.terminate()
        out, err = p.communicate(timeout=20)
        return subprocess.CompletedProcess(p.args, p.returncode, out, err)


def main() -> int:
    if os.geteuid() != 0:
        print("needs root, to be another user")
        return SKIP
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="leat-users-") as top:
        base = pathlib.Path(top)
        base.chmod(0o755)
        mine = base / "mine"
        with subprocess.Popen(
            [program, "--tune-dir", str(mine)], text=True, stdout=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"},
        ) as p:
            try:
                assert p.stdout.readline() == "ready\n"
                (process,) = leat_tune.processes(mine)
                path = pathlib.Path(process.path).with_suffix(".sock")
                # The permissions of the directory keep others out.
                text = as_other(lambda: leat_tune.processes(mine))
                assert text.startswith(("DirError", "PermissionError")), text
                text = as_other(lambda: connect(path))
                assert text.startswith("PermissionError"), text
                # With an open directory: agents and processes refuse it, and the process refuses
                # strangers.
                mine.chmod(0o777)
                path.chmod(0o777)
                text = as_other(lambda: leat_tune.processes(mine))
                assert text.startswith("DirError"), text
                text = as_other(lambda: connect(path))
                assert text == "turned away" or text.startswith("ConnectionResetError"), text
                try:
                    leat_tune.processes(mine)
                    raise AssertionError("a directory that others may write to")
                except leat_tune.DirError:
                    mine.chmod(0o700)
                # The process still serves its own user.
                with process.session("me") as session:
                    session.set("worker.w0", {"mode": "slow"})
                process.close()
            finally:
                p.terminate()
        # Programs and agents refuse a directory of another user, and a link to one's own.
        other = base / "other"
        other.mkdir(mode=0o700)
        os.chown(other, OTHER, OTHER)
        ended = run(program, other, 0)
        assert ended.returncode == 1 and "belongs to user 65534" in ended.stderr, ended
        try:
            leat_tune.processes(other)
            raise AssertionError("a directory of another user")
        except leat_tune.DirError:
            pass
        link = base / "link"
        link.symlink_to(mine)
        ended = run(program, link, 0)
        assert ended.returncode == 1 and "symbolic link" in ended.stderr, ended
        try:
            leat_tune.processes(link)
            raise AssertionError("a symbolic link")
        except leat_tune.DirError:
            pass
        # The other user's process may use that user's directory.
        ended = run(program, other, OTHER)
        assert ended.returncode in (0, 126), ended
    return 0


if __name__ == "__main__":
    sys.exit(main())
