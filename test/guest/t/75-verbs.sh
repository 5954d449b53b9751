# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 900
#
# The conformance suite over the verbs driver: between processes over the wire, and in one process.
# The time is that of emulation: all tests, a little work each. --plain is the driver alone; without it
# every message goes through the library's tag layer, which is what the tests of deaths need. In one
# process it is only run with that layer, and of endpoints without shared receive queues what has to do
# with receives: the rest is the same.

# conform WHAT OPTION...
conform() {
	local what=$1
	shift
	check "conformance of verbs, $what" \
		"$CONFORMANCE" --no-pci "${PLUGINS[@]}" "$@" --scale 5 --slow 20
	mv check.log conform.log
	diag "$(tail -n 1 conform.log)"
	check "$what: some tests ran" grep -q '^ok [0-9]* [^#]*$' conform.log
}

if [ ! -e "$BUILD/drivers/libleat_driver_verbs.so" ]; then
	skip "conformance of verbs" "the driver is not built"
	return
fi
wire=("--vdev=fabric_verbs0,dev=x_va" "--vdev=fabric_verbs1,dev=x_vb" --
	--mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0)
conform "over the wire" "${wire[@]}" --plain
conform "one process, without shared receive queues" \
	--vdev=fabric_verbs0,dev=x_va,srq=0 -- --plain --mode self --listen 10.97.0.1:0 \
	--filter '[bos]*'
conform "tagged, one process" --vdev=fabric_verbs0,dev=x_va -- --mode self --listen 10.97.0.1:0
conform "tagged, deaths over the wire" "${wire[@]}" --filter 'death.*'
