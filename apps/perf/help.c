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
"       leat-perf EAL... -- --connect ADDR [options]\n"
"       leat-perf EAL... -- --self [options]\n"
"       leat-perf [EAL...] --list-devices [--json]\n"
"       leat-perf --list-drivers [--json] | --version | --help\n"
"\n"
"Measures latency, bandwidth and message rate of a fabric device. EAL arguments name the device and\n"
"the CPUs, for example -l 2,3 --vdev=fabric_ring0, -l 2 --vdev=fabric_shm0 (processes of one machine)\n"
"or -l 2 --vdev=fabric_ofi0,provider=tcp.\n"
"\n"
"Sides (one of them)\n"
"  --listen ADDR      serve clients, one after another; ADDR is host:port or :port, port 0 takes a\n"
"                     free one. The client decides everything; runs on the first lcore\n"
"  --connect ADDR     measure against a listener; runs on the last lcore\n"
"  --self             both sides here, on two lcores, or on one if there is one only\n"
"\n"
"What to measure\n"
"  --test lat|bw|rate lat: ping-pong, half of a round trip (default); bw: streaming;\n"
"                     rate: streaming in bursts\n"
"  --op OP[,OP]       send (default), tagged, write, write_imm, read, fetch_add, cmp_swap;\n"
"                     all: those of them that the device offers. msg: messages of leat's\n"
"                     library, over tagged ops; all,msg takes them as well. Of read,\n"
"                     fetch_add and cmp_swap lat is the whole round trip\n"
"  --size LIST        bytes: 8 | 8,4K,1M | 1-1M (doubling). K, M, G are powers of 1024. Default:\n"
"                     1-1M, for rate 8; atomics move 8 bytes\n"
"  -n, --iterations N messages per size (default: depends on test and size)\n"
"  -D, --duration S   seconds per size, instead of -n\n"
"  --warmup N         messages before the clock starts (default: n/10, at most 1000)\n"
"  --window N         messages in flight (bw 64, rate 256, open loop 256)\n"
"  --burst N          messages per call of leat_ep_post() (bw 1, rate 32)\n"
"  --rate R           lat in an open loop: R messages/s (1K = 1000), each measured from the moment at\n"
"                     which it was due, so that a stall counts for all that it delays. Round trip; of\n"
"                     one-sided ops the time to completion\n"
"  --check            verify every byte and every result; the times include it\n"
"  --corrupt N        spoil the Nth message of each run, to see --check find it\n"
"\n"
"How\n"
"  --dev NAME         device, such as fabric_ring0 (default: the first)\n"
"  --idle POLICY      after an empty poll: spin, pause, yield, block (sleep until something comes; where the\n"
"                     device can wake), or auto (default): spin if each side has a CPU of its own, yield\n"
"                     otherwise\n"
"  --timeout S        for connecting, and for the other side to answer (default 10)\n"
"  --once             --listen: end after the first client\n"
"  --tags             tagged ops also of a device that has none: the library's layer then carries every\n"
"                     message. On both sides, or on neither\n"
"  --mbufs N          buffers of the mempool (default 8192)\n"
"  --mbuf-size SIZE   of each; larger messages take memory of their own (default 4K)\n"
"  --eal-memory       that memory, and what peers write to, is EAL's, which devices can share\n"
"\n"
"In front of --, beside EAL's arguments\n"
"  --settings FILE    settings that replace the program's, as leat-tune save writes them\n"
"  --tune-dir DIR     where leat-top and leat-tune find this process (default: the user's)\n"
"  --no-tune          they don't find it\n"
"\n"
"Output\n"
"  --json             JSON on stdout, and nothing else\n"
"  --histogram FILE   of the latencies: lines of 'from_ns to_ns count', a block per size\n"
"  --progress         on stderr, also if that is no terminal\n"
"  --list-drivers     drivers and their arguments\n"
"  --list-devices     the devices named by --vdev in detail; without --vdev those that could be\n"
"                     opened here, each with its --vdev\n"
"  --version, -h, --help\n"
"\n"
"Exit: 0; 1 failed, or --check found errors; 2 wrong usage; 128 + N ended by signal N.\n";
/* clang-format on */

void
perf_help(FILE *f)
{
	(void)fputs(help, f);
}
