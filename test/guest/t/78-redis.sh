# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 400
#
# Debian's redis-server, which has no RDMA, behind leat-redis-gateway: load of leat-redis-bench with
# verified values, and redis-cli and redis-benchmark through a second gateway with --reverse.
#
#     leat-redis-bench --------- x_va ~~~ x_vb --+
#     redis-cli -> reverse ----- x_va ~~~ x_vb --+- gateway -> redis-server

GATEWAY=$BUILD/apps/leat-redis-gateway
BENCH=$BUILD/apps/leat-redis-bench
SOCKET=/run/scratch/redis.sock
# Little memory, for a short start.
EAL=(--no-pci --no-telemetry --no-huge -m 128 --log-level=leat.*:error -d "$DRIVER")

redis() {
	redis-server --port 0 --unixsocket "$SOCKET" --save '' --appendonly no --dir /run/scratch \
		>redis.log 2>&1 &
	redis=$!
	disown "$redis" # the shell shall not report its end
	wait_for 20 redis-cli -s "$SOCKET" ping
}
forward() {
	"$GATEWAY" "${EAL[@]}" -l 0 "--vdev=fabric_verbs0,dev=x_vb$PATIENT" -- \
		--listen 10.97.0.2:6380 --backend "unix:$SOCKET" --allow 10.97.0.1 \
		--clients 250 --idle block >forward.log 2>&1 &
	forward=$!
	wait_for 30 listens_cm 6380 || ! cat forward.log
}
reverse() {
	"$GATEWAY" "${EAL[@]}" -l 1 "--vdev=fabric_verbs0,dev=x_va$PATIENT" -- \
		--reverse --listen 127.0.0.1:6390 --to 10.97.0.2:6380 --clients 200 --idle block \
		>reverse.log 2>&1 &
	reverse=$!
	wait_for 30 listens_tcp 6390 || ! cat reverse.log
}
# load OPTION...: run a load over streams, with verified values
load() {
	timeout 100 "$BENCH" "${EAL[@]}" -l 1 "--vdev=fabric_verbs0,dev=x_va$PATIENT" -- \
		--connect 10.97.0.2:6380 --verify --idle yield --timeout 60 -r 100 "$@"
}
cli() { timeout 30 redis-cli -h 127.0.0.1 -p 6390 "$@"; }
answers() {
	local want=$1
	shift
	[ "$("$@")" = "$want" ]
}
gone() { ! kill -0 "$1"; }
# ends CODE PID FILE: wait for the program; it must exit with CODE
ends() {
	local code=0
	wait_for 40 gone "$2" || kill -KILL "$2"
	wait "$2" || code=$?
	tail -n 20 "$3"
	[ $code = "$1" ]
}
clients() { redis-cli -s "$SOCKET" client list; }
# more_clients N: more than N connections, including that of the query; only_one: only that one
more_clients() { [ "$(clients | wc -l)" -gt "$1" ]; }
only_one() { [ "$(clients | wc -l)" = 1 ]; }
blocked() { clients | grep -q 'cmd=blpop'; }
subscribed() { answers 1 cli publish news flood; }
watched() { cli set watched yes && grep -q watched monitor.log; }
piped() { cli --pipe <pipe.txt | grep 'errors: 0'; }
fails() { ! "$@"; }
fds() { find "/proc/$1/fd" -type l | wc -l; }
# as_before PID N: wait until the process has at most N descriptors
no_more_fds() { [ "$(fds "$1")" -le "$2" ]; }
as_before() { wait_for 20 no_more_fds "$1" "$2" || ! find "/proc/$1/fd" -type l -printf '%l\n'; }

if [ ! -e "$DRIVER" ] || [ ! -x "$GATEWAY" ] || [ ! -x "$BENCH" ]; then
	skip "Redis over verbs" "leat-redis-gateway, leat-redis-bench, or the driver are not built"
	return
fi
if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
	skip "Redis over verbs" "redis-server or redis-tools are not installed"
	return
fi

more=1
! $SOAK || more=20

check "redis-server" redis
check "a gateway in front of it" forward
# The first client, which makes the server load libraries, is not counted.
check "1 B, one client" load -c 1 -P 1 -d 1 -n $((100 * more))
rdma_snapshot idle.log
idle_fds=$(fds "$forward")
check "64 B, 100 clients" load -c 100 -P 1 -d 64 -n $((600 * more))
check "64 B, pipeline 512" load -c 4 -P 512 -d 64 -n $((8192 * more))
check "16 KiB, pipeline 16" load -c 8 -P 16 -d 16K -n $((400 * more))
check "16 MiB" load -c 2 -P 1 -d 16M -n $((2 * more)) -r 2
check "mset and lrange" load -c 4 -P 4 -d 1000 -n $((100 * more)) --range 50 --test mset,lrange
check "the gateway has the descriptors that it had" as_before "$forward" "$idle_fds"
check "and the device the objects" rdma_same idle.log

check "a second gateway, for clients that know TCP" reverse
check "PING" answers PONG cli ping
check "SET" answers OK cli set name leat
check "GET" answers leat cli get name
seq $((2000 * more)) | sed 's/.*/SET pipe:& value-&/' >pipe.txt
check "redis-cli --pipe, which half-closes" piped
check "its last value" answers "value-$((2000 * more))" cli get "pipe:$((2000 * more))"
timeout 60 redis-cli -h 127.0.0.1 -p 6390 --raw subscribe news >subscribe.log &
check "SUBSCRIBE" wait_for 20 subscribed
check "its message" wait_for 20 grep -q '^flood$' subscribe.log
timeout 60 redis-cli -h 127.0.0.1 -p 6390 monitor >monitor.log &
check "MONITOR" wait_for 20 watched
timeout 60 redis-cli -h 127.0.0.1 -p 6390 --raw blpop queue 50 >blpop.log &
waiter=$!
check "BLPOP waits" wait_for 20 blocked
check "RPUSH" answers 1 cli rpush queue water
check "and BLPOP ends" ends 0 $waiter blpop.log
check "with what was pushed" grep -q '^water$' blpop.log
check "redis-benchmark" timeout 100 redis-benchmark -h 127.0.0.1 -p 6390 -c 50 -P 16 -d 100 \
	-n $((4000 * more)) -t set,get,lpush -q
check "4 clients with pipeline 16 that close in a loop" timeout 100 redis-benchmark -h 127.0.0.1 \
	-p 6390 -k 0 -c 4 -P 16 -n $((640 * more)) -t set -q

# Kill programs of both sides: the others must notice, and free what belonged to them.
load -c 20 -P 16 -d 1000 -D 60 >killed.log 2>&1 &
load=$!
check "a client under load" wait_for 30 more_clients 20
pkill -KILL -f 'leat-redis-bench.*-D 60' # the process below timeout
check "is killed" fails wait "$load"
check "others go on" answers leat cli get name
kill -KILL "$redis"
check "redis-server is killed, and comes back" redis
check "clients find it again" wait_for 20 answers PONG cli ping
check "so do clients over RDMA" load -c 4 -P 16 -d 64 -n 200

load -c 8 -P 4 -d 100 -D 100 >interrupted.log 2>&1 &
load=$!
check "clients at work" wait_for 30 more_clients 8
kill -INT "$forward"
check "Ctrl-C of the gateway ends it in order" ends 0 "$forward" forward.log
check "and its clients" wait_for 40 gone "$load"
check "a client of the other gateway is told" fails cli ping
kill -INT "$reverse"
check "Ctrl-C of the other gateway" ends 0 "$reverse" reverse.log
check "they left no connection at the server" wait_for 20 only_one
