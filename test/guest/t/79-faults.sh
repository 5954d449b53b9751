# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# soak
# timeout: 400
#
# Faults of the cable and of the other side, over the wire: tests cable.* of the conformance suite.
# That nothing is left in the devices is checked after each file.

driver=$BUILD/drivers/libleat_driver_verbs.so
if [ ! -e "$driver" ]; then
	skip "faults" "the verbs driver is not built"
	return
fi

# x_vb's end is pulled: x_va sends, and hears nothing.
cat >cable <<'END'
#!/bin/bash
set -e
case $1 in
down) guest-link down vb ;;
lossy) guest-netem va loss 1% && guest-netem vb loss 1% ;;
up)
	tc -s qdisc show | sed -n 's/.*dropped \([1-9][0-9]*\),.*/# dropped \1/p'
	guest-netem va off && guest-netem vb off && guest-link up vb
	;;
esac
END
chmod +x cable

# faults WHAT ARGUMENTS-OF-THE-DEVICES OPTION...
faults() {
	local what=$1 args=$2
	shift 2
	check "$what" "$CONFORMANCE" --no-pci -d "$driver" "--vdev=fabric_verbs0,dev=x_va$args" \
		"--vdev=fabric_verbs1,dev=x_vb$args" -- --mode fork --listen 10.97.0.1:0 \
		--far-listen 10.97.0.2:0 --cable "$PWD/cable" --slow 20 --scale 5 "$@"
	mv check.log faults.log
	grep -E '^(not )?ok |^# [0-9]+ (ms|conn)' faults.log | diag
}

# With timeout=18 a lost packet is sent again after a second.
faults "packets are lost, a peer is killed, full queues" ,timeout=18 --filter 'cable.[lkt][oi]*'
check "packets were lost" grep -q '^# dropped' faults.log
check "none was skipped" eval '! grep "# SKIP" faults.log'
faults "no receives, rnr_retry=2" ,rnr_retry=2 --filter 'cable.no*' --impatient
check "it was not skipped" eval '! grep "# SKIP" faults.log'
