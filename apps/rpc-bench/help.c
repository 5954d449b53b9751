/* SPDX-License-Identifier: BSD-3-Clause */

/* Names and what --help says. */

#include "../common/ranks.h"
#include "op.h"

const char *
rb_kind_name(enum rb_kind kind)
{
	return kind < RB_KINDS ? rb_ops[kind]->name : "?";
}

const char *
rb_type_name(enum leat_ep_type type)
{
	return type == LEAT_EP_DATAGRAM ? "datagram" : "reliable";
}

/* clang-format off */
static const char help[] =
"Usage: leat-rpc-bench EAL... -- --self [options]\n"
"       leat-rpc-bench EAL... -- --listen ADDR [options]\n"
"       leat-rpc-bench EAL... -- --connect ADDR [options]\n"
"       leat-rpc-bench EAL... -- --launched [options]\n"
"       leat-rpc-bench EAL... -- --ranks-dir DIR|--ranks-list LIST [options]\n"
"       leat-rpc-bench [EAL...] --list-devices [--json]\n"
"       leat-rpc-bench --list-drivers [--json] | --version | --help\n"
"\n"
"Measures remote calls between lcores: each has a session with each other one and runs tasks, which send\n"
"batches of requests to lcores chosen at random. EAL arguments name the device and the CPUs, for example\n"
"-l 2,3 --vdev=fabric_ring0, --vdev=fabric_shm0 (processes of one machine) or\n"
"--vdev=fabric_ofi0,provider=tcp.\n"
"\n"
"Who (one of them)\n"
"  --self             the lcores of this process, each with each other; two at least\n"
"  --listen ADDR      serve the lcores of clients, one client after another; ADDR is host:port or :port,\n"
"                     port 0 takes a free one. The client decides everything\n"
"  --connect ADDR     call the lcores of a listener from all lcores of this process\n"
"  --both             --connect: the listener's lcores call, too\n"
"  --launched         the lcores of the processes that mpirun, prterun or srun --mpi=pmix has started, each\n"
"                     with each other\n"
"  --ranks-dir, --ranks-list\n"
"                     the same without PMIx, see below\n"
"\n"
"What to run\n"
"  --tasks N          tasks of each calling lcore, 1 to 1024 (default 16)\n"
"  --batch N          requests of a batch, 1 to 256 (default 3); a task sleeps until all its responses are in\n"
"  --size SIZES       bytes of a request: 32 (default) | 8,4K one of these | 8-4K any between. Up to 16M;\n"
"                     K and M are powers of 1024\n"
"  --resp-size SIZES  of a response (default 32)\n"
"  --oneway[=PERCENT] so many of a hundred batches (100 if not said) are of one-way requests\n"
"  --long SIZES[:PERCENT]\n"
"                     so many of a hundred batches (1 if not said) are of requests and responses of these\n"
"                     sizes, with a row of their own\n"
"  --bulk SIZES[:PERCENT]\n"
"                     so many of a hundred batches (1 if not said) are of requests that describe memory of these\n"
"                     sizes, which the other side pulls from and pushes to, by READ and WRITE where it can\n"
"  -n, --calls N      calls of all lcores together, after the warm-up\n"
"  -D, --seconds S    instead of -n, by each lcore's clock (default 3)\n"
"  --warmup N         calls of each lcore before the clock starts (default 1000)\n"
"  --rate R           open loop: R calls/s of all lcores together (1K = 1000), each batch measured from the\n"
"                     moment at which it was due, so that a stall counts for all that it delays\n"
"  --deadline US      of each call, microseconds; calls that pass it are counted as expired and are no\n"
"                     failures. Without it a call that takes 5 s has failed\n"
"  --seed N           of sizes, targets and contents (default 1)\n"
"  --no-check         don't verify the bytes of requests and responses\n"
"  --corrupt N        spoil the Nth response of each lcore (of --oneway: request), to see it found\n"
"\n"
"How\n"
"  --dev NAME         device, such as fabric_ring0 (default: the first)\n"
"  --type TYPE        endpoints: reliable or datagram (default: reliable where the device has them)\n"
"  --bind HOST        name, address or interface at which this process is reached. Default: with --self\n"
"                     127.0.0.1, of several processes the device's interface, if it has an address,\n"
"                     else the machine's name\n"
"  --packet SIZE      of lib/rpc, a multiple of 8, 256 to 64K (default 4K)\n"
"  --credits N        packets on the way to a session, 3 to 4096 (default: 16 to 64, as the device allows)\n"
"  --slots N          requests under way of a session, 1 to 1024 (default 32); others wait\n"
"  --cc CC            congestion control of sessions over datagram endpoints: none (default) or swift\n"
"  --idle POLICY      of an lcore without work: spin, pause, yield, sleep, or auto (default): spin if each\n"
"                     lcore has a CPU of its own, yield otherwise\n"
"  --timeout S        for connecting, and for another process to answer (default 10)\n"
"  --once             --listen: end after the first client\n"
"\n"
RANKS_HELP
"\n"
"In front of --, beside EAL's arguments\n"
"  --settings FILE    settings that replace the program's, as leat-tune save writes them\n"
"  --tune-dir DIR     where leat-top and leat-tune find this process (default: the user's)\n"
"  --no-tune          they don't find it\n"
"\n"
"Output\n"
"  --json             JSON on stdout, and nothing else\n"
"  --histogram FILE   of the latencies: lines of 'from_ns to_ns count', a block per kind of call\n"
"  --progress         a line each second on stderr, also if that is no terminal\n"
"  --list-drivers     drivers and their arguments\n"
"  --list-devices     the devices named by --vdev in detail; without --vdev those that could be\n"
"                     opened here, each with its --vdev\n"
"  --version, -h, --help\n"
"\n"
"Exit: 0; 1 failed: it did not run, a call failed, a message was wrong or lost; 2 wrong usage; 3 ran to its\n"
"end without ranks that ended early; 128 + N ended by signal N.\n";
/* clang-format on */

void
rb_help(FILE *f)
{
	(void)fputs(help, f);
}
