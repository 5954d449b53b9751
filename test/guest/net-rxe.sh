# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/net-lib.sh
#
# One device, rxe0 on eth0, that is connected to itself: no packet crosses a wire.
. "$GUEST_DIR/net-lib.sh"
net_modules
ip link set eth0 up && ip addr add 10.99.0.1/24 dev eth0 && net_device rxe0 rxe eth0
