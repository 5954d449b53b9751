# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 300
#
# Soft-iWARP from end to end. As long as soft-RoCE is on the same cable, the kernel's connection
# manager chooses that for the address, so it is removed meanwhile. The choice depends on the order
# in which devices were made: afterwards all are made anew.

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

if [ -e "$DRIVER" ]; then
	# The tests of each group in which iWARP differs. See doc/drivers/verbs.md for the rest.
	why="iWARP places what lies inside the region of a write that is refused"
	conform "iWARP, one process" --vdev=fabric_verbs0,dev=s_va -- \
		--plain --mode self --listen 10.97.0.1:0 --filter '[os]*' \
		--known "silence.peer_breaks_rules=$why"
	conform "iWARP, over the wire" --vdev=fabric_verbs0,dev=s_va \
		--vdev=fabric_verbs1,dev=s_vb -- \
		--plain --mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0 --filter 'ops.*'
else
	skip "conformance of verbs over iWARP" "the driver is not built"
fi
check "soft-RoCE is back" all_anew
