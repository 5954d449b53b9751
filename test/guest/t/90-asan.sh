# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2054,SC2034,SC2154 source=test/guest/lib.sh
# timeout: 400
#
# Tests that create and destroy objects, with AddressSanitizer; tests of faults are in 79-faults.

if [ -z "$ASAN_BUILD" ]; then
	what="verbs with AddressSanitizer"
	why="there is no such build: devtools/test --asan --build-only"
	# In CI the build must exist.
	if [ "${CI:-}" = true ]; then
		not_ok "$what: $why"
	else
		skip "$what" "$why"
	fi
	return
fi
if ! use_asan; then
	skip "verbs with AddressSanitizer" "the driver is not built"
	return
fi

# Outside of the suite soak 79-faults runs these with AddressSanitizer.
if $SOAK; then
	# timeout=20: a packet is sent again after 4 s, and the peer given up after 30 s;
	# timeout=16: after 270 ms and 2 s.
	faults "ASan: the cable is out for a moment" ,timeout=20 --filter 'cable.down_for_a*'
	faults "ASan: the cable is out for good, and loses packets" ,timeout=16 \
		--filter 'cable.down_for_g*' --filter 'cable.l*'
	faults "ASan: wrong keys, a killed peer, full queues, connections ten times" "" \
		--filter 'cable.[wk]*' --filter 'cable.t[oh]*'
	faults "ASan: no receives" ,rnr_retry=2 --filter 'cable.no*' --impatient
fi
near=("--vdev=fabric_verbs0,dev=x_va$PATIENT" -- --mode self --listen 10.97.0.1:0)
some 'cancel.*' 'connect.[!t]*' 'conservation.*' 'errors.*' 'random.*' 'stop.*'
conform "ASan: one process" "${near[@]}" "${SOME[@]}"
near[0]+=,qp=ud
some 'datagram.[cdlsw]*'
conform "ASan: datagrams" "${near[@]}" "${SOME[@]}"
