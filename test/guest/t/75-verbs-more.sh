# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# soak
# timeout: 800
#
# More of the conformance suite over the verbs driver: in one process, with the library's tag layer,
# without shared receive queues, and all deaths.

if [ ! -e "$BUILD/drivers/libleat_driver_verbs.so" ]; then
	skip "conformance of verbs" "the driver is not built"
	return
fi
wire=("--vdev=fabric_verbs0,dev=x_va" "--vdev=fabric_verbs1,dev=x_vb" --
	--mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0)
conform "one process" --vdev=fabric_verbs0,dev=x_va -- --plain --mode self --listen 10.97.0.1:0
conform "one process, without shared receive queues" \
	--vdev=fabric_verbs0,dev=x_va,srq=0 -- --plain --mode self --listen 10.97.0.1:0 \
	--filter '[bos]*'
conform "tagged, one process" --vdev=fabric_verbs0,dev=x_va -- --mode self --listen 10.97.0.1:0
conform "tagged, deaths over the wire" "${wire[@]}" --filter 'death.*'
