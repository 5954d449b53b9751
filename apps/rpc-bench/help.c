/* SPDX-License-Identifier: BSD-3-Clause */

/* Names, and the text of --help. */

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
"  or:  leat-rpc-bench EAL... -- --listen ADDR [options]\n"
"  or:  leat-rpc-bench EAL... -- --connect ADDR [options]\n"
"  or:  leat-rpc-bench EAL... -- --launched [options]\n"
"  or:  leat-rpc-bench EAL... -- --ranks-dir DIR|--ranks-list LIST [options]\n"
"  or:  leat-rpc-bench [EAL...] --list-devices [--json]\n"
"  or:  leat-rpc-bench --list-drivers [--json] | --version | --help\n"
"\n"
"Measures remote calls between lcores. Each lcore has a session with each other\n"
"lcore and runs tasks, which send batches of requests to lcores chosen at random.\n"
"EAL arguments name the device and the CPUs, for example\n"
"-l 2,3 --vdev=fabric_ring0 (one process), --vdev=fabric_shm0 (processes of one\n"
"machine) or --vdev=fabric_ofi0,provider=tcp.\n"
"\n"
"Roles (one of them):\n"
"  --self             call between the lcores of this process; two at least\n"
"  --listen ADDR      serve the lcores of clients, one client after another; ADDR\n"
"                     is host:port or :port, port 0 takes a free one. The client\n"
"                     chooses all parameters of the run\n"
"  --connect ADDR     call the lcores of a listener from all lcores of this\n"
"                     process\n"
"  --both             with --connect: the listener's lcores call, too\n"
"  --launched         call between all lcores of the processes that mpirun,\n"
"                     prterun or srun --mpi=pmix has started\n"
"  --ranks-dir, --ranks-list\n"
"                     the same without PMIx, see 'Processes' below\n"
"\n"
"Calls:\n"
"  --tasks N          tasks of each calling lcore, 1 to 1024 (default 16)\n"
"  --batch N          requests of a batch, 1 to 256 (default 3); a task sleeps\n"
"                     until all responses of its batch have arrived\n"
"  --size SIZES       bytes of a request (default 32): one size, such as 32; a\n"
"                     list, 8,4K, of which each is as likely; or a range, 8-4K.\n"
"                     Up to 16M; K and M are powers of 1024\n"
"  --resp-size SIZES  bytes of a response (default 32)\n"
"  --oneway[=PERCENT]\n"
"                     send one-way requests in PERCENT of the batches (100 if not\n"
"                     given)\n"
"  --long SIZES[:PERCENT]\n"
"                     send requests, and get responses, of these sizes in PERCENT\n"
"                     of the batches (1 if not given); the report has a row for\n"
"                     them\n"
"  --bulk SIZES[:PERCENT]\n"
"                     send requests that describe memory of these sizes in\n"
"                     PERCENT of the batches (1 if not given). The called lcore\n"
"                     pulls from and pushes to it, by READ and WRITE if the\n"
"                     device has them\n"
"  -n, --calls N      calls of all lcores together, after the warm-up\n"
"  -D, --seconds S    seconds by each lcore's clock, instead of -n (default 3)\n"
"  --warmup N         calls of each lcore before its clock starts (default 1000)\n"
"  --rate R           open loop: R calls/s of all lcores together (1K = 1000). A\n"
"                     latency counts from the time at which the batch was due, so\n"
"                     a stall counts for all batches that it delays\n"
"  --deadline US      deadline of each call, microseconds; a call that misses it\n"
"                     counts as expired, not as failed. Without --deadline a call\n"
"                     fails after 5 s\n"
"  --seed N           seed of sizes, targets and contents (default 1)\n"
"  --no-check         do not verify the bytes of requests and responses\n"
"  --corrupt N        spoil the Nth response of each lcore (with --oneway:\n"
"                     request), to see that it is found\n"
"\n"
"Endpoints, sessions and lcores:\n"
"  --dev NAME         device, such as fabric_ring0 (default: the first)\n"
"  --type TYPE        type of endpoints: reliable or datagram (default: reliable\n"
"                     if the device has them)\n"
"  --bind HOST        host at which others reach this process: a name, an address\n"
"                     or a network interface. Default: 127.0.0.1 with --self;\n"
"                     else the address of the device's interface, if it has one,\n"
"                     or the machine's name\n"
"  --packet SIZE      bytes of a packet, a multiple of 8, 256 to 64K (default 4K)\n"
"  --credits N        packets on the way in a session, 3 to 4096 (default: 16 to\n"
"                     64, as the device allows)\n"
"  --slots N          requests under way in a session, 1 to 1024 (default 32);\n"
"                     further requests wait\n"
"  --cc CC            congestion control of sessions over datagram endpoints:\n"
"                     none (default) or swift\n"
"  --idle POLICY      what an lcore without work does: spin, pause, yield, sleep,\n"
"                     or auto (default): spin if each lcore has a CPU of its own,\n"
"                     else yield\n"
"  --timeout S        seconds to wait for a connection, and for an answer of\n"
"                     another process (default 10)\n"
"  --once             with --listen: end after the first client\n"
"\n"
RANKS_HELP
"\n"
"Before --, among EAL's arguments:\n"
"  --settings FILE    settings that replace the program's defaults, as leat-tune\n"
"                     save writes them\n"
"  --tune-dir DIR     directory in which leat-top and leat-tune find this process\n"
"                     (default: the user's)\n"
"  --no-tune          hide this process from leat-top and leat-tune\n"
"\n"
"Output:\n"
"  --json             print JSON on stdout, and nothing else\n"
"  --histogram FILE   write the latencies to FILE: lines of 'from_ns to_ns\n"
"                     count', a block per kind of call\n"
"  --progress         print a line each second on stderr, even if it is no\n"
"                     terminal\n"
"  --list-drivers     list the drivers and their arguments\n"
"  --list-devices     describe the devices that --vdev names; without --vdev list\n"
"                     the devices that can be opened here, each with its --vdev\n"
"  --version          print the version\n"
"  -h, --help         print this text\n"
"\n"
"Exit status: 0 success; 1 failure: it did not run, a call failed, or a message\n"
"was wrong or lost; 2 wrong usage; 3 it ran to its end, but some ranks ended\n"
"early; 128 + N ended by signal N.\n";
/* clang-format on */

void
rb_help(FILE *f)
{
	(void)fputs(help, f);
}
