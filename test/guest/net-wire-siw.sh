# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/net-lib.sh
#
# Two soft-iWARP devices on the two ends of a veth pair.
. "$GUEST_DIR/net-lib.sh"
net_modules
net_pair && net_device s_va siw va && net_device s_vb siw vb
