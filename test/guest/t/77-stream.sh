# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 400
#
# leat's streams and peers of the Redis/Valkey RDMA protocol without code of leat
# (test/stream_foreign): a foreign client with leat's echo server, leat's client with a foreign echo
# server. Both foreign programs run the rules, and commit all offences beside a connection that must
# not be disturbed.

LEAT=$BUILD/test/stream/leat-stream-echo
CLIENT=$BUILD/test/stream_foreign/foreign-client
SERVER=$BUILD/test/stream_foreign/foreign-server
# Little memory, for a short start.
EAL=(--no-pci --no-telemetry --no-huge -m 128 -l 0 --log-level=leat.*:error -d "$DRIVER")

# leat_at va|vb OPTION...: run leat's echo program
leat_at() {
	local end=$1
	shift
	exec "$LEAT" "${EAL[@]}" "--vdev=fabric_verbs0,dev=x_$end$PATIENT" -- "$@"
}
# serves PORT LOG COMMAND...: start a server in the background; its pid is $server
serves() {
	local port=$1 log=$2
	shift 2
	"$@" >"$log" 2>&1 &
	server=$!
	wait_for 30 listens_cm "$port" || ! cat "$log"
}
# play LIMIT FROM TO PORT TEST...: run the foreign client; report each of its tests as one
play() {
	local limit=$1 from=$2 to=$3 port=$4 line n=0
	shift 4
	! $SOAK || set -- -s -n 1000 "$@"
	while read -r line; do
		case $line in
		"ok "*) ok "foreign client, ${to}: ${line#ok }" ;;
		"not ok "*) not_ok "foreign client, ${to}: ${line#not ok }" ;;
		*) diag "$line" ;;
		esac
		n=$((n + 1))
	done < <(foreign_client "$limit" "$from" "$to" "$port" "$@")
	[ $n -gt 0 ] || not_ok "the foreign client did nothing"
}
# Options come before the names of tests.
foreign_client() {
	local limit=$1 from=$2 to=$3 port=$4 options=()
	shift 4
	while [ "${1#-}" != "$1" ]; do
		options+=("$1")
		[ "$1" = -s ] || {
			shift
			options+=("$1")
		}
		shift
	done
	timeout "$limit" "$CLIENT" -f "$from" "${options[@]}" "$to" "$port" "$@" 2>&1 ||
		[ $? = 1 ] || echo "not ok the foreign client: exit code $?"
}
# ends CODE PID FILE [WHAT]: wait for the program; it must exit with CODE and print WHAT
ends() {
	local code=0
	wait "$2" || code=$?
	cat "$3"
	[ $code = "$1" ] || return
	[ $# -lt 4 ] || grep -q "$4" "$3"
}
# foreign WHAT [SERVER-OPTION...] -- CLIENT-OPTION...: run leat's client with a foreign server
port=7820
foreign() {
	local what=$1 options=() status=0
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	port=$((port + 1))
	check "leat's client, foreign server: $what" at_foreign "$@"
}
at_foreign() {
	local status=0
	serves $port foreign.log timeout 100 "$SERVER" "${options[@]}" 10.97.0.2 $port || return
	(timeout_leat "$@") || status=$?
	kill -INT "$server"
	wait "$server" || status=$?
	cat foreign.log
	return $status
}
timeout_leat() {
	exec timeout 100 "$LEAT" "${EAL[@]}" "--vdev=fabric_verbs0,dev=x_va$PATIENT" -- \
		--connect "10.97.0.2:$port" "$@"
}

if [ ! -e "$DRIVER" ] || [ ! -x "$LEAT" ] || [ ! -x "$CLIENT" ]; then
	skip "streams over verbs" "the echo program, the foreign peers, or the driver are not built"
	return
fi

more=1
! $SOAK || more=20

check "leat serves" serves 7800 leat.log leat_at vb --listen 10.97.0.2:7800
rdma_snapshot idle.log
play $((120 * more)) 10.97.0.1 10.97.0.2 7800 rules offences kill connects
# If a client ends before its request is answered, the kernel frees its objects after a minute.
check "its objects are what they were before" wait_for 100 rdma_same idle.log
kill -INT "$server"
check "Ctrl-C ends it in order, nothing is left of its streams" ends 0 "$server" leat.log \
	'^server: .*; 0 streams and 0 bytes left'

check "leat serves over IPv6, with small windows, and blocks" serves 7801 leat6.log leat_at vb \
	--listen '[fd97::2]:7801' --rx 65536 --tx 16384 --copy --block
play $((60 * more)) fd97::1 fd97::2 7801 windows-grow window-end own-window-end many-writes \
	both-full byte-reader message-33 notices-add-up no-reading
kill -INT "$server"
check "Ctrl-C ends it in order, too" ends 0 "$server" leat6.log '; 0 streams and 0 bytes left'

check "the foreign peers agree with each other" serves 7802 foreign.log "$SERVER" 10.97.0.2 7802
play 30 10.97.0.1 10.97.0.2 7802 windows-shrink features
kill -INT "$server"
check "and the server has nothing to complain of" ends 0 "$server" foreign.log

foreign "windows that grow and shrink" -w 65536,1048576,300000,65537 -- --streams 3 \
	--send $((2000000 * more)) --pieces 1,65535,65536,65537,100000,3
foreign "byte by byte, reserved bytes" -r 1 -z -- --send $((10000 * more))
foreign "several WRITEs for a notice, from registered memory, byte by byte" -n 4 -w 65536 -- \
	--send $((400000 * more)) --zero-copy --read 1 --rx 65536
foreign "both stop reading" -p 100000 -t 1000 -w 65536 -- --send 1500000 --streams 2 \
	--pause-after 70000 --pause 1500 --tx 16384 --rx 65536
offences=$("$SERVER" -h | sed -n '/^Offences:/,$p' | sed 1d | wc -w)
foreign "$offences offences, each ends its own stream" -x all -- --streams 2 --again "$offences" \
	--send 100000 --beside --failing "$offences"
foreign "a server that is silent" -a 0 -p 0 -t 60000 -- --send 5000 --silence 1500 --failing 1
mv check.log said.log
check "the client says so" grep -q 'its peer was silent for 1500 ms' said.log
foreign "one that sends keepalives is not" -a 400 -p 0 -t 3000 -- --send 5000 --silence 1500

check "a foreign server" serves 7819 foreign.log "$SERVER" 10.97.0.2 7819
(port=7819 && timeout_leat --send 4000000000 --streams 3 --failing 3) >client.log 2>&1 &
client=$!
wait_for 30 eval 'rdma resource show qp | grep -q "x_va.*RC.*RTS"'
disown "$server" # the shell shall not report its end
kill -KILL "$server"
check "it is killed under load: leat's client ends" ends 0 "$client" client.log
