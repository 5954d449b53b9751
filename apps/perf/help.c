/* SPDX-License-Identifier: BSD-3-Clause */

/* Names of ops, tests and idle policies, and the text of --help. */

#include <string.h>

#include "perf.h"

static const char *const op_names[LEAT_OP_TYPES] = {
	[LEAT_OP_SEND] = "send",
	[LEAT_OP_TSEND] = "tagged",
	[PERF_OP_MSG] = "msg",
	[LEAT_OP_WRITE] = "write",
	[LEAT_OP_WRITE_IMM] = "write_imm",
	[LEAT_OP_READ] = "read",
	[LEAT_OP_FETCH_ADD] = "fetch_add",
	[LEAT_OP_CMP_SWAP] = "cmp_swap",
};

const char *
perf_op_name(unsigned int op)
{
	return op < LEAT_OP_TYPES && op_names[op] != NULL ? op_names[op] : "?";
}

int
perf_op_by_name(const char *name, size_t len)
{
	int op;

	for (op = 0; op < LEAT_OP_TYPES; op++) {
		if (op_names[op] != NULL && strlen(op_names[op]) == len &&
		    memcmp(op_names[op], name, len) == 0)
			return op;
	}
	return -EINVAL;
}

const char *
perf_test_name(enum perf_test test)
{
	static const char *const names[PERF_TESTS] = { "lat", "bw", "rate" };

	return test < PERF_TESTS ? names[test] : "?";
}

const char *
perf_idle_name(enum perf_idle idle)
{
	static const char *const names[PERF_IDLES] = { "auto", "spin", "pause", "yield", "block" };

	return names[idle];
}

/* clang-format off */
static const char help[] =
"Usage: leat-perf EAL... -- --listen ADDR [options]\n"
"  or:  leat-perf EAL... -- --connect ADDR [options]\n"
"  or:  leat-perf EAL... -- --self [options]\n"
"  or:  leat-perf [EAL...] --list-devices [--json]\n"
"  or:  leat-perf --list-drivers [--json] | --version | --help\n"
"\n"
"Measure latency, bandwidth and message rate of a fabric device. EAL arguments\n"
"name the device and the CPUs, such as -l 2,3 --vdev=fabric_ring0 (one process),\n"
"-l 2 --vdev=fabric_shm0 (processes of one machine), or -l 2\n"
"--vdev=fabric_ofi0,provider=tcp (any machines).\n"
"\n"
"Sides (one of these is needed):\n"
"  --listen ADDR       serve clients, one after another, on the first lcore. ADDR\n"
"                      is host:port or :port; port 0 takes a free one. fabric_shm\n"
"                      also takes shm:NAME. Clients decide what is measured\n"
"  --connect ADDR      measure against a listener, on the last lcore\n"
"  --self              both sides in this process, on two lcores, or on one if\n"
"                      there is no other\n"
"\n"
"What to measure:\n"
"  --test lat|bw|rate  lat (default): ping-pong, half of a round trip; bw:\n"
"                      streaming; rate: streaming in bursts\n"
"  --op OP[,OP...]     send (default), tagged, write, write_imm, read, fetch_add,\n"
"                      cmp_swap; all: those of them that the device offers; msg:\n"
"                      messages of leat's library, over tagged ops, which all\n"
"                      does not include (all,msg does). With read, fetch_add and\n"
"                      cmp_swap lat is the whole round trip\n"
"  --size LIST         bytes: 8 | 8,4K,1M | 1-1M (doubling). K, M, G are powers\n"
"                      of 1024. Default: 1-1M, for rate 8; atomics move 8 bytes\n"
"  -n, --iterations N  messages per size (default: depends on test and size)\n"
"  -D, --duration S    seconds per size, instead of -n\n"
"  --warmup N          messages before the clock starts (default: n/10, at most\n"
"                      1000)\n"
"  --window N          messages in flight (default: bw 64, rate 256, open loop\n"
"                      256)\n"
"  --burst N           messages per call of leat_ep_post() (default: bw 1, rate\n"
"                      32)\n"
"  --rate R            lat in an open loop: R messages/s (1K = 1000), each\n"
"                      measured from the moment when it was due, so that a stall\n"
"                      counts for every message that it delays. Times are whole\n"
"                      round trips; of one-sided ops until completion\n"
"  --check             verify every byte and every result; the times include it\n"
"  --corrupt N         spoil the Nth message of each run, to see --check find it\n"
"\n"
"How to measure:\n"
"  --dev NAME          device, such as fabric_ring0 (default: the first)\n"
"  --idle POLICY       after an empty poll: spin, pause, yield, block (sleep\n"
"                      until something comes, if the device can wake the\n"
"                      process), or auto (default): spin if each side has a CPU\n"
"                      of its own, else yield\n"
"  --timeout S         seconds to connect, and to wait for an answer of the other\n"
"                      side (default: 10)\n"
"  --once              with --listen: end after the first client\n"
"  --tags              tagged ops also on a device that has none: the library's\n"
"                      tag layer then carries every message. Both sides need\n"
"                      --tags, or neither\n"
"  --mbufs N           buffers of the mempool (default: 8192)\n"
"  --mbuf-size SIZE    bytes of each buffer (default: 4K); larger messages use\n"
"                      memory outside the mempool\n"
"  --eal-memory        take memory outside the mempool, which peers write to as\n"
"                      well, from EAL: devices can share EAL's memory\n"
"\n"
"In front of --, beside EAL's arguments:\n"
"  --settings FILE     settings that replace the program's own, as written by\n"
"                      leat-tune save\n"
"  --tune-dir DIR      directory in which leat-top and leat-tune find this\n"
"                      process (default: the user's)\n"
"  --no-tune           hide this process from leat-top and leat-tune\n"
"\n"
"Output:\n"
"  --json              print JSON on stdout, and nothing else\n"
"  --histogram FILE    write the latencies: lines of 'from_ns to_ns count', a\n"
"                      block per size\n"
"  --plot FILE.svg     draw the results as SVG: with one size of --test lat its\n"
"                      histogram, else the values over the size\n"
"  --beside FILE       draw an earlier run in the same plot: FILE is from --json or\n"
"                      from --histogram. The histogram of one size needs\n"
"                      --histogram of the same size\n"
"  --progress          print progress on stderr, also if that is not a terminal\n"
"  --list-drivers      list the drivers and their arguments\n"
"  --list-devices      list the devices that --vdev names, in detail; without it\n"
"                      list those that could be opened here, each with its --vdev\n"
"  --version           print the version\n"
"  -h, --help          print this help\n"
"\n"
"Exit: 0; 1 failed, or --check found errors; 2 wrong usage; 128 + N ended by\n"
"signal N.\n";
/* clang-format on */

void
perf_help(FILE *f)
{
	(void)fputs(help, f);
}
