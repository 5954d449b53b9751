# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
#
# The devices exist, their ports are active, their GIDs have the indices that the guide gives.

active() { ibv_devinfo -d "$1" | tee /dev/stderr | grep -q 'PORT_ACTIVE'; }
gid() { grep -qx "$3" "/sys/class/infiniband/$1/ports/1/gids/$2"; }

for device in x_va x_vb s_va s_vb; do
	check "$device is active" active "$device"
done
check "x_va's GID 1 is its IPv4 address" gid x_va 1 0000:0000:0000:0000:0000:ffff:0a61:0001
check "x_vb's GID 1 is its IPv4 address" gid x_vb 1 0000:0000:0000:0000:0000:ffff:0a61:0002
check "x_va's GID 2 is its IPv6 address" gid x_va 2 fd97:0000:0000:0000:0000:0000:0000:0001
check "x_vb's GID 2 is its IPv6 address" gid x_vb 2 fd97:0000:0000:0000:0000:0000:0000:0002
