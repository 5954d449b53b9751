# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 240
#
# Calls of every kind of lib/rpc over the wire, each response checked: over RC, over UD, and over UD
# on a wire that loses packets, changes their order, and doubles them.

CALLS=$BUILD/test/rpc/leat-rpc-calls

# calls N DEVICE-ARGUMENTS [EAL-ARGUMENT...]
calls() {
	local n=$1 args=$2
	shift 2
	! $SOAK || n=$((n * 50))
	timeout 200 "$CALLS" --no-pci --no-telemetry --log-level=leat.*:error "${PLUGINS[@]}" \
		"--vdev=fabric_verbs0,dev=x_va$args" "--vdev=fabric_verbs1,dev=x_vb$args" "$@" -- \
		--silence 5000 --addr 10.97.0.2:0 \
		--devices "${NEAR:-fabric_verbs0},${FAR:-fabric_verbs1}" "$n" 1
}

# killed DEVICE-ARGUMENTS: run calls while a server is stopped, and while one is killed
killed() {
	timeout 100 "$BUILD/test/rpc/leat-rpc-kill" --no-pci --no-telemetry --no-huge -m 128 \
		--log-level=leat.*:error -d "$DRIVER" \
		"--vdev=fabric_verbs0,dev=x_va$1" "--vdev=fabric_verbs1,dev=x_vb$1" -- \
		--silence 2000 --addr 10.97.0.2:0 --devices fabric_verbs0,fabric_verbs1
}

if [ ! -e "$DRIVER" ] || [ ! -x "$CALLS" ]; then
	skip "calls over verbs" "they, or the driver, are not built"
	return
fi
check "calls over RC" calls 2000 "$PATIENT"
diag "$(tail -n 1 check.log)"
check "calls over UD" calls 2000 ,qp=ud
diag "$(tail -n 1 check.log)"
# bulk DEVICE-ARGUMENTS OPTION...
bulk() {
	local args=$1
	shift
	timeout 100 "$BUILD/test/rpc/leat-rpc-bulk" --no-pci --no-telemetry \
		--log-level=leat.*:error -d "$DRIVER" \
		"--vdev=fabric_verbs0,dev=x_va$args" "--vdev=fabric_verbs1,dev=x_vb$args" \
		-- --silence 5000 --addr 10.97.0.2:0 --devices fabric_verbs0,fabric_verbs1 "$@" 40 1
}
check "bulk over RC, by READ and WRITE" bulk "$PATIENT"
diag "$(tail -n 1 check.log)"
check "bulk over UD, in messages" bulk ,qp=ud --plain
diag "$(tail -n 1 check.log)"
check "servers over RC that are stopped and killed" killed "$PATIENT"
check "servers over UD that are stopped and killed" killed ,qp=ud
guest-netem va loss 5% delay 1ms 1ms duplicate 2%
guest-netem vb loss 5% delay 1ms 1ms duplicate 2%
check "calls over UD, over a bad wire" calls 1000 ,qp=ud
diag "$(tail -n 1 check.log)"
guest-netem va off
guest-netem vb off
NEAR=fabric_fault0 FAR=fabric_fault1
faults=loss=0.1,dup=0.05,overtake=8,reorder=8,refuse=0.05
check "calls over UD, with faults" calls 1000 ,qp=ud \
	"--vdev=fabric_fault0,lower=fabric_verbs0,$faults" \
	"--vdev=fabric_fault1,lower=fabric_verbs1,$faults"
diag "$(tail -n 1 check.log)"
check "calls over RC, with faults" calls 1000 "$PATIENT" \
	--vdev=fabric_fault0,lower=fabric_verbs0,reorder=16,delay=tail:1..100,refuse=0.1 \
	--vdev=fabric_fault1,lower=fabric_verbs1,reorder=16,delay=tail:1..100,refuse=0.1
diag "$(tail -n 1 check.log)"
