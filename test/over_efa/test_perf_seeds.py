# SPDX-License-Identifier: BSD-3-Clause
"""leat-perf over the emulated EFA device: test_perf_seeds.py LEAT_PERF DEVICE SEEDS

All ops, with checked data, for one seed after the other: in order and with windows of reordering,
by turns in one process and between two. A seed that fails is named with its window.
"""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../app"))

from perf_lib import (  # noqa: E402
    CPU_A, CPU_B, Failed, Listener, case, check, clean, client, main, need_device, run,
)

VDEV = sys.argv[2]
SEEDS = int(sys.argv[3])
COMMON = os.environ.get("EFA_SIM", "")
WINDOWS = (1, 4, 64, 1024)
OPS = ["send", "tagged", "write", "write_imm", "read", "fetch_add", "cmp_swap"]
SIZES = [1, 8, 4095, 65536, 1 << 20]
ARGS = ["--test", "bw", "--op", "all", "--size", ",".join(map(str, SIZES)), "-n", "10", "--check",
        "--json", "--timeout", "30"]


def one_process():
    eal = ["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B), "--vdev=" + VDEV]
    return run(eal, ["--self", "--idle", "yield", *ARGS])


def two_processes():
    srv = Listener(VDEV, ["--once"])
    p = client(VDEV, srv.addr, ARGS)
    check(srv.wait() == 0, srv.text())
    return p


def one_seed(seed, window, perf):
    """Run one seed. Return whether completions were out of order, and put in order."""
    with tempfile.NamedTemporaryFile(prefix="leat-efa-", suffix=".json") as stats:
        device = "seed=%d,reorder=%d,stats=%s" % (seed, window, stats.name)
        os.environ["EFA_SIM"] = ",".join(w for w in (COMMON, device) if w)
        clean(perf(), OPS, SIZES)
        lines = [json.loads(line) for line in open(stats.name, encoding="utf-8")]
    check(all(line["sends"] > 0 and not any(line["left"].values()) for line in lines), str(lines))
    return any(line["overtaken"] > 0 for line in lines)


@case
def every_seed():
    shuffled = 0
    for seed in range(1, SEEDS + 1):
        window = WINDOWS[seed % 4]
        perf = (one_process, two_processes)[seed // 4 % 2]
        try:
            out_of_order = one_seed(seed, window, perf)
        except Failed as e:
            raise Failed("seed %d, window %d, %s: %s" % (seed, window, perf.__name__, e)) from e
        check(window > 1 or not out_of_order, "seed %d: out of order with a window of 1" % seed)
        shuffled += out_of_order
        if seed % 100 == 0:
            print("# %d seeds" % seed, flush=True)
    check(shuffled > SEEDS // 3, "only %d of %d runs were out of order" % (shuffled, SEEDS))


main(lambda: need_device(VDEV))
