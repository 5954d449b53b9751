/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of CPUs: number, isolation, frequency, hardware threads, clock, NUMA. */

#include <string.h>

#include "doctor.h"

#define CPU "/sys/devices/system/cpu"

static void
count(struct dr *d)
{
	char status[8192], allowed[256], online[256];
	struct dr_finding *f;
	unsigned int n, m;

	if (dr_read(d, status, sizeof(status), "/proc/self/status") < 0 ||
	    !dr_field(status, "Cpus_allowed_list", allowed, sizeof(allowed)) ||
	    (n = dr_list_count(allowed)) == 0) {
		dr_report_unknown(d, "", "CPUs of this process", "/proc/self/status");
		return;
	}
	if (dr_read(d, online, sizeof(online), CPU "/online") > 0 &&
	    (m = dr_list_count(online)) > 0)
		f = dr_found(d, n < 2 ? DR_WARNING : DR_OK, "", "%u of %u CPUs (%s)", n, m,
			     allowed);
	else
		f = dr_found(d, n < 2 ? DR_WARNING : DR_OK, "", "%u CPUs (%s)", n, allowed);
	if (n >= 2) {
		dr_means(f, "up to %u loops can spin; with more the idle policy must be yield", n);
		return;
	}
	dr_means(f,
		 "two loops that spin on one CPU are a thousand times slower: idle policy yield");
	dr_mend(f, "taskset -pc 0-1 $$   # or give the container, or the machine, more CPUs");
}

static void
isolated(struct dr *d)
{
	char list[256] = "", nohz[256] = "", rcu[256] = "", online[256], cpus[32] = "1";
	bool n = dr_boot_option(d, "nohz_full", nohz, sizeof(nohz));
	bool r = dr_boot_option(d, "rcu_nocbs", rcu, sizeof(rcu));
	struct dr_finding *f;

	if (dr_read(d, list, sizeof(list), CPU "/isolated") <= 0 &&
	    !dr_boot_option(d, "isolcpus", list, sizeof(list)))
		list[0] = '\0';
	f = dr_found(d, list[0] != '\0' && n && r ? DR_OK : DR_INFO, "",
		     "isolcpus %s, nohz_full %s, rcu_nocbs %s", list[0] != '\0' ? list : "none",
		     n ? nohz : "none", r ? rcu : "none");
	if (f->severity == DR_OK) {
		dr_means(f, "loops on these CPUs are left alone by scheduler, tick and RCU");
		return;
	}
	dr_means(f, "scheduler, timer tick or RCU interrupt the loops: seen in the latency's tail");
	if (dr_read(d, online, sizeof(online), CPU "/online") > 0 && dr_list_count(online) > 2)
		snprintf(cpus, sizeof(cpus), "1-%u", dr_list_count(online) - 1);
	dr_mend(f, DR_BOOT_MEND("isolcpus=%s nohz_full=%s rcu_nocbs=%s"), cpus, cpus, cpus);
}

static void
governor(struct dr *d)
{
	unsigned int i, nb = 0, save = 0, other = 0;
	char g[64], worst[64] = "";
	struct dr_names policies;
	struct dr_finding *f;

	(void)dr_list(d, &policies, CPU "/cpufreq");
	for (i = 0; i < policies.nb; i++) {
		if (strncmp(policies.name[i], "policy", 6) != 0 ||
		    dr_read(d, g, sizeof(g), CPU "/cpufreq/%s/scaling_governor",
			    policies.name[i]) <= 0)
			continue;
		nb++;
		if (strcmp(g, "performance") == 0)
			continue;
		if (strcmp(g, "powersave") == 0)
			save++;
		else
			other++;
		if (save <= 1 || worst[0] == '\0')
			snprintf(worst, sizeof(worst), "%s", g);
	}
	if (nb == 0) {
		f = dr_found(d, DR_OK, "", "no frequency scaling to be seen");
		dr_means(f, "the frequency is fixed, or a hypervisor's business");
	} else if (save + other == 0) {
		f = dr_found(d, DR_OK, "", "performance, of all %u policies", nb);
		dr_means(f, "full speed");
	} else {
		f = dr_found(d, save > 0 ? DR_WARNING : DR_INFO, "", "%s, of %u of %u policies",
			     worst, save + other, nb);
		dr_means(f, "CPUs run slower, and change their speed while leat measures");
		dr_mend(f, "cpupower frequency-set -g performance");
	}
}

