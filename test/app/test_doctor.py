# SPDX-License-Identifier: BSD-3-Clause
"""leat-doctor on machines that are made of files: test_doctor.py LEAT_DOCTOR"""

import json
import os
import re
import subprocess
import tempfile

from doctor_machine import EFA, GOOD, STATUS, USER, machine
from perf_lib import DEADLINE, PERF as DOCTOR, Skipped, case, check, main

# Checks that read files below the root; libfabric and the plugins are always this machine's.
FILES = "mem,cpu,kernel,rdma,efa"
PLUGINS = os.environ.get("LEAT_TEST_PLUGINS", "").split()
LEVELS = ["ok", "info", "warning", "error"]
FIELDS = ("check", "group", "severity", "subject", "seen", "means", "mend")
CLEAN = re.compile(rb"[\x20-\x7e\n]*")


class Result:
    def __init__(self, p):
        self.code, self.out, self.err = p.returncode, p.stdout, p.stderr

    def text(self):
        return self.out.decode("latin-1") + self.err.decode("latin-1")


def doctor(*args, stdout=subprocess.PIPE):
    p = subprocess.run([DOCTOR] + list(args), stdin=subprocess.DEVNULL, stdout=stdout,
                       stderr=subprocess.PIPE, timeout=DEADLINE, check=False)
    return Result(p)


def schema(r):
    """Check the JSON of a run: its form, and what must hold of any run."""
    check(CLEAN.fullmatch(r.out), "bytes that are not printable: %r" % r.out)
    j = json.loads(r.out)
    check(j["schema"] == "leat-doctor" and j["version"] == 1, str(j))
    check(re.fullmatch(r"\d+\.\d+\.\d+", j["leat"]), j["leat"])
    rank = 0
    count = dict.fromkeys(LEVELS, 0)
    for f in j["findings"]:
        check(set(f) == set(FIELDS) and all(isinstance(v, str) for v in f.values()), str(f))
        check(f["check"].startswith(f["group"] + "."), str(f))
        check(f["seen"] and f["means"], "nothing said: " + str(f))
        check(LEVELS.index(f["severity"]) >= rank, "not sorted: " + str(f))
        rank = LEVELS.index(f["severity"])
        count[f["severity"]] += 1
    check(sum(j["summary"][s] for s in LEVELS) == len(j["findings"]) + j["summary"]["left_out"],
          str(j["summary"]))
    if j["summary"]["left_out"] == 0:
        check(all(j["summary"][s] == count[s] for s in LEVELS), str(j["summary"]))
    want = 2 if j["summary"]["error"] else 1 if j["summary"]["warning"] else 0
    check(r.code == want and j["exit"] == want, "exit %s, not %s: %s" % (r.code, want, r.text()))
    return j


def examine(files, only=FILES):
    """Return findings of a machine, by check (and subject). Each above info must name a remedy."""
    with machine(files) as root:
        j = schema(doctor("--root", root, "--json", "--only", only))
    for f in j["findings"]:
        check(f["mend"] or f["severity"] in ("ok", "info"), "no remedy: " + str(f))
    return j["findings"]


def above(findings, least="warning"):
    return [(f["check"], f["severity"], f["subject"]) for f in findings
            if LEVELS.index(f["severity"]) >= LEVELS.index(least)]


def expect(files, wanted, mend=None, only=FILES):
    """Check that these are the findings above info; mend is a pattern for the last one's remedy."""
    found = examine(files, only)
    check(above(found) == wanted, "found %s\n%s" % (above(found), json.dumps(found, indent=1)))
    if mend is not None:
        check(re.search(mend, found[-1]["mend"]), found[-1]["mend"])
    return found


def one(findings, name, subject=None):
    found = [f for f in findings if f["check"] == name and subject in (None, f["subject"])]
    check(len(found) == 1, "%s of %s: %s" % (len(found), name, findings))
    return found[0]


@case
def a_good_machine():
    found = expect(GOOD, [])
    check(above(found, "info") == [("efa.device", "info", "")], str(above(found, "info")))
    with machine(GOOD) as root:
        r = doctor("--root", root, "--only", FILES)
        check(r.code == 0 and b"0 errors, 0 warnings, 1 info" in r.out, r.text())
        check(b"\nok " not in r.out and b"--verbose" in r.out, r.text())
        r = doctor("--root", root, "--only", FILES, "-v")
        check(r.code == 0 and r.out.startswith(b"ok ") and b"mlx5_0" in r.out, r.text())


