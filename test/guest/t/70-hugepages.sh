# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
#
# leat's programs run in the guest, on hugepages. Emulation is slow: a few tests, with little work.

free_pages() { sed -n 's/^HugePages_Free: *//p' /proc/meminfo; }

conform() {
	"$CONFORMANCE" --no-pci --log-level=leat.*:info "${PLUGINS[@]}" --vdev=fabric_ring0 -- \
		--mode self --filter 'ops.*' --scale 5 --slow 20 >conform.log 2>&1
}

check "pages are reserved" test "$(free_pages)" -ge 64
check "conformance of ring on them" conform || tail -n 40 conform.log | diag
check "some tests ran" grep -q '^ok [0-9]* [^#]*$' conform.log
check "memory is hugepages" eval '! grep "no free hugepages" conform.log'
check "pages are free again" test "$(free_pages)" -ge 64
