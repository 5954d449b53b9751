/* SPDX-License-Identifier: BSD-3-Clause */

/* Names, and the text of --help. */

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
"  or:  leat-redis-bench EAL... -- --respond [options] [COMMAND [ARG...]]\n"
"  or:  leat-redis-bench EAL... -- --gateway BACKEND [options] [COMMAND [ARG...]]\n"
"  or:  leat-redis-bench EAL... -- --respond --listen ADDR [options]\n"
"  or:  leat-redis-bench [EAL...] --list-devices [--json]\n"
"  or:  leat-redis-bench --list-drivers [--json] | --version | --help\n"
"\n"
"Measures requests per second and latency of a Redis or Valkey server, over RDMA\n"
"(any of leat's devices), TCP or a UNIX socket. EAL arguments name the device and\n"
"the CPUs; the clients are shared out among the lcores.\n"
"\n"
"Server (one of --connect, --respond and --gateway):\n"
"  --connect ADDR     measure the server at ADDR: host:port is a stream over the\n"
"                     device (--vdev; fabric_shm also takes shm:NAME),\n"
"                     tcp:host:port is TCP, unix:/path a UNIX socket\n"
"  --respond          measure a trivial server in this process, over the device.\n"
"                     With several lcores the server has the last one to itself\n"
"  --listen ADDR      with --respond: only serve clients of other processes, at\n"
"                     an address as above; port 0 takes a free one. The server\n"
"                     runs on the first lcore, and needs the same --data and\n"
"                     --seed as the measuring side. With --verify it checks the\n"
"                     values that clients set\n"
"  --gateway BACKEND  measure leat-redis-gateway's engine in this process, over\n"
"                     the device. It forwards to the server at BACKEND, host:port\n"
"                     or unix:/path. With several lcores it has the last one to\n"
"                     itself\n"
"  --dev NAME         device, such as fabric_verbs0 (default: the last --vdev)\n"
"  --auth-file FILE   send AUTH; the password is the first line of FILE, or of\n"
"                     stdin if FILE is -\n"
"  --user NAME        send AUTH with this user name and the password\n"
"  --db N             send SELECT N\n"
"\n"
"Tests:\n"
"  --test LIST        run these tests, one after another: ping, set, get, mset,\n"
"                     lrange (default: set,get)\n"
"  COMMAND [ARG...]   run this command instead of --test. In its arguments\n"
"                     __rand_int__ is replaced by 12 digits, a random number\n"
"                     below --keys, and __data__ by a value\n"
"  -c, --clients N    connections, all lcores together, 1 to 100000 (default 50)\n"
"  -P, --pipeline N   requests that a client sends at once, 1 to 65536 (default\n"
"                     1)\n"
"  -d, --data SIZE    bytes of a value, 1 to 512M (default 64); K and M are\n"
"                     powers of 1024\n"
"  -r, --keys N       number of keys, leat:000000000000 and so on; requests\n"
"                     choose them at random (default 10000, or fewer if their\n"
"                     values take more than 64 MiB)\n"
"  --range N          elements of the list of lrange (default 100)\n"
"  -n, --requests N   requests of each test, all lcores together\n"
"  -D, --duration S   seconds of each test, instead of -n (default 3)\n"
"  --rate R           open loop: R requests/s of all lcores together (1K = 1000).\n"
"                     A latency counts from the time at which the request was\n"
"                     due, so a stall counts for all requests that it delays\n"
"  --verify           check every byte of the values of get and lrange; name the\n"
"                     first wrong value, and end with exit status 1\n"
"  --no-fill          do not set all keys before get, nor create the list before\n"
"                     lrange\n"
"  --seed N           seed of keys and values (default 1)\n"
"\n"
"Streams and lcores:\n"
"  --window SIZE      receive window of a stream, 64K to 16M (default 1M)\n"
"  --idle POLICY      what an lcore without work does: spin, pause, yield, sleep,\n"
"                     block, or auto (default): spin if each lcore has a CPU of\n"
"                     its own, else yield\n"
"  --timeout S        seconds to wait for a connection, and for a reply; then the\n"
"                     client is lost (default 10)\n"
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
"  --progress         print a line each second on stderr, for what takes longer\n"
"                     than 2 s, even if stderr is no terminal\n"
"  --list-drivers     list the drivers and their arguments\n"
"  --list-devices     describe the devices that --vdev names; without --vdev list\n"
"                     the devices that can be opened here, each with its --vdev\n"
"  --version          print the version\n"
"  -h, --help         print this text\n"
"\n"
"The run ends when a client is lost.\n"
"\n"
"Exit status: 0 success; 1 failure: it did not run, a client was lost, or a reply\n"
"was an error or wrong; 2 wrong usage; 128 + N ended by signal N.\n";
/* clang-format on */

void
redb_help(FILE *f)
{
	(void)fputs(help, f);
}
