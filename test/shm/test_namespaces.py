# SPDX-License-Identifier: BSD-3-Clause
"""Run two leat-perf in namespaces of their own, as in containers, that share only a directory:
test_namespaces.py LEAT_PERF"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))

from perf_lib import (CPU_A, CPU_B, Proc, SIGKILL, Skipped, case, check, clean,  # noqa: E402
                      main)

UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount",
           "--ipc", "--mount-proc"]
# Commands that make a small /dev/shm, and one that can't be used. Containers have 64 MiB by
# default.
SMALL = "mount -t tmpfs -o size=1m shm /dev/shm"
NONE = "mount -t tmpfs -o size=4k,ro shm /dev/shm"
OPS = ["send", "tagged", "write", "write_imm", "read", "fetch_add", "cmp_swap"]
NOTICED = 2  # seconds in which the end of a killed process is reported
DIR = tempfile.mkdtemp(prefix="leat-namespaces-")


class Contained(Proc):
    """A leat-perf in namespaces of its own."""

    def __init__(self, shm, cpu, app):
        self.before = UNSHARE + ["sh", "-c", shm + ' && exec "$@"', "sh"]
        super().__init__(["-l", str(cpu), "--no-huge", "-m", "64", "--no-telemetry",
                          "--vdev=fabric_shm0,dir=" + DIR],
                         app + ["--idle", "yield", "--mbufs", "1024"])

    def kill_inside(self):
        """Kill the process inside, not the one that made its namespaces."""
        path = "/proc/%d/task/%d/children" % (self.p.pid, self.p.pid)
        with open(path, encoding="ascii") as f:
            inside = f.read().split()
        check(len(inside) == 1, "%s: %s" % (path, inside))
        os.kill(int(inside[0]), SIGKILL)


def listener(shm):
    srv = Contained(shm, CPU_A, ["--listen", "127.0.0.1:0"])
    return srv, srv.expect(r"^listening on (\S+)$").group(1)


def client(shm, addr, app):
    return Contained(shm, CPU_B, ["--connect", addr] + app)


def works(shm):
    srv, addr = listener(shm)
    p = client(shm, addr, ["--op", ",".join(OPS), "--size", "8,4K,1M", "-n", "50", "--check",
                           "--json"])
    p.code = p.wait()
    clean(p, OPS, [8, 4096, 1 << 20])
    srv.expect(r"^listening on (\S+)$", nth=2)


def running(shm, addr):
    p = client(shm, addr, ["--op", "send", "--size", ",".join(["8", "64K"] * 1000), "-D", "0.02"])
    p.expect(r"^ +65536 +\d+ ", nth=2)
    return p


@case
def with_a_dev_shm_of_one_mib():
    works(SMALL)


@case
def without_a_dev_shm_to_write_to():
    works(NONE)


@case
def each_side_has_a_pid_namespace_and_no_dev_shm_of_the_other():
    a = subprocess.run(UNSHARE + ["sh", "-c", NONE + ' && echo $$ && ! touch /dev/shm/x'],
                       capture_output=True, text=True, check=False)
    check(a.returncode == 0 and a.stdout == "1\n", a.stdout + a.stderr)


@case
def a_killed_client_is_noticed():
    srv, addr = listener(SMALL)
    p = running(SMALL, addr)
    p.kill_inside()
    begin = time.monotonic()
    srv.expect(r"^listening on (\S+)$", nth=2, timeout=NOTICED)
    print("# noticed after %.3f s" % (time.monotonic() - begin))
    # The next client is served.
    running(SMALL, addr)


@case
def a_killed_listener_is_noticed():
    srv, addr = listener(SMALL)
    p = running(SMALL, addr)
    srv.kill_inside()
    begin = time.monotonic()
    p.expect(r"^leat-perf: the listener (is gone|closed the connection): ", "err",
             timeout=NOTICED)
    print("# noticed after %.3f s" % (time.monotonic() - begin))
    check(p.wait() == 1, p.text())


def permitted():
    try:
        for shm in (SMALL, NONE):
            subprocess.run(UNSHARE + ["sh", "-c", shm], check=True, capture_output=True, text=True)
    except OSError as e:
        raise Skipped("no unshare here: %s" % e) from None
    except subprocess.CalledProcessError as e:
        raise Skipped("no namespaces here: %s" % e.stderr.strip()) from None


if __name__ == "__main__":
    try:
        main(permitted)
    finally:
        shutil.rmtree(DIR)
