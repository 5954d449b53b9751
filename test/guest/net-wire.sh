# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/net-lib.sh
#
# Two soft-RoCE devices and two of soft-iWARP on the two ends of one veth pair.
. "$GUEST_DIR/net-lib.sh"
net_modules
net_pair && net_device x_va rxe va && net_device x_vb rxe vb &&
	net_device s_va siw va && net_device s_vb siw vb
