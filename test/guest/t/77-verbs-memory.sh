# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
#
# How the verbs driver registers memory: relaxed ordering, which a device without it ignores, and
# on-demand paging, which is refused where the device has none.

# registered ARGUMENT-OF-THE-DEVICE GLOB...
registered() {
	local arg=$1
	shift
	some "$@"
	"$CONFORMANCE" --no-pci -d "$DRIVER" "--vdev=fabric_verbs0,dev=x_va,$arg" -- --mode self \
		--plain --listen 10.97.0.1:0 --scale 5 --slow 20 "${SOME[@]}"
}

if [ ! -e "$DRIVER" ]; then
	skip "registration of memory" "the driver is not built"
	return
fi
check "relaxed=1: messages, READ, WRITE" registered relaxed=1 'ops.*_every_size'
if ibv_devinfo -v -d x_va | grep -q ODP_SUPPORT$; then
	check "odp=1: messages" registered odp=1 ops.send_every_size
else
	registered odp=1 ops.send_every_size >odp.log 2>&1
	check "odp=1 is refused" test $? -ne 0
	check "and it is said why" grep -q 'odp=1: device x_va has no on-demand paging' odp.log
fi
