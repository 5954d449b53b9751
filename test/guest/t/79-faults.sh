# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 700
#
# Faults of the cable and of the other side, over the wire: tests cable.* of the conformance suite,
# with AddressSanitizer if there is such a build. (After each file it is checked that no objects are
# left in the devices.) In the suite soak they run without AddressSanitizer, and 90-asan repeats
# them with it.

if [ ! -e "$DRIVER" ]; then
	skip "faults" "the verbs driver is not built"
	return
fi
$SOAK || use_asan || diag "without AddressSanitizer"
# timeout=20: a packet is sent again after 4 s, and the peer given up after 30 s; timeout=16: after
# 270 ms and 2 s.
faults "the cable is out for a moment" ,timeout=20 --filter 'cable.down_for_a*'
faults "the cable is out for good, and loses packets" ,timeout=16 \
	--filter 'cable.down_for_g*' --filter 'cable.l*'
check "packets were lost" grep -q '^# dropped' conform.log
faults "wrong keys, a killed peer, full queues" "" --filter 'cable.[wk]*' --filter 'cable.to*'
faults "no receives" ,rnr_retry=2 --filter 'cable.no*' --impatient
connections=10
! $SOAK || connections=100
SCALE=$connections faults "many connections, ten times" "" --filter 'cable.thousand*'
