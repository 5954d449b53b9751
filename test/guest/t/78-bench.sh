# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 240
#
# The comparison with perftest runs. Its results are not judged here: devtools/bench --verbs shows
# them.

if [ ! -e "$DRIVER" ] || [ ! -x "$BUILD/apps/leat-perf" ] ||
	[ ! -x "$BUILD/test/perf/bench-stream-wire" ]; then
	skip "leat-perf beside perftest" "it, bench-stream-wire, or the verbs driver is not built"
	return
fi
names=(wire-write-lat-8 wire-send-rate-8 wire-stream-lat-64)
! $SOAK || names+=(wire-atomic-lat-8 wire-send-bw-4Ki wire-stream-bw-1Mi)
check "leat-perf beside perftest" python3 -B "$GUEST_DIR/bench_verbs.py" --rounds 1 --scale 0.1 \
	"$BUILD/apps/leat-perf" "$BUILD/test/perf/bench-stream-wire" "$DRIVER" "${names[@]}"
mv check.log bench.log
for name in "${names[@]}"; do
	check "a result of $name" grep -q \
		"^{\"name\": \"$name\", \"leat\": [0-9.]*, \"reference\": [0-9.]*, " bench.log
done
