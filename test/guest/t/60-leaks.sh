# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# The counters by which leaks are found: they show a program's objects, and that these are freed.

differs() { ! rdma_counts | cmp -s - before; }

rdma_snapshot before
ib_send_lat -d x_va -x 1 >server.log 2>&1 &
check "a program's queue pair is seen" wait_for 20 differs
kill -KILL $!
wait $! 2>/dev/null
check "a killed program leaves nothing" rdma_same before
