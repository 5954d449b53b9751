# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2054,SC2154 source=test/guest/lib.sh
# timeout: 300
#
# The datagram part of the conformance suite over the verbs driver: in one process, between several
# over the wire, and over a wire that loses one packet in a hundred.

if [ ! -e "$DRIVER" ]; then
	skip "datagrams of verbs" "the driver is not built"
	return
fi
wire=(--vdev=fabric_verbs0,dev=x_va,qp=ud --vdev=fabric_verbs1,dev=x_vb,qp=ud --
	--mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0)
conform "datagrams, one process" --vdev=fabric_verbs0,dev=x_va,qp=ud -- \
	--mode self --listen 10.97.0.1:0
conform "datagrams, over the wire" "${wire[@]}" --filter 'datagram.*'
guest-netem va loss 1%
guest-netem vb loss 1%
conform "datagrams, over a bad wire" "${wire[@]}" --filter 'datagram.c*'
guest-netem va off
guest-netem vb off
