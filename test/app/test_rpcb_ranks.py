# SPDX-License-Identifier: BSD-3-Clause
"""leat-rpc-bench in several processes: test_rpcb_ranks.py LEAT_RPC_BENCH DEVICE [mpirun]"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from perf_lib import PERF, QUIET, SIGINT, SIGKILL, SIGSTOP
from rpcb_lib import (CPU_A, Failed, Port, Proc, Skipped, case, check, exact, main, need_device,
                      ranks_of, results)

VDEV = sys.argv[2]


class Where:
    """A directory in which ranks meet."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp()
        return os.path.join(self.dir, "meet")

    def __exit__(self, *args):
        shutil.rmtree(self.dir, ignore_errors=True)


def ended(ranks, codes):
    for p, code in zip(ranks, codes):
        check(p.wait() == code,
              "exit code %s, not %s, of %s\n%s" %
              (p.p.returncode, code, " ".join(p.args), p.text()))


def running(ranks):
    ranks[0].expect("calls done", "err")


@case
def four_ranks():
    with Where() as where:
        ranks = ranks_of(VDEV, 4, where, ["-n", "4000", "--json"])
        ended(ranks, [0, 0, 0, 0])
    j = results(ranks[0])
    exact(j, 4000, 4000)
    check([r["pid"] for r in j["ranks"]] == [p.p.pid for p in ranks], str(j["ranks"]))
    check([r["lcores"][0]["calls"] for r in j["ranks"]] == [1000] * 4, str(j))
    check(j["rpc"]["sessions"] == 3 and j["shared_cpus"], str(j))
    check(all(p.out() == "" for p in ranks[1:]), "others than rank 0 print")


@case
def three_ranks_with_two_lcores_each_and_every_kind_of_call():
    with Where() as where:
        ranks = ranks_of(VDEV, 3, where, ["-n", "3000", "--oneway=30", "--long", "20K:5", "--json"],
                         lcores=2)
        ended(ranks, [0, 0, 0])
    j = results(ranks[0])
    exact(j, 3000, 6000)
    check(j["rpc"]["sessions"] == 5, str(j))


@case
def a_list_of_addresses():
    with Port() as a, Port() as b:
        ranks = [Proc(["-l", str(CPU_A), "--vdev=" + VDEV],
                      ["--ranks-list", "%s,%s" % (a, b), "--rank", str(r), "-n", "600", "--idle",
                       "sleep"])
                 for r in (1, 0)]
        ended(ranks, [0, 0])
    check(re.search(r"^ +total +600 ", ranks[1].out(), re.M), ranks[1].text())
    check(re.search(r"^ rank 1  \S+, pid %d: " % ranks[0].p.pid, ranks[1].out(), re.M),
          ranks[1].text())


def end_one(victim, sig, code, why, app=None, timeout="60"):
    with Where() as where:
        ranks = ranks_of(VDEV, 4, where,
                         ["-D", "3", "--progress", "--json", "--timeout", timeout] + (app or []))
        running(ranks)
        ranks[victim].signal(sig)
        others = [p for i, p in enumerate(ranks) if i != victim]
        ended(others, [3, 3, 3])
        if sig == SIGSTOP:
            ranks[victim].kill()
        check(ranks[victim].wait() == code, ranks[victim].text())
    said = r"^leat-rpc-bench: rank %d \(\S+, pid %d\) ended: .*%s" % (victim, ranks[victim].p.pid,
                                                                      why)
    for p in others:
        check(re.search(said, p.err(), re.M), "no '%s' in\n%s" % (said, p.text()))
        check(re.search("^leat-rpc-bench: rank %d ended early: .*%s" % (victim, why), p.err(),
                        re.M), p.text())
    check(all(p.out() == "" for p in others[1:]), "more than one report")
    j = results(others[0])
    check([r["ended_early"] for r in j["ranks"]] == [i == victim for i in range(4)],
          str(j["ranks"]))
    check(re.search(why, j["ranks"][victim]["why"]) and j["ranks"][victim]["lcores"] == [],
          str(j["ranks"]))
    t = j["total"]
    check(t["calls"] > 0 and t["failed"] == 0 and t["wrong"] == 0 and t["lost"] == 0, str(t))


@case
def one_is_killed_and_the_others_go_on():
    end_one(2, SIGKILL, -9, "is gone")


@case
def the_first_is_killed_and_the_next_one_reports():
    end_one(0, SIGKILL, -9, "is gone", ["--oneway=30", "--long", "20K:5"])


