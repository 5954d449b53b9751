# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# Packets are lost: the cable counts them, the device repeats them, the program sees no failure.

dropped() {
	tc -s qdisc show dev va | tee /dev/stderr | grep -q 'dropped [1-9]'
}
retries() {
	local device counter n=0
	for device in x_va x_vb; do
		for counter in completer_retry_err rcvd_seq_err duplicate_request; do
			n=$((n + $(hw_counter $device $counter)))
		done
	done
	echo $n
}
repeated() { test "$(retries)" -gt "$before"; }

before=$(retries)
check "loss is injected" guest-netem va loss 10%
check "ib_send_bw in spite of it" perftest ib_send_bw -x 1 -n 300 -s 4096
check "packets were lost" dropped
check "packets were repeated" repeated
check "loss ends" guest-netem va off
