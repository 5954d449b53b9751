/* SPDX-License-Identifier: BSD-3-Clause */

/* Names and what --help says. */

#include <string.h>

#include "redb.h"

static const char *const names[REDB_KINDS] = {
	[REDB_PING] = "ping", [REDB_SET] = "set",	[REDB_GET] = "get",
	[REDB_MSET] = "mset", [REDB_LRANGE] = "lrange", [REDB_COMMAND] = "command",
};

const char *
redb_kind_name(enum redb_kind kind)
{
	return kind < REDB_KINDS ? names[kind] : "?";
}

int
redb_kind_parse(const char *name, size_t len, enum redb_kind *kind)
{
	int k;

	for (k = 0; k < REDB_COMMAND; k++) {
		if (strlen(names[k]) == len && strncasecmp(names[k], name, len) == 0) {
			*kind = k;
			return 0;
		}
	}
	return -ENOENT;
}

/* clang-format off */
static const char help[] =
"Usage: leat-redis-bench EAL... -- --connect ADDR [options] [COMMAND [ARG...]]\n"
"       leat-redis-bench EAL... -- --respond [options] [COMMAND [ARG...]]\n"
"       leat-redis-bench EAL... -- --gateway BACKEND [options] [COMMAND [ARG...]]\n"
"       leat-redis-bench EAL... -- --respond --listen ADDR [options]\n"
"       leat-redis-bench [EAL...] --list-devices [--json]\n"
"       leat-redis-bench --list-drivers [--json] | --version | --help\n"
"\n"
"Measures a Redis or Valkey server: requests per second and their latency, over RDMA (any of leat's devices),\n"
"TCP or a UNIX socket. EAL arguments name the device and the CPUs; each lcore has its share of the clients.\n"
"\n"
"Where\n"
"  --connect ADDR     host:port         of a stream, over the device (--vdev)\n"
"                     tcp:host:port     TCP\n"
"                     unix:/path        a UNIX socket\n"
"  --respond          instead: a trivial server in this process, over the device. With several lcores it has the\n"
"                     last one to itself\n"
"  --listen ADDR      ... that only serves others, at an address as above; port 0 takes a free one. It runs on\n"
"                     the first lcore, and needs the same --data and --seed as the side that measures. With\n"
"                     --verify it checks the values that are set\n"
"  --gateway BACKEND  instead: leat-redis-gateway's engine in this process, over the device, which forwards to a\n"
"                     server: host:port or unix:/path. Its lcore is as that of --respond\n"
"  --dev NAME         device, such as fabric_verbs0 (default: the last of --vdev)\n"
"  --auth-file FILE   send AUTH with the first line of FILE (- is stdin) as password\n"
"  --user NAME        ... of that user\n"
"  --db N             send SELECT N\n"
"\n"
"What to run\n"
"  --test LIST        ping, set, get, mset, lrange, one after another (default: set,get)\n"
"  COMMAND [ARG...]   instead, any command. In its arguments __rand_int__ is replaced by 12 digits, a number\n"
"                     below --keys, and __data__ by a value\n"
"  -c, --clients N    connections of all lcores together, 1 to 100000 (default 50)\n"
"  -P, --pipeline N   requests that a client sends together, 1 to 65536 (default 1)\n"
"  -d, --data SIZE    bytes of a value, 1 to 512M (default 64); K and M are powers of 1024\n"
"  -r, --keys N       keys, leat:000000000000 and so on, chosen at random (default 10000, but of 64 MiB of\n"
"                     values at most)\n"
"  --range N          elements of the list of lrange (default 100)\n"
"  -n, --requests N   requests of a test, of all lcores together\n"
"  -D, --duration S   instead of -n, seconds of a test (default 3)\n"
"  --rate R           open loop: R requests/s of all lcores together (1K = 1000), each measured from the moment\n"
"                     at which it was due, so that a stall counts for all that it delays\n"
"  --verify           check every byte of the values of get and lrange; what is wrong is named and makes the\n"
"                     exit code 1\n"
"  --no-fill          don't set all keys before get, nor make the list before lrange\n"
"  --seed N           of keys and values (default 1)\n"
"\n"
"How\n"
"  --window SIZE      receive window of a stream, 64K to 16M (default 1M)\n"
"  --idle POLICY      of an lcore without work: spin, pause, yield, sleep, block, or auto (default): spin if each\n"
"                     lcore has a CPU of its own, yield otherwise\n"
"  --timeout S        to connect, and for a reply; then the client is lost (default 10)\n"
"\n"
"In front of --, beside EAL's arguments\n"
"  --settings FILE    settings that replace the program's, as leat-tune save writes them\n"
"  --tune-dir DIR     where leat-top and leat-tune find this process (default: the user's)\n"
"  --no-tune          they don't find it\n"
"\n"
"Output\n"
"  --json             JSON on stdout, and nothing else\n"
"  --progress         of what takes longer than 2 s a line each second on stderr, also if that is no terminal\n"
"  --list-drivers     drivers and their arguments\n"
"  --list-devices     the devices named by --vdev in detail; without --vdev those that could be\n"
"                     opened here, each with its --vdev\n"
"  --version, -h, --help\n"
"\n"
"A lost client ends the run. Exit: 0; 1 failed: it did not run, a client was lost, a reply was an error or\n"
"wrong; 2 wrong usage; 128 + N ended by signal N.\n";
/* clang-format on */

void
redb_help(FILE *f)
{
	(void)fputs(help, f);
}
