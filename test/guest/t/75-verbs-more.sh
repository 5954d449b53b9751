# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2054,SC2154 source=test/guest/lib.sh
# timeout: 300
#
# More of the conformance suite over the verbs driver, in one process: for each arrangement the
# tests in which it differs; in the suite soak all tests.

if [ ! -e "$DRIVER" ]; then
	skip "conformance of verbs" "the driver is not built"
	return
fi
near=("--vdev=fabric_verbs0,dev=x_va$PATIENT" -- --mode self --listen 10.97.0.1:0)

# A device that is connected to itself, with one thread for both sides.
some 'connect.[!t]*' 'random.*' 'stop.*' 'wait.*'
conform "one process" "${near[@]}" --plain "${SOME[@]}"

# Without an SRQ: each peer has receives of its own, and its messages are copied.
near[0]+=,srq=0
some 'bounded.*' 'cancel.*' 'conservation.*' 'errors.receive*' 'ops.[rs]*' 'order.[mq]*' \
	'ownership.*'
conform "without shared receive queues" "${near[@]}" --plain "${SOME[@]}"
near[0]=${near[0]%,srq=0}

# Tests of tags, and those that tags must not disturb.
some 'bounded.un*' 'cancel.*' 'errors.trecv*' 'ops.directed*' 'ops.ta*' 'ops.ts*' 'order.*' \
	'silence.*'
conform "tagged" "${near[@]}" "${SOME[@]}"

# Under the fault device, also with the tag layer: completions out of order and late, posts refused.
fault=(-d "${DRIVER%verbs.so}fault.so" "${near[0]}"
	--vdev=fabric_fault0,lower=fabric_verbs0,reorder=8,delay=1..50,refuse=0.05
	-- --device fabric_fault0 "${near[@]:2}")
some 'random.*' 'order.[mq]*'
conform "under faults" "${fault[@]}" --plain "${SOME[@]}"
some 'random.*'
conform "tagged, under faults" "${fault[@]}" "${SOME[@]}"
