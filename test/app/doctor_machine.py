# SPDX-License-Identifier: BSD-3-Clause
"""Build file trees that look like machines, for leat-doctor's --root."""

import contextlib
import os
import shutil
import tempfile

USER = 54321
STATUS = """Name:	leat-doctor
Uid:	%d	%d	%d	%d
Gid:	%d	%d	%d	%d
Groups:	%d
CapEff:	0000000000000000
Cpus_allowed_list:	0-7
""" % ((USER,) * 9)
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            65536                65536                files
Max locked memory         unlimited            unlimited            bytes
"""
IB = "/sys/class/infiniband/mlx5_0/"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
DIR = ("dir", None)

BASE = {
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "1024\n",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "1024\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/devices/system/node/online": "0-1\n",
    "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages": "512\n",
    "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages": "512\n",
    "/sys/devices/system/cpu/online": "0-7\n",
    "/sys/devices/system/cpu/isolated": "2-7\n",
    "/sys/devices/system/cpu/smt/active": "0\n",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n",
    "/proc/cmdline": "ro isolcpus=2-7 nohz_full=2-7 rcu_nocbs=2-7 iommu=pt\n",
    "/proc/mounts": "sysfs /sys sysfs rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n",
    "/proc/modules": "ib_uverbs 172032 2 - Live 0x0\n",
    "/proc/self/limits": LIMITS,
    "/proc/self/status": STATUS,
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/proc/sys/kernel/yama/ptrace_scope": "0\n",
    "/proc/sys/net/core/rmem_max": "4194304\n",
    "/sys/kernel/iommu_groups/0/type": "identity\n",
    "/sys/module/ib_uverbs": DIR,
    "/sys/class/infiniband_verbs/abi_version": "6\n",
    "/sys/class/infiniband_verbs/uverbs0/dev": "231:192\n",
    "/sys/class/net/eth0/operstate": "up\n",
    "/sys/class/net/eth0/mtu": "4200\n",
    "/dev/infiniband/uverbs0": ("", 0o666),
    "/dev/shm": DIR,
    "/etc/libibverbs.d/mlx5.driver": "driver mlx5\n",
    "/etc/libibverbs.d/efa.driver": "driver efa\n",
}

# RoCE.
GOOD = BASE | {
    "/sys/module/rdma_ucm": DIR,
    "/sys/module/mlx5_ib": DIR,
    "/sys/class/misc/rdma_cm/dev": "10:124\n",
    "/dev/infiniband/rdma_cm": ("", 0o666),
    IB + "node_type": "1: CA\n",
    IB + "node_desc": "good mlx5_0\n",
    IB + "fw_ver": "16.35.2000\n",
    IB + "device/uevent": "DRIVER=mlx5_core\nPCI_CLASS=20000\n",
    IB + "device/numa_node": "1\n",
    IB + "ports/1/state": "4: ACTIVE\n",
    IB + "ports/1/phys_state": "5: LinkUp\n",
    IB + "ports/1/rate": "100 Gb/sec (4X EDR)\n",
    IB + "ports/1/link_layer": "Ethernet\n",
    IB + "ports/1/gids/0": "fe80:0000:0000:0000:0202:03ff:fe04:0506\n",
    IB + "ports/1/gids/1": "0000:0000:0000:0000:0000:ffff:0a61:0001\n",
    IB + "ports/1/gids/2": ZERO + "\n",
    IB + "ports/1/gid_attrs/types/0": "RoCE v2\n",
    IB + "ports/1/gid_attrs/types/1": "RoCE v2\n",
    IB + "ports/1/gid_attrs/ndevs/0": "eth0\n",
}

# An EC2 instance.
EFA_IB = "/sys/class/infiniband/rdmap0s6/"
EFA_PCI = "/sys/bus/pci/devices/0000:00:06.0/"
EFA = BASE | {
    "/sys/module/efa/version": "2.8.0\n",
    EFA_PCI + "vendor": "0x1d0f\n",
    EFA_PCI + "device": "0xefa2\n",
    EFA_PCI + "uevent": "DRIVER=efa\n",
    EFA_PCI + "infiniband/rdmap0s6/node_type": "0: <unknown>\n",
    EFA_IB + "node_type": "0: <unknown>\n",
    EFA_IB + "device/uevent": "DRIVER=efa\n",
    EFA_IB + "ports/1/state": "4: ACTIVE\n",
    EFA_IB + "ports/1/phys_state": "5: LinkUp\n",
    EFA_IB + "ports/1/rate": "100 Gb/sec (4X EDR)\n",
    EFA_IB + "ports/1/link_layer": "Unspecified\n",
    EFA_IB + "ports/1/gids/0": "fe80:0000:0000:0000:0202:03ff:fe04:0506\n",
}


def make(path, content):
    """content: text, bytes, (text, mode), or ("dir" | "fifo" | "loop", None)"""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = 0o644
    if isinstance(content, tuple):
        content, mode = content
        if mode is None:
            {"dir": lambda: os.makedirs(path, exist_ok=True), "fifo": lambda: os.mkfifo(path),
             "loop": lambda: os.symlink(os.path.basename(path), path)}[content]()
            return
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode("latin-1"))
    os.chmod(path, mode)


@contextlib.contextmanager
def machine(files):
    root = tempfile.mkdtemp(prefix="leat-doctor-")
    try:
        for path, content in files.items():
            # names are bytes, whatever the locale
            make(os.fsdecode((root + path).encode("latin-1")), content)
        yield root
    finally:
        shutil.rmtree(root)
