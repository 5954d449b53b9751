# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions that make the networks; sourced by net-*.sh in the guest.

net_modules() {
	local module
	for module in virtio_net veth sch_netem rdma_rxe siw ib_uverbs rdma_ucm; do
		modprobe "$module" 2>/dev/null || true
	done
}

# net_device NAME TYPE NETDEV: make an RDMA device, and wait until it is active and has the
# GIDs of NETDEV's addresses
net_device() {
	local name=$1 type=$2 netdev=$3 want i
	if ! rdma link add "$name" type "$type" netdev "$netdev"; then
		echo "guest: no device $name of type $type" >&2
		return 1
	fi
	want=$(ip -o addr show dev "$netdev" scope global | wc -l)
	# iWARP has one GID, of the hardware address.
	[ "$type" = rxe ] || want=0
	for ((i = 0; i < 100; i++)); do
		[ "$(net_state "$name")" != ACTIVE ] || [ "$(net_gids "$name")" -le "$want" ] ||
			return 0
		sleep 0.05
	done
	echo "guest: $name is $(net_state "$name") with $(net_gids "$name") GIDs" >&2
	return 1
}

net_state() {
	sed 's/.*: //' "/sys/class/infiniband/$1/ports/1/state"
}

net_gids() {
	grep -L '^0000:0000:0000:0000:0000:0000:0000:0000$' \
		"/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null | wc -l
}

# Make a veth pair with both ends in this machine, on which packets from one end to the other still
# cross the pair, so that programs on both sides need no namespace:
#
#     va 10.97.0.1 fd97::1  <------------------->  vb 10.97.0.2 fd97::2
#
# Linux delivers packets to an address of its own without a wire, since the rule "lookup local"
# comes first. Here that rule comes first only for packets that arrive on the wire; packets to vb's
# address have a route out of va, and the other way round. A socket that shall send from va's
# address binds it.
net_pair() {
	local dev conf n
	ip link add va type veth peer name vb || return 1
	for dev in all default va vb; do
		conf=/proc/sys/net/ipv4/conf/$dev
		echo 0 >"$conf/rp_filter"
		echo 1 >"$conf/accept_local"
		echo 1 >"$conf/arp_ignore"
		echo 2 >"$conf/arp_announce"
	done
	for dev in va vb; do
		# Do not wait for duplicate address detection.
		echo 0 >/proc/sys/net/ipv6/conf/$dev/accept_dad
		echo 0 >/proc/sys/net/ipv6/conf/$dev/accept_ra
		ip link set $dev mtu 4200 up || return 1
	done
	for n in 1 2; do
		dev=va
		[ $n = 1 ] || dev=vb
		ip addr add 10.97.0.$n/32 dev $dev || return 1
		ip addr add fd97::$n/128 dev $dev nodad || return 1
		ip rule add pref $((20 + n)) to 10.97.0.$n lookup $((100 + n)) || return 1
		ip -6 rule add pref $((20 + n)) to fd97::$n lookup $((100 + n)) || return 1
	done
	for dev in va vb; do
		ip rule add pref 10 iif $dev lookup local || return 1
		ip -6 rule add pref 10 iif $dev lookup local || return 1
	done
	net_pair_routes || return 1
	ip rule add pref 100 lookup local && ip rule del pref 0 || return 1
	ip -6 rule add pref 100 lookup local && ip -6 rule del pref 0
}

# The kernel removes these routes when a link goes down: guest-link restores them.
net_pair_routes() {
	ip route replace 10.97.0.2 dev va src 10.97.0.1 table 102 &&
		ip route replace 10.97.0.1 dev vb src 10.97.0.2 table 101 &&
		ip -6 route replace fd97::2 dev va src fd97::1 table 102 &&
		ip -6 route replace fd97::1 dev vb src fd97::2 table 101
}

# net_devices NETDEV: the RDMA devices on it
net_devices() {
	rdma link show | sed -n "s#^link \([^/]*\)/1 .* netdev $1 *\$#\1#p"
}
