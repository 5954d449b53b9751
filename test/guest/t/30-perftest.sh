# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source=test/guest/lib.sh
#
# perftest between the devices, by addresses of both kinds.

check "ib_send_lat, IPv4 GIDs" perftest ib_send_lat -x 1 -n 200
diag "$(awk '$1 == 2 { print "median", $5, "us"; exit }' check.log)"
check "ib_send_lat, IPv6 GIDs" perftest ib_send_lat -x 2 -n 200
check "ib_write_bw" perftest ib_write_bw -x 1 -n 200 -s 4096
