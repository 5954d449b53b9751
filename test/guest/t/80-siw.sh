# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# Soft-iWARP from end to end. As long as soft-RoCE is on the same cable, the kernel's connection
# manager takes that by the address; so it has to go meanwhile. The order in which devices were made
# decides: afterwards all are made anew.

all_anew() {
	rdma link delete s_va && rdma link delete s_vb &&
		net_device x_va rxe va && net_device x_vb rxe vb &&
		net_device s_va siw va && net_device s_vb siw vb
}
crossed() { test "$(packets va tx)" -gt "$before"; }

rdma link delete x_va
rdma link delete x_vb
for to in 10.97.0.2 fd97::2; do
	before=$(packets va tx)
	check "rping to $to" pair "listens_cm 7174" rping -s -a $to -C 3 -- \
		rping -c -a $to -I ${to/%2/1} -C 3
	check "its packets crossed the cable" crossed
done
check "soft-RoCE is back" all_anew
