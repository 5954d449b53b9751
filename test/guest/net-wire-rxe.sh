# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/net-lib.sh
#
# Two soft-RoCE devices on the two ends of a veth pair.
. "$GUEST_DIR/net-lib.sh"
net_modules
net_pair && net_device x_va rxe va && net_device x_vb rxe vb