static void
smt(struct dr *d)
{
	char text[64];
	struct dr_finding *f;

	if (dr_read(d, text, sizeof(text), CPU "/smt/active") <= 0) {
		f = dr_found(d, DR_OK, "", "no SMT to be seen");
		dr_means(f, "no loop shares its core");
	} else if (strcmp(text, "0") == 0) {
		f = dr_found(d, DR_OK, "", "off");
		dr_means(f, "no loop shares its core");
	} else if (strcmp(text, "1") == 0) {
		f = dr_found(d, DR_INFO, "", "on");
		dr_means(f, "two loops on one core's threads slow each other: leave siblings idle");
		dr_mend(f, "echo off > " CPU "/smt/control");
	} else {
		dr_report_unknown(d, "", "SMT", CPU "/smt/active");
	}
}

static void
clocksource(struct dr *d)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char text[64], *info, flags[8192];
	bool constant = false, nonstop = false, known;
	struct dr_finding *f;
	static char cpuinfo[32768];

	info = cpuinfo;
	known = dr_read(d, info, sizeof(cpuinfo), "/proc/cpuinfo") > 0 &&
		dr_field(info, "flags", flags, sizeof(flags));
	if (known) {
		constant = dr_word(flags, "constant_tsc");
		nonstop = dr_word(flags, "nonstop_tsc");
	}
	if (dr_read(d, text, sizeof(text), "%s", path) <= 0) {
		dr_report_unknown(d, "", "clock source", path);
		return;
	}
	if (known && (!constant || !nonstop)) {
		f = dr_found(d, DR_WARNING, "", "%s; the CPU has no %s", text,
			     constant ? "nonstop_tsc" : "constant_tsc");
		dr_means(f, "leat's clock is the TSC: times are wrong when the frequency changes");
		dr_mend(f, "have the hypervisor show an invariant TSC (qemu: -cpu host,+invtsc)");
		return;
	}
	if (strcmp(text, "tsc") == 0 || strcmp(text, "arch_sys_counter") == 0 ||
	    strcmp(text, "kvm-clock") == 0 || strcmp(text, "timebase") == 0 ||
	    strstr(text, "hyperv") != NULL) {
		f = dr_found(d, DR_OK, "", "%s%s", text,
			     known ? ", constant_tsc, nonstop_tsc" : "");
		dr_means(f, "leat's clock runs evenly");
		return;
	}
	f = dr_found(d, DR_WARNING, "", "%s", text);
	dr_means(f, "the kernel may have found the TSC, which is leat's clock, unsteady");
	dr_mend(f, "dmesg | grep -i tsc; echo tsc > %s", path);
}

static void
numa(struct dr *d)
{
	char online[256];
	unsigned int nodes;
	struct dr_finding *f;
	uint64_t balancing;

	if (dr_read(d, online, sizeof(online), "/sys/devices/system/node/online") <= 0 ||
	    (nodes = dr_list_count(online)) == 0) {
		f = dr_found(d, DR_OK, "", "no NUMA nodes to be seen");
		dr_means(f, "all memory is equally near");
	} else if (nodes == 1) {
		f = dr_found(d, DR_OK, "", "one node");
		dr_means(f, "all memory is equally near");
	} else if (dr_read_u64(d, &balancing, "/proc/sys/kernel/numa_balancing") &&
		   balancing != 0) {
		f = dr_found(d, DR_INFO, "", "%u nodes (%s), with automatic balancing", nodes,
			     online);
		dr_means(f,
			 "the kernel unmaps pages to see who uses them: loops stall on the faults");
		dr_mend(f, "sysctl -w kernel.numa_balancing=0");
	} else {
		f = dr_found(d, DR_OK, "", "%u nodes (%s), no balancing", nodes, online);
		dr_means(f, "run loops on the node of their device (rdma.devices shows it)");
	}
}

const struct dr_check dr_cpu_checks[] = {
	{ "cpu.count", "CPUs that this process may use, one per loop", count },
	{ "cpu.isolated", "isolcpus, nohz_full, rcu_nocbs", isolated },
	{ "cpu.governor", "frequency governor", governor },
	{ "cpu.smt", "hardware threads", smt },
	{ "cpu.clock", "TSC and clock source", clocksource },
	{ "cpu.numa", "NUMA nodes and automatic balancing", numa },
	{ NULL, NULL, NULL },
};
