# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 400
#
# Faults of the cable and of the other side, over the wire: tests cable.* of the conformance suite.
# That nothing is left in the devices is checked after each file.

if [ ! -e "$DRIVER" ]; then
	skip "faults" "the verbs driver is not built"
	return
fi
# With timeout=18 a lost packet is sent again after a second, and a peer given up after seven.
faults "the cable is out, and loses packets" ,timeout=18 --filter 'cable.[dl]*'
check "packets were lost" grep -q '^# dropped' conform.log
faults "wrong keys, a killed peer, full queues" "" --filter 'cable.[wk]*' --filter 'cable.to*'
faults "no receives" ,rnr_retry=2 --filter 'cable.no*' --impatient
SCALE=100 faults "a thousand connections, ten times" "" --filter 'cable.thousand*'