@case
def hugepages():
    pages = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
    node = "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/"
    none = {k: "0" for k in GOOD if k.endswith("_hugepages")}
    found = expect(GOOD | none, [("mem.hugepages", "warning", "")],
                   r"^f=%snr_hugepages; echo \$\(\(\$\(cat \$f\) \+ 256\)\) > \$f$" % pages)
    check(found[-1]["seen"] == "none reserved", str(found[-1]))
    expect(GOOD | {pages + "free_hugepages": "0"}, [("mem.hugepages", "warning", "")])
    found = expect(GOOD | {pages + "free_hugepages": "10"}, [])
    check(one(found, "mem.hugepages")["severity"] == "info", str(found))
    expect(GOOD | {node % 1 + "free_hugepages": "0"}, [("mem.numa", "warning", "node1")], "node1")
    no_dir = {k: v for k, v in GOOD.items() if "hugepages-" not in k}
    expect(no_dir, [("mem.hugepages", "warning", "")], "HUGETLBFS")


@case
def limits():
    def memlock(bytes_, status=STATUS):
        text = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  %s  %s  bytes\n" \
            "Max open files  65536  65536  files\n" % (bytes_, bytes_)
        return {"/proc/self/limits": text, "/proc/self/status": status}

    expect(GOOD | memlock(65536), [("mem.memlock", "error", "")], "memlock unlimited")
    expect(GOOD | memlock(100 << 20), [("mem.memlock", "warning", "")])
    expect(GOOD | memlock(1 << 30), [])
    expect(GOOD | memlock(65536, STATUS.replace("CapEff:\t0000000000000000",
                                                "CapEff:\t0000000000004000")), [])
    without = {k: v for k, v in GOOD.items() if "infiniband" not in k and "rdma_cm" not in k}
    found = expect(without | memlock(65536), [])
    check(one(found, "mem.memlock")["severity"] == "info", str(found))
    check(one(found, "rdma.devices")["severity"] == "info", str(found))
    check("netdev eth0" in one(found, "rdma.devices")["mend"], str(found))


