# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 500
#
# The conformance suite over the verbs driver between processes over the wire: all tests with the
# driver alone (--plain); and with the library's tag layer above it, through which every message
# passes, the tests of deaths, which need tagged messages.

if [ ! -e "$DRIVER" ]; then
	skip "conformance of verbs" "the driver is not built"
	return
fi
wire=("--vdev=fabric_verbs0,dev=x_va$PATIENT" "--vdev=fabric_verbs1,dev=x_vb$PATIENT" --
	--mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0)
conform "over the wire" "${wire[@]}" --plain
conform "tagged, deaths over the wire" "${wire[@]}" --filter 'death.*'
