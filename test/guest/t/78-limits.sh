# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 source=test/guest/lib.sh
#
# Exceeding a limit of a device or of the system gives an error that names the limit and what to do.

example=$BUILD/doc/examples/example-rping
if [ ! -e "$DRIVER" ] || [ ! -x "$example" ]; then
	skip "limits" "the verbs driver or the example is not built"
	return
fi

# serve ARGUMENTS-OF-THE-DEVICE: wait for a client; here it must fail with a reason
serve() {
	"$example" --no-pci -d "$DRIVER" "--vdev=fabric_verbs0,dev=x_vb$1" -- -s -a 10.97.0.2 \
		>limits.log 2>&1
	[ $? = 1 ]
}
says() { grep "$1" limits.log || { cat limits.log && false; }; }

check "depth beyond the device's" serve ,tx=100000000
check "the depth, the limit and the key are named" says "tx=100000000.* [0-9]"

# Root may lock any amount of memory, unless it loses CAP_IPC_LOCK.
check "no memory to lock" prlimit --memlock=65536 setpriv --bounding-set -ipc_lock \
	--inh-caps -ipc_lock \
	bash -c "DRIVER=$DRIVER example=$example; $(declare -f serve); serve ''"
check "the limit of locked memory is named, and what raises it" says "register.* 64 KiB (ulimit -l)"
