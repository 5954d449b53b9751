# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# The counters that leaks are found with: they see what a program holds, and that it is gone.

differs() { ! rdma_counts | cmp -s - before; }

rdma_snapshot before
ib_send_lat -d x_va -x 1 >server.log 2>&1 &
check "a program's queue pair is seen" wait_for 20 differs
kill -KILL $!
wait $! 2>/dev/null
check "a killed program leaves nothing" rdma_same before
