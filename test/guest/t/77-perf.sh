# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 400
#
# leat-perf over the verbs driver, two processes over the wire: all ops of the device with every
# byte verified; and peers that are not leat-perf.

PERF=$BUILD/apps/leat-perf
PORT=7700
# Little memory, for a short start.
EAL=(--no-pci --no-telemetry --no-huge -m 128 --log-level=lib.*:error -d "$DRIVER")

# Options of both sides.
BOTH=()

# near OPTION...: run leat-perf on x_va; far: run a leat-perf that listens, on x_vb
near() {
	timeout 60 "$PERF" "${EAL[@]}" -l 1 --vdev=fabric_verbs0,dev=x_va -- --idle yield \
		--mbufs 1024 --connect "10.97.0.2:$PORT" "${BOTH[@]}" "$@"
}
far() {
	exec timeout 120 "$PERF" "${EAL[@]}" -l 0 --vdev=fabric_verbs0,dev=x_vb -- --idle yield \
		--mbufs 1024 --listen "10.97.0.2:$PORT" --once "${BOTH[@]}"
}
# both OPTION...: run both sides; the options are for near, which waits for far
both() {
	local pid status=0
	far >far.log 2>&1 &
	pid=$!
	wait_for 30 listens_cm $PORT
	near "$@" || status=$?
	wait_for 10 gone $pid || kill $pid
	wait $pid || status=$?
	echo "far side:"
	cat far.log
	return $status
}

# says WHAT PATTERN: check the output of the last check
says() {
	mv check.log said.log
	check "$1" grep -q "$2" said.log
}
gone() { ! kill -0 "$1"; }
fails() { ! "$@"; }

if [ ! -e "$DRIVER" ] || [ ! -x "$PERF" ]; then
	skip "leat-perf over verbs" "it, or the driver, is not built"
	return
fi

# Ops that can be measured on this device, by the names of --op: those that the library does in
# software have to be asked for.
check "list of devices" "$PERF" "${EAL[@]}" --vdev=fabric_verbs0,dev=x_va --list-devices
read -r -a OPS <<<"$(sed -n 's/^ *ops  *//p' check.log |
	sed 's/\<\w* (in software)//g; s/\<t\{0,1\}recv\>//g; s/\<tsend\>/tagged/')"
check "it offers something" [ ${#OPS[@]} -gt 0 ]

# measure WHAT OPTION...: run all ops, each of which must print a table
measure() {
	local what=$1 op missing=()
	shift
	check "$what" both --op all "$@"
	mv check.log measure.log
	for op in "${OPS[@]}"; do
		grep -q "^ $op, " measure.log || missing+=("$op")
	done
	check "$what: all that the device offers (${OPS[*]})" [ ${#missing[@]} = 0 ]
}

measure "lat" --check -n 20 --warmup 2 --size 0,8,512,520,4097,64K
measure "bw" --check --test bw -n 100 --size 8,512,4097,64K
measure "rate" --check --test rate -n 500 --size 8
measure "open loop" --rate 200 -n 60 --size 8

BOTH=(--tags)
check "tagged, in software" both --op tagged --check -n 20 --warmup 2 --size 0,8,4097,64K
BOTH=()

check "a size that the device can't do" fails near --size 3G -n 1
says "it says so" "size 3221225472 is beyond the device's limit"
check "a spoiled message" fails both --check --corrupt 3 -n 5 --warmup 0 --size 100
says "it is found" "errors at the listening side; the first: message 3, "

# Peers that are not leat-perf.
far >far.log 2>&1 &
pid=$!
wait_for 20 listens_cm $PORT
# Only the listener's message counts: ignore rping's result.
timeout 20 rping -c -a 10.97.0.2 -I 10.97.0.1 -p $PORT -C 1 >rping.log 2>&1
check "the listener says that it is no leat-perf" wait_for 10 \
	grep -q "^leat-perf: client .* no word from a leat-perf of this version: " far.log
check "and serves the next one" near -n 20 --size 8
check "which ends it" wait $pid

rping -s -a 10.97.0.2 -p $PORT -C 1 >rping.log 2>&1 &
wait_for 20 listens_cm $PORT
check "a client meets rping" fails near -n 20 --size 8 --timeout 3
says "the client says that it is no leat-perf" \
	"^leat-perf: no word from a leat-perf of this version: "
