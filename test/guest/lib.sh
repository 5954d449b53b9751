# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions for the tests in t/; `inside` sources this file before each of them. A test is a file of
# bash that calls these functions; it runs on the network "wire" (see devtools/guest), alone, and in
# a directory of its own that is then removed. It can also use
#
#   BUILD        the build directory
#   CONFORMANCE  leat-conformance
#   PLUGINS      array: EAL arguments that load the drivers of the build
#   DRIVER       the verbs driver, if it was built; loading only this one is faster
#   PATIENT      arguments of its devices with which a busy peer does not count as dead
#   ASAN_BUILD   a build with AddressSanitizer, or empty
#   SOAK         true: tests may take an hour; false: all tests together take a quarter of that
#
# A test may take 120 s, or the time in a line "# timeout: SECONDS" in its head. Afterwards all its
# processes are killed, the cable is repaired, and the devices must have the same objects as before.

# shellcheck source=test/guest/net-lib.sh
. "$GUEST_DIR/net-lib.sh"

DRIVER=$BUILD/drivers/libleat_driver_verbs.so

# On a busy machine the emulated soft-RoCE may be silent for long without a fault. Devices whose
# cable stays in get this timeout: they send again after 0.27 s, and give the peer up after 1.9 s.
# With timeout=18 each lost packet would cost a second.
# shellcheck disable=SC2034 # for the tests
PATIENT=,timeout=16

# tap ok|"not ok" WHAT
tap() {
	local n
	n=$(($(cat /run/tap) + 1))
	echo $n >/run/tap
	printf '%s %d - %s: %s\n' "$1" "$n" "$TEST" "${2//#/}${3:+ # SKIP $3}"
}

ok() { tap ok "$1"; }
not_ok() { tap "not ok" "$1"; }
# skip WHAT WHY
skip() { tap ok "$1" "$2"; }
# diag [TEXT]: print a line of explanation; without arguments, one for each line of stdin
diag() {
	if [ $# -gt 0 ]; then
		printf '# %s\n' "$*"
	else
		sed 's/^/#   /'
	fi
}

# check WHAT COMMAND...: ok if the command succeeds; if not, its output is shown
check() {
	local what=$1 status=0
	shift
	"$@" >check.log 2>&1 || status=$?
	if [ $status = 0 ]; then
		ok "$what"
		return 0
	fi
	not_ok "$what"
	diag "exit code $status of: $*"
	# A test program with many tests goes on after a failed one: show each.
	grep -A 3 '^not ok' check.log | diag
	tail -n 40 check.log | diag
	return 1
}

# wait_for SECONDS COMMAND...: repeat the command until it succeeds
wait_for() {
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# Does a program listen at PORT, with TCP or with rdma_cm?
listens_tcp() { ss -Hltn "sport = :$1" | grep -q .; }
listens_cm() { rdma resource show cm_id | grep -q "state LISTEN.*:$1 "; }

# Counters of packets that the network device, and the RDMA device, sent and received
packets() { cat "/sys/class/net/$1/statistics/${2}_packets"; }
hw_counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# Leaks: rdma_snapshot FILE before, rdma_same FILE after. Counted are protection domains,
# completion queues, queue pairs, cm_ids, memory regions, contexts and SRQs of every device. The
# kernel ends some of them a while after their process: a difference counts after 10 s.
rdma_counts() {
	rdma resource | sed 's/^[0-9]*: *//' | sort
}
rdma_snapshot() {
	rdma_counts >"$1"
}
rdma_same() {
	local end=$((SECONDS + 10))
	until rdma_counts | cmp -s - "$1"; do
		if [ $SECONDS -ge $end ]; then
			echo "before:"
			cat "$1"
			echo "after:"
			rdma_counts
			rdma resource show qp
			return 1
		fi
		sleep 0.1
	done
}

# pair SERVER-READY SERVER-COMMAND -- CLIENT-COMMAND: run a server in the background, and a client
# when the server is ready; both must succeed within 60 s
pair() {
	local ready=$1 server=() server_pid status=0
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	timeout 60 "${server[@]}" >server.log 2>&1 &
	server_pid=$!
	# shellcheck disable=SC2086 # a function and its argument
	if wait_for 60 $ready; then
		timeout 60 "$@" || status=$?
		[ $status = 0 ] || echo "client's exit code: $status"
	else
		echo "the server does not listen"
		status=1
	fi
	[ $status = 0 ] || kill "$server_pid" 2>/dev/null
	wait "$server_pid" || {
		echo "server's exit code: $?"
		status=1
	}
	echo "server:"
	cat server.log
	return $status
}

# perftest PROGRAM [OPTION]...: x_vb is the server, x_va the client. On a busy CPU perftest can't
# measure the speed of its clock, and fails at its end: try again then.
perftest() {
	local program=$1 status
	shift
	for _ in 1 2 3 4 5; do
		status=0
		pair "listens_tcp 18515" "$program" -d x_vb "$@" -- \
			"$program" -d x_va "$@" 10.97.0.2 >perftest.log 2>&1 || status=1
		if [ $status = 0 ] || ! grep -q "Can't produce a report" perftest.log; then
			break
		fi
	done
	cat perftest.log
	return $status
}

# some GLOB...: set SOME to options for these tests of the conformance suite; in soak for all
some() {
	local glob
	SOME=()
	for glob in "$@"; do
		$SOAK || SOME+=(--filter "$glob")
	done
}

# use_asan: use the driver and the suite of the build with AddressSanitizer from here on; false if
# there is no such build
use_asan() {
	[ -n "$ASAN_BUILD" ] && [ -e "$ASAN_BUILD/drivers/libleat_driver_verbs.so" ] || return 1
	DRIVER=$ASAN_BUILD/drivers/libleat_driver_verbs.so
	CONFORMANCE=$ASAN_BUILD/test/driver/leat-conformance
	# Options that save memory, and time in every allocation.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16
	ASAN_OPTIONS+=:malloc_context_size=8
}

# conform WHAT OPTION...: run the conformance suite over verbs. Emulation is slow: each test does
# little work, or SCALE percent.
conform() {
	local what=$1 scale=${SCALE:-5}
	shift
	! $SOAK || scale=${SCALE:-20}
	check "conformance of verbs, $what" \
		"$CONFORMANCE" --no-pci --log-level=leat.driver:debug -d "$DRIVER" "$@" \
		--scale "$scale" --slow 20
	mv check.log conform.log
	diag "$(grep '^# [0-9]* passed' conform.log | tail -n 1)"
	check "$what: some tests ran" grep -q '^ok [0-9]* [^#]*$' conform.log
}

# faults WHAT ARGUMENTS-OF-THE-DEVICES OPTION...: run tests that pull the cable, over the wire, with
# the driver alone. None may be skipped.
faults() {
	local what=$1 args=$2
	shift 2
	conform "$what" "--vdev=fabric_verbs0,dev=x_va$args" \
		"--vdev=fabric_verbs1,dev=x_vb$args" -- \
		--plain --mode fork --listen 10.97.0.1:0 --far-listen 10.97.0.2:0 \
		--cable guest-cable "$@"
	! grep -q '^not ok' conform.log || guest-cable up >/dev/null
	grep -E '^(not )?ok |^# [0-9]+ (ms|conn)' conform.log | diag
	check "$what: none was skipped" eval '! grep "# SKIP" conform.log'
}
