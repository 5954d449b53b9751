# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# rping from end to end; its packets are counted on the cable. With two kinds of devices on one
# cable the kernel chooses one of them for an address: soft-RoCE, made first.

# rping_pair FROM TO [OPTION]...
rping_pair() {
	local from=$1 to=$2
	shift 2
	pair "listens_cm 7174" rping -s -a "$to" -C 5 -v "$@" -- \
		rping -c -a "$to" -I "$from" -C 5 -v "$@"
}

# At least five pings crossed the cable: each needs a SEND and an RDMA operation in each direction.
crossed() {
	local tx rx sent rcvd
	tx=$(($(packets va tx) - va_tx))
	rx=$(($(packets vb rx) - vb_rx))
	sent=$(($(hw_counter x_va sent_pkts) - x_sent))
	rcvd=$(($(hw_counter x_vb rcvd_pkts) - x_rcvd))
	echo "va sent $tx packets, vb received $rx; x_va sent $sent, x_vb received $rcvd"
	[ $tx -ge 15 ] && [ $rx -ge 15 ] && [ $sent -ge 10 ] && [ $rcvd -ge 10 ]
}

for addresses in "10.97.0.1 10.97.0.2" "fd97::1 fd97::2"; do
	read -r from to <<<"$addresses"
	va_tx=$(packets va tx) vb_rx=$(packets vb rx)
	x_sent=$(hw_counter x_va sent_pkts) x_rcvd=$(hw_counter x_vb rcvd_pkts)
	check "from $from to $to" rping_pair "$from" "$to"
	check "its packets crossed the cable" crossed
done
check "the other way" rping_pair 10.97.0.2 10.97.0.1
