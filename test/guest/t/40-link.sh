# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# The cable is pulled and plugged in: ports and programs notice, and then all works as before.

state() { ibv_devinfo -d "$1" | tee /dev/stderr | grep -q "$2"; }
events() { grep "$1" watch.log; }

stdbuf -oL ibv_asyncwatch -d x_va >watch.log 2>&1 &
wait_for 10 events "async event FD"

for netdev in va vb; do
	check "$netdev down" guest-link down $netdev
	check "x_va is down" state x_va PORT_DOWN
	check "x_vb is down" state x_vb PORT_DOWN
	check "$netdev up" guest-link up $netdev
	check "x_va is active" wait_for 5 state x_va PORT_ACTIVE
	check "x_vb is active" wait_for 5 state x_vb PORT_ACTIVE
done
check "an event told that the port is down" wait_for 5 events PORT_ERR
check "an event told that the port is active" wait_for 5 events PORT_ACTIVE
kill %1

for to in 10.97.0.2 fd97::2; do
	check "rping to $to as before" pair "listens_cm 7174" rping -s -a $to -C 1 -- \
		rping -c -a $to -I ${to/%2/1} -C 1
done
