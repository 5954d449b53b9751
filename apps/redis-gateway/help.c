/* SPDX-License-Identifier: BSD-3-Clause */

/* What --help says. */

#include "rg.h"

/* clang-format off */
static const char help[] =
"Usage: leat-redis-gateway EAL... -- --listen ADDR --backend WHERE [options]\n"
"       leat-redis-gateway EAL... -- --reverse --listen WHERE --to ADDR [options]\n"
"       leat-redis-gateway [EAL...] --list-devices [--json]\n"
"       leat-redis-gateway --list-drivers [--json] | --version | --help\n"
"\n"
"Makes a Redis or Valkey server reachable over RDMA, or any other device of leat, and a server over RDMA\n"
"reachable for clients that speak TCP. It forwards bytes and understands no commands; server and clients\n"
"need no change. EAL arguments name the device and the CPU, for example\n"
"-l 2 --vdev=fabric_verbs0,dev=mlx5_0 or --vdev=fabric_ofi0,provider=tcp.\n"
"\n"
"Legs (one or more; each begins with its --listen, --reverse or --dev)\n"
"  --listen ADDR      forward: address of the device at which clients connect, host:port or :port; port 0\n"
"                     takes a free one. With --to: host:port (TCP) or unix:/path\n"
"  --backend WHERE    forward: the server, host:port (TCP) or unix:/path; a connection for each client\n"
"  --reverse          the leg goes the other way, as its --to says\n"
"  --to ADDR          reverse: address of the device at which the server, or a forward leg, listens\n"
"  --dev NAME         device of this leg and of those behind it, such as fabric_ring0 (default: the last\n"
"                     one of --vdev)\n"
"  With several lcores the legs are dealt out to them in turn.\n"
"\n"
"Who may connect\n"
"  --allow CIDR,...   addresses and ranges, IPv4 and IPv6: 10.0.0.0/8,fd00::/8,192.0.2.1; others are turned\n"
"                     away, also those of this machine. May be repeated. Without it a leg that other machines\n"
"                     can reach is refused, unless the server asks for a password: the server sees clients of\n"
"                     this machine only, so that its protected mode does not guard it any more\n"
"\n"
"Limits\n"
"  --clients N        at most so many clients of each leg (default 1000, or as many as the device can have)\n"
"  --client-bytes SIZE\n"
"                     held for a client in each direction, 64K to 16M (default 256K): what its receiver does\n"
"                     not take waits there, and then at its sender\n"
"  --memory SIZE      of all clients of a leg (default: what --clients of them take); beyond it they are\n"
"                     turned away\n"
"  --backend-timeout S\n"
"                     how long a client waits while the server can't be reached, before it is turned away\n"
"                     (default 5)\n"
"  --linger S         how long a client is kept of which one direction has ended and no byte comes in the\n"
"                     other (default 10)\n"
"  --drain S          at the end: how long requests may take that are under way (default 5)\n"
"\n"
"How\n"
"  --idle POLICY      of an lcore without work: block (default), spin, pause, yield, sleep, or auto: spin if\n"
"                     each lcore has a CPU of its own, yield otherwise\n"
"\n"
"In front of --, beside EAL's arguments\n"
"  --settings FILE    settings that replace the program's, as leat-tune save writes them\n"
"  --tune-dir DIR     where leat-top and leat-tune find this process (default: the user's)\n"
"  --no-tune          they don't find it\n"
"\n"
"Output\n"
"  --stats S          a line about each leg on stdout, every S seconds and at the end\n"
"  --json             that line is JSON\n"
"  --list-drivers     drivers and their arguments\n"
"  --list-devices     the devices named by --vdev in detail; without --vdev those that could be\n"
"                     opened here, each with its --vdev\n"
"  --version, -h, --help\n"
"\n"
"Each client is logged with its address and the server's name for it. 'listening on ADDR' on stdout tells\n"
"where each leg listens. Counters are in telemetry, too: /leat/gateways, /leat/gateway,N.\n"
"\n"
"Ctrl-C ends it in order: no client is let in any more, and those that are there may finish what is under\n"
"way. A second one ends it at once.\n"
"\n"
"Exit: 0 ended by a signal, in order; 1 failed; 2 wrong usage, or it would have been open to others.\n";
/* clang-format on */

void
rg_help(FILE *f)
{
	(void)fputs(help, f);
}
