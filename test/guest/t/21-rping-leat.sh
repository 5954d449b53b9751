# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
# timeout: 240
#
# doc/examples/rping against rping, in both directions: a leat program and one without code of leat.

example=$BUILD/doc/examples/example-rping
if [ ! -e "$DRIVER" ] || [ ! -x "$example" ]; then
	skip "rping and leat" "the verbs driver or the example is not built"
	return
fi
for end in va vb; do
	cat >leat_$end <<-END
		#!/bin/sh
		exec "$example" --no-pci -d "$DRIVER" --vdev=fabric_verbs0,dev=x_$end -- "\$@"
	END
	chmod +x leat_$end
done

# read_pings FILE N: pings 0 to N - 1 were printed, and no other
read_pings() {
	grep -o 'rdma-ping-[0-9]*: ' "$1" | sort -u >pings.log
	[ "$(wc -l <pings.log)" = "$2" ] && grep -q "rdma-ping-$(($2 - 1)): " pings.log
}
said() { grep -q "$1" "$2" || ! cat "$2"; }
# ends CODE PID FILE [WHAT]: wait for the program; it must exit with CODE and print WHAT
ends() {
	local code=0
	wait "$2" || code=$?
	cat "$3"
	[ $code = "$1" ] || return
	[ $# -lt 4 ] || said "$4" "$3"
}
# serves COMMAND...: start a server in the background; its pid is $server
serves() {
	"$@" >server.log 2>&1 &
	server=$!
	wait_for 60 listens_cm 7174
}

check "leat serves" serves ./leat_vb -P -a 10.97.0.2 -v
timeout 60 rping -c -a 10.97.0.2 -I 10.97.0.1 -C 20 -V >other.log 2>&1 &
other=$!
check "rping to leat" timeout 60 rping -c -a 10.97.0.2 -I 10.97.0.1 -C 20 -v -V
# rping may exit before it prints that it disconnected: its log may be empty.
check "and another at the same time" ends 0 $other other.log
check "leat read their pings" read_pings server.log 20
kill -INT "$server"
check "Ctrl-C ends it in order" ends 0 "$server" server.log '^40 pings'
check "large pings over IPv6 to leat" pair "listens_cm 7174" ./leat_vb -s -a fd97::2 -C 5 -- \
	rping -c -a fd97::2 -I fd97::1 -C 5 -S 65000 -V

echo "10.97.0.2 rping-vb" >>/etc/hosts
check "leat to rping, by its name" pair "listens_cm 7174" rping -s -a 10.97.0.2 -v -- \
	./leat_va -c -a rping-vb -C 20 -v -V
check "rping read its pings" read_pings server.log 20
check "rping serves" serves rping -s -a fd97::2 -S 65000
./leat_va -c -a fd97::2 -S 65000 -v -V >client.log 2>&1 &
client=$!
check "large pings over IPv6 from leat" wait_for 60 grep -q 'ping-5:' client.log
kill -KILL "$server"
check "rping is killed: leat says what happened" ends 1 $client client.log \
	'^rping: in ping [0-9]*: .*fd97::2'

check "leat serves" serves ./leat_vb -s -a 10.97.0.2 -C 1000000 -v
rping -c -a 10.97.0.2 -I 10.97.0.1 >client.log 2>&1 &
client=$!
check "rping pings without end" wait_for 60 grep -q 'ping-5:' server.log
disown $client # the shell shall not report its end
kill -KILL $client
check "rping is killed: leat says that pings are missing" ends 1 "$server" server.log \
	'^rping: 1000000 were to come'