@case
def one_is_interrupted():
    end_one(1, SIGINT, 130, "it was interrupted")


@case
def one_is_interrupted_beside_one_that_hangs():
    """It does not wait longer for the answer of the hung one than it may take to stop."""
    with Where() as where:
        ranks = ranks_of(VDEV, 3, where, ["-D", "60", "--progress", "--timeout", "60"])
        running(ranks)
        ranks[2].signal(SIGSTOP)
        ranks[1].signal(SIGINT)
        check(ranks[1].wait() == 130, ranks[1].text())
        ranks[0].expect("rank 1 .*ended: it was interrupted", "err")


@case
def one_hangs():
    end_one(3, SIGSTOP, -9, r"it has not answered for 8 s \(--timeout\)", timeout="8")


@case
def one_ends_before_the_start():
    with Where() as where:
        ranks = ranks_of(VDEV, 3, where, ["-n", "600", "--ranks-timeout", "10"], first=1)
        bad = Proc(["-l", str(CPU_A), "--vdev=" + VDEV],
                   ["--ranks-dir", where, "--rank", "0", "--ranks", "3", "-n", "700",
                    "--ranks-timeout", "10"])
        ended(ranks + [bad], [1, 1, 1])
    # Rank 0 refuses the first process that greets it: rank 1 or 2. The remaining rank sees that
    # rank 0 or the refused rank has ended.
    refused = [p for p in ranks
               if re.search("rank 0 refuses: .*started with other options", p.err())]
    check(refused, ranks[0].text() + ranks[1].text())
    for p in ranks:
        check(p in refused or re.search("rank [0-2] .*(ended|gone|did not answer)", p.err()),
              p.text())
    check(re.search("leat-rpc-bench: rank [12] was started with other options", bad.err()),
          bad.text())


@case
def one_that_never_comes_is_named():
    with Where() as where:
        ranks = ranks_of(VDEV, 3, where, ["-n", "600", "--ranks-timeout", "1"], first=1)
        ended(ranks, [1, 1])
    for p in ranks:
        check(re.search("^leat-rpc-bench: .*rank 0 has not come", p.err(), re.M), p.text())
    with Port() as a, Port() as b:
        p = Proc(["-l", str(CPU_A), "--vdev=" + VDEV],
                 ["--ranks-list", "%s,%s" % (a, b), "--rank", "0", "--ranks-timeout", "1", "-n",
                  "600"])
        ended([p], [1])
        check("rank 1 has not come within 1 s (--ranks-timeout)" in p.err(), p.text())


@case
def a_signal_while_it_waits():
    with Where() as where:
        p = ranks_of(VDEV, 2, where, ["-n", "600", "--ranks-timeout", "3600"], first=1)[0]
        while not os.path.isdir(where):
            check(p.p.poll() is None, p.text())
            time.sleep(0.01)
        p.signal(SIGINT)
        check(p.wait() == 130 and "leat-rpc-bench: interrupted" in p.err(), p.text())


def mpirun(n, app, options=()):
    launcher = shutil.which("mpirun")
    if launcher is None:
        raise Skipped("no mpirun")
    plugins = os.environ.get("LEAT_TEST_PLUGINS", "").split()
    args = [launcher, "--oversubscribe", "--allow-run-as-root", "-n", str(n), *options, PERF,
            *plugins, *QUIET,
            "-l", str(CPU_A), "--vdev=" + VDEV, "--", "--launched", "--idle", "sleep", *app]
    try:
        return subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=120, check=False)
    except subprocess.TimeoutExpired as e:
        raise Failed("mpirun: %s\n%s" % (e, e.stderr)) from None


@case
def under_mpirun():
    p = mpirun(4, ["-n", "2000"])
    check(p.returncode == 0, "%d\n%s\n%s" % (p.returncode, p.stdout, p.stderr))
    check(re.search(r"^ +total +2000 ", p.stdout, re.M), p.stdout)
    check(len(re.findall(r"^ +[0-3]\.0 ", p.stdout, re.M)) == 4, p.stdout)


@case
def alone():
    p = Proc(["--lcores", "0@%d,1@%d" % (CPU_A, CPU_A), "--vdev=" + VDEV],
             ["--ranks-how", "alone", "-n", "600", "--json", "--idle", "sleep"])
    check(p.wait() == 0, p.text())
    exact(results(p), 600, 2000)


if __name__ == "__main__":
    main(lambda: need_device(VDEV))