@case
def cpus():
    sys = "/sys/devices/system/cpu/"
    expect(GOOD | {sys + "cpufreq/policy1/scaling_governor": "powersave"},
           [("cpu.governor", "warning", "")], "performance")
    expect(GOOD | {"/proc/self/status": STATUS.replace("0-7", "3")}, [("cpu.count", "warning", "")])
    expect(GOOD | {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc nonstop_tsc\n"},
           [("cpu.clock", "warning", "")])
    clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    expect(GOOD | {clock: "hpet"}, [("cpu.clock", "warning", "")], "tsc")
    found = expect(GOOD | {"/proc/cmdline": "quiet", sys + "isolated": "", sys + "smt/active": "1",
                           "/proc/sys/kernel/numa_balancing": "1"}, [])
    for name in ("cpu.isolated", "cpu.smt", "cpu.numa"):
        check(one(found, name)["severity"] == "info" and one(found, name)["mend"], str(found))


@case
def kernel():
    yama = "/proc/sys/kernel/yama/ptrace_scope"
    expect(GOOD | {yama: "1"}, [])
    expect(GOOD | {yama: "2"}, [("kernel.ptrace", "warning", "")], "ptrace_scope=1")
    expect(GOOD | {yama: "3"}, [("kernel.ptrace", "warning", "")], "reboot")
    found = expect(GOOD | {"/sys/kernel/iommu_groups/0/type": "DMA-FQ",
                           "/proc/sys/net/core/rmem_max": "4096"}, [])
    check("iommu=pt" in one(found, "kernel.iommu")["mend"], str(found))
    check(one(found, "kernel.rmem")["severity"] == "info", str(found))


@case
def uverbs_without_permission():
    nodes = ("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm")
    closed = GOOD | {nodes[0]: ("", 0o600)}
    denied = [("rdma.access", "error", "uverbs0")]
    expect(closed, denied, "chmod 0666 /dev/infiniband/uverbs0")
    expect(GOOD | {nodes[0]: ("", 0o664)}, denied)
    expect(GOOD | {nodes[0]: ("", 0o660)}, denied)
    # the user who runs this test owns the file
    expect(GOOD | {nodes[0]: ("", 0o660), "/proc/self/status":
                   STATUS.replace("Groups:\t", "Groups:\t4 %d " % os.getegid())}, [])
    expect(closed | {"/proc/self/status": STATUS.replace(str(USER), str(os.geteuid()))}, [])
    expect(closed | {"/proc/self/status": STATUS.replace("CapEff:\t0000000000000000",
                                                         "CapEff:\t0000000000000002")}, [])
    gone = {k: v for k, v in GOOD.items() if k not in nodes}
    expect(gone, denied + [("rdma.access", "error", "rdma_cm")])
    none = {k: v for k, v in GOOD.items() if "infiniband_verbs" not in k and "ib_uverbs" not in k}
    expect(none, [("rdma.modules", "error", "ib_uverbs"), ("rdma.access", "error", "")])


@case
def modules():
    gone = {k: v for k, v in GOOD.items() if "rdma_ucm" not in k and "misc/rdma_cm" not in k}
    expect(gone, [("rdma.modules", "error", "rdma_ucm")], "^modprobe rdma_ucm")
    expect({k: v for k, v in gone.items() if k != "/proc/modules"},
           [("rdma.modules", "error", "rdma_ucm")], "boot a kernel")
    gone = {k: v for k, v in GOOD.items() if "/class/infiniband" not in k and "mlx5_ib" not in k}
    expect(gone | {"/sys/bus/pci/devices/0000:03:00.0/uevent": "DRIVER=mlx5_core"},
           [("rdma.modules", "warning", "mlx5_ib")], "^modprobe mlx5_ib")
    expect({k: v for k, v in GOOD.items() if "libibverbs.d" not in k},
           [("rdma.userspace", "warning", "")], "ibverbs-providers")


PORT = "/sys/class/infiniband/mlx5_0/ports/%d/"


@case
def port_down():
    down = {PORT % 1 + "state": "1: DOWN", PORT % 1 + "phys_state": "3: Disabled"}
    expect(GOOD | down, [("rdma.ports", "error", "mlx5_0/1")], "^ip link set eth0 up")
    second = {k.replace("/ports/1/", "/ports/2/"): v for k, v in GOOD.items() if "/ports/1/" in k}
    found = expect(GOOD | second | down, [])
    check(one(found, "rdma.ports", "mlx5_0/1")["severity"] == "info", str(found))
    ib = {PORT % 1 + "state": "2: INIT", PORT % 1 + "link_layer": "InfiniBand"}
    expect(GOOD | ib, [("rdma.ports", "error", "mlx5_0/1")], "opensm")


@case
def mtu_mismatch():
    def mtu(n):
        return GOOD | {"/sys/class/net/eth0/mtu": str(n)}

    bad = [("rdma.mtu", "warning", "mlx5_0/1")]
    for n, packets in ((1500, 1024), (4191, 2048), (2144, 2048), (352, 256)):
        found = expect(mtu(n), bad, "^ip link set eth0 mtu 4200")
        check("RoCE packets %d B" % packets in found[-1]["seen"], found[-1]["seen"])
    for n in (4192, 4200, 9000, 65535):
        expect(mtu(n), [])
    expect(mtu(351), [("rdma.mtu", "error", "mlx5_0/1")])


@case
def gids():
    def only(gid, kind="RoCE v2"):
        zero = "0000:0000:0000:0000:0000:0000:0000:0000"
        files = {k: zero for k in GOOD if "/gids/" in k}
        return GOOD | files | {PORT % 1 + "gids/0": gid, PORT % 1 + "gid_attrs/types/0": kind}

    expect(only("0000:0000:0000:0000:0000:0000:0000:0000"), [("rdma.gids", "error", "mlx5_0/1")],
           "^ip address add ADDRESS/PREFIX dev eth0")
    expect(only("fe80:0000:0000:0000:0202:03ff:fe04:0506"),
           [("rdma.gids", "warning", "mlx5_0/1")], "dev eth0")
    expect(only("0000:0000:0000:0000:0000:ffff:0a61:0001", "IB/RoCE v1"),
           [("rdma.gids", "warning", "mlx5_0/1")], "cma_roce_mode")
    expect(only("2001:0db8:0000:0000:0000:0000:0000:0001"), [])
    check("index 1 first" in one(examine(GOOD), "rdma.gids")["seen"], "index")


@case
def efa_without_module():
    gone = {k: v for k, v in EFA.items() if "/module/efa" not in k}
    expect(gone, [("efa.module", "error", "")], "^modprobe efa", only="efa.device,efa.module")
    found = expect(EFA, [], only="mem.memlock,rdma,efa.device,efa.module")
    check(one(found, "efa.module")["seen"] == "loaded, 2.8.0", str(found))
    check(one(found, "efa.device")["seen"] == "PCI id 1d0f:efa2", str(found))
    # EFA needs no rdma_cm
    check("rdma_cm" not in [f["subject"] for f in found], str(found))
    unbound = {k: v for k, v in EFA.items() if "/pci/" not in k or "/infiniband/" not in k}
    expect(unbound, [("efa.device", "error", "0000:00:06.0")], only="efa.device")


@case
def efa_without_provider():
    if doctor("--only", "efa.provider", "-v").out.find(b"offers RDM endpoints") >= 0:
        raise Skipped("this machine has EFA")
    found = expect(EFA, [("efa.provider", "error", "")], only="efa")
    check("fabric_efa0 does not open" in found[-1]["means"] or "libfabric" in found[-1]["seen"],
          str(found[-1]))


def mutants():
    noise = bytes(range(1, 256)) * 4
    return {"empty": b"", "huge": b"9" * (1 << 20), "noise": noise, "zeros": b"\0" * 100,
            "escape": b"4: \x1b[2J\x1b]0;x\x07\r\n", "negative": b"-1", "wide": b"9" * 40,
            "most": b"18446744073709551615", "hex": b"0xffffffffffffffff",
            "words": b"a b c d e f\n" * 1000, "lists": b"0-4294967295,5-1,9-",
            "quotes": b"\"';$(x)\\"}


def survives(files, what, text=True):
    with machine(files) as root:
        try:
            r = doctor("--root", root, "--json", "--only", FILES)
            schema(r)
            if text:
                r = doctor("--root", root, "-v", "--only", FILES)
        except subprocess.TimeoutExpired:
            check(False, "hangs: " + what)
    check(r.code in (0, 1, 2) and CLEAN.fullmatch(r.out) and not r.err, what + "\n" + r.text())


@case
def broken_files_all_at_once():
    both = EFA | GOOD
    for name, data in mutants().items():
        survives(dict.fromkeys(both, data), name)
    # things that are not files: directories, pipes, links to themselves
    for kind in ("dir", "fifo", "loop"):
        survives({k: (kind, None) for k in both}, kind)
    survives({}, "nothing")


@case
def broken_files_one_by_one():
    for path in GOOD:
        survives(GOOD | {path: mutants()["noise"]}, path, text=False)


@case
def names_are_no_commands():
    evil = ["a;reboot", "$(reboot)", "-rf", "x y", "\x1b[31m", "'", "`x`", "..", "x" * 60, "\xff"]
    for name in evil:
        files = GOOD | {PORT % 1 + "gid_attrs/ndevs/0": name, PORT % 1 + "state": "1: DOWN"}
        if name != "..":
            files |= {"/sys/class/infiniband_verbs/uverbs%s/dev" % name: "1:1",
                      "/sys/class/infiniband/%s/ports/1/state" % name: "4: ACTIVE",
                      "/sys/devices/system/node/node%s/x" % name: ""}
        with machine(files) as root:
            for f in schema(doctor("--root", root, "--json", "--only", FILES))["findings"]:
                ours = re.sub(r"\$\(\(\$\(cat \$f\) \+ \d+\)\)", "", f["mend"])
                check("reboot" not in ours.replace("update-grub && reboot", "") and
                      "\\x" not in ours and "`" not in ours and "set .." not in ours, str(f))


@case
def more_findings_than_fit():
    files = GOOD.copy()
    for i in range(600):
        files["/sys/class/infiniband_verbs/uverbs%d/dev" % (i + 1)] = "1:1"
    with machine(files) as root:
        r = doctor("--root", root, "--json", "--only", "rdma.access")
        j = schema(r)
        check(j["summary"]["left_out"] == 602 - 512 and len(j["findings"]) == 512, r.text()[-500:])
        check(j["summary"]["error"] == 600 and r.code == 2, r.text()[-500:])


@case
def only_and_list():
    checks = json.loads(doctor("--list", "--json").out)
    ids = [c["check"] for c in checks]
    check(len(ids) == len(set(ids)) and all(c["about"] for c in checks), str(checks))
    text = doctor("--list")
    check(text.code == 0 and all(i.encode() in text.out for i in ids), text.text())
    with machine(GOOD) as root:
        for i in ids:
            r = doctor("--root", root, "--json", "--only", i, *PLUGINS)
            check({f["check"] for f in schema(r)["findings"]} == {i}, r.text())
        r = doctor("--root", root, "--json", "--only", "cpu,mem.thp")
        found = {f["group"] for f in schema(r)["findings"]}
        check(found == {"cpu", "mem"}, str(found))


@case
def wrong_usage():
    with tempfile.NamedTemporaryFile() as file:
        for pattern, args in (("unknown option '--nope'", ["--nope"]),
                              ("unknown option '-x'", ["-x"]),
                              ("unexpected argument 'stray'", ["stray"]),
                              ("'--only' needs a value", ["--only"]),
                              ("'--json=1' takes no value", ["--json=1"]),
                              ("'nope' is no check", ["--only", "mem,nope"]),
                              ("'' is no check", ["--only", ""]),
                              ("--root /no/such: No such file", ["--root", "/no/such"]),
                              (r"'\\x1b\[2J' is no check", ["--only", "\x1b[2J"]),
                              ("no directory", ["--root", file.name])):
            r = doctor(*args)
            check(r.code == 3 and r.out == b"", "%s: %s %s" % (args, r.code, r.text()))
            check(re.search("^leat-doctor: .*" + pattern, r.text()), r.text())


@case
def a_full_disk():
    for args in (["--json"], [], ["--list"], ["--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            r = doctor("--only", "cpu", *args, stdout=full)
        check(r.code == 4 and b"can't write" in r.err, "%s: %s" % (args, r.code))


@case
def help_and_version():
    for arg in ("--help", "-h"):
        r = doctor(arg)
        check(r.code == 0 and r.out.startswith(b"Usage: leat-doctor"), r.text())
        for opt in (b"--only", b"--list", b"--verbose", b"-v", b"--json", b"--root", b"--driver",
                    b"-d", b"--version", b"--help", b"-h", b"Exit: 0", b"3 wrong usage"):
            check(opt in r.out, "--help is silent about %s" % opt)
        check(all(len(line) <= 100 for line in r.out.split(b"\n")), "a long line")
    r = doctor("--version")
    check(r.code == 0 and re.fullmatch(rb"leat-doctor \d+\.\d+\.\d+\n", r.out), r.text())


@case
def this_machine():
    j = schema(doctor("--json", *PLUGINS))
    groups = {f["group"] for f in j["findings"]}
    check(groups == {"mem", "cpu", "kernel", "rdma", "efa", "fabric", "leat"}, str(groups))
    if PLUGINS:
        drivers = [f for f in j["findings"] if f["check"] == "leat.drivers"]
        check(any("fabric_ring" in f["seen"] for f in drivers), str(drivers))
    with tempfile.TemporaryDirectory() as where:
        with open(os.path.join(where, "libleat_driver_broken.so"), "w", encoding="utf-8") as f:
            f.write("no library\n")
        broken = [f for f in schema(doctor("--json", "--only", "leat.drivers", "-d", where,
                                           *PLUGINS))["findings"]
                  if f["subject"] == "libleat_driver_broken.so"]
        check(len(broken) == 1 and where in broken[0]["seen"] and
              (not PLUGINS or broken[0]["severity"] == "warning"), str(broken))
    nope = schema(doctor("--json", "--only", "leat.drivers", "-d", "/no/libleat_driver_x.so"))
    check(nope["exit"] == 2 and "/no/libleat_driver_x.so" in nope["findings"][0]["seen"], str(nope))
    # "/" is this machine
    check(schema(doctor("--json", "--root", "/", *PLUGINS))["exit"] == j["exit"], "--root /")


if __name__ == "__main__":
    main()
