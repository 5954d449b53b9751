/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * foreign-server [OPTION]... ADDRESS PORT: an echo server of the Redis/Valkey RDMA protocol that
 * has no code of leat, for clients at the other end. It prints a line for each connection that has
 * ended, with "ok" or the reason of the failure; the exit code is 1 when one failed. --help has the
 * options.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "offences.h"

#define PEERS 64
/* Bytes that the other connections must have echoed after an offence that ends no connection. */
#define NEIGHBOUR_BYTES (200u << 10)
#define CHUNK 65536u

struct peer {
	struct conn c;
	bool used;
	unsigned int number;
	const struct offence *offence; /* to be committed, or NULL */
	bool offending;		       /* offence_run() steps it */
	uint64_t keepalive_at;
	uint64_t paused_until; /* end of its only pause, ms; 0: not paused yet */
};

static struct conn_conf conf = { .recvs = RECVS };
static uint64_t keepalive_ms = 3000, pause_after = UINT64_MAX, pause_ms;
static uint32_t read_max = CHUNK;
static unsigned int writes = 1, connections;
static unsigned int offence, offences_end; /* range of the offences still to be committed */

static struct peer peers[PEERS];
static struct rdma_cm_id *listener;
static unsigned int accepted, ended, failed;
static uint64_t echoed;
static volatile sig_atomic_t stopped;

static void __attribute__((noreturn)) usage(int code)
{
	unsigned int i;

	printf("Usage: foreign-server [OPTION]... ADDRESS PORT\n"
	       "  -w LEN,...  windows that are registered one after the other (default: 1048576)\n"
	       "  -r N        read at most so many bytes at once\n"
	       "  -n N        write each piece as so many WRITEs\n"
	       "  -p BYTES    stop reading once, after so many bytes ...\n"
	       "  -t MS       ... for so long\n"
	       "  -a MS       send keepalives at this interval (default: 3000; 0: none)\n"
	       "  -z          reserved bytes of what is sent are not zero\n"
	       "  -c N        end when so many connections have ended\n"
	       "  -x OFFENCE  commit it on the second connection; all: on each but the first one\n"
	       "              another offence\n"
	       "Offences:\n ");
	for (i = 0; i < offences_n; i++)
		printf(" %s", offences[i].name);
	printf("\n");
	exit(code);
}

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "foreign-server: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void
on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

/* ---- one connection ---- */

static void
end_peer(struct peer *p, const char *what)
{
	const struct conn *c = &p->c;

	printf("%s connection %u: %s, %llu bytes in %llu notices, %llu and %llu windows, "
	       "%llu questions, %llu keepalives\n",
	       what != NULL ? "not ok" : "ok", p->number,
	       what != NULL ? what : ibv_wc_status_str(c->wc_status),
	       (unsigned long long)c->rx_total, (unsigned long long)c->notices,
	       (unsigned long long)c->registrations_sent, (unsigned long long)c->registrations,
	       (unsigned long long)c->questions, (unsigned long long)c->keepalives);
	fflush(stdout);
	failed += what != NULL;
	ended++;
	conn_close(&p->c);
	p->used = false;
}

static bool
paused(struct peer *p)
{
	if (p->c.rx_total < pause_after)
		return false;
	if (p->paused_until == 0)
		p->paused_until = now_ms() + pause_ms;
	return now_ms() < p->paused_until;
}

/* Send back the received bytes. Returns the number of bytes. */
static uint32_t
echo(struct peer *p)
{
	static uint8_t buf[CHUNK];
	struct conn *c = &p->c;
	uint32_t n = conn_room(c);

	if (c->closed || !conn_idle_slot(c) || paused(p))
		return 0;
	if (n > read_max)
		n = read_max;
	if (conn_readable(c) < n)
		n = conn_readable(c);
	if (n == 0 || conn_take(c, buf, n) != n || conn_write_bytes(c, buf, n, writes) != 0)
		return 0;
	echoed += n;
	return n;
}

static bool serve(void *arg);

static void
offend(struct peer *p)
{
	const struct offence *o = p->offence;
	uint64_t until = echoed + NEIGHBOUR_BYTES;

	p->offence = NULL;
	p->offending = true;
	if (!p->c.conf.no_registration && conn_register(&p->c) != 0)
		end_peer(p, p->c.why);
	else
		end_peer(p, offence_run(o, &p->c, serve, &until) == 0 ? NULL : p->c.why);
}

/* Drive one connection. Returns whether anything was done. */
static bool
peer_turn(struct peer *p)
{
	struct conn *c = &p->c;
	bool was_up = c->up;
	uint32_t n;

	if (conn_step(c, 0) != 0) {
		end_peer(p, c->broken ? c->why : NULL);
		return true;
	}
	if (!c->up)
		return false;
	if (p->offence != NULL) {
		if (!p->offence->at_once && c->registrations == 0)
			return false;
		offend(p);
		return true;
	}
	if (!was_up) {
		p->keepalive_at = now_ms() + keepalive_ms;
		(void)conn_register(c);
	}
	if (keepalive_ms != 0 && now_ms() >= p->keepalive_at && conn_idle_slot(c)) {
		p->keepalive_at += keepalive_ms;
		(void)conn_keepalive(c);
	}
	n = echo(p);
	return n > 0;
}

/* ---- all connections ---- */

static void
on_request(struct rdma_cm_id *id)
{
	struct conn_conf this_conf = conf;
	struct peer *p = NULL;
	unsigned int i;

	for (i = 0; i < PEERS && p == NULL; i++) {
		if (!peers[i].used)
			p = &peers[i];
	}
	if (p == NULL) {
		(void)rdma_reject(id, NULL, 0);
		return;
	}
	memset(p, 0, sizeof(*p));
	p->used = true;
	p->number = accepted++;
	if (p->number > 0 && offence < offences_end) {
		p->offence = &offences[offence++];
		offence_conf(p->offence, &this_conf);
	}
	if (conn_accept(&p->c, &this_conf, id) != 0)
		end_peer(p, p->c.why);
}

static bool
listen_turn(void)
{
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(listener->channel, &ev) != 0) {
		if (errno != EAGAIN && errno != EINTR)
			die("rdma_get_cm_event");
		return false;
	}
	type = ev->event;
	id = ev->id;
	(void)rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(id);
	return true;
}

/* Drive all connections. Returns whether `echoed` has reached *arg, or no connection is left. */
static bool
serve(void *arg)
{
	const uint64_t *until = arg;
	struct pollfd fds[1 + 2 * PEERS] = { { .fd = listener->channel->fd, .events = POLLIN } };
	unsigned int i, n = 1, others = 0;
	bool worked = listen_turn();

	for (i = 0; i < PEERS; i++) {
		struct peer *p = &peers[i];

		if (!p->used || p->offending)
			continue;
		worked |= peer_turn(p);
		if (!p->used)
			continue;
		others++;
		fds[n++] = (struct pollfd){ .fd = p->c.cm->fd, .events = POLLIN };
		fds[n++] = (struct pollfd){ .fd = p->c.comp->fd, .events = POLLIN };
	}
	/* Wait for 5 ms at most: then look at timers again, and at bytes that wait for room. */
	if (!worked)
		(void)poll(fds, n, 5);
	return echoed >= *until || (others == 0 && ended > 0);
}

static void
start_listening(const char *addr, const char *port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct addrinfo *ai;

	if (channel == NULL || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0)
		die("rdma_create_id");
	if (getaddrinfo(addr, port, &hints, &ai) != 0)
		die(addr);
	if (rdma_bind_addr(listener, ai->ai_addr) != 0 || rdma_listen(listener, 64) != 0)
		die(addr);
	freeaddrinfo(ai);
	if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0)
		die("fcntl");
	printf("listening\n");
	fflush(stdout);
}

static void
parse_windows(char *list)
{
	struct windows *w = &conf.windows;
	char *word, *rest;

	for (word = strtok_r(list, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		if (w->n == WINDOWS_MAX)
			usage(2);
		w->len[w->n++] = (uint32_t)strtoul(word, NULL, 10);
	}
}

static void
parse_offence(const char *name)
{
	const struct offence *o = offence_by_name(name);

	if (strcmp(name, "all") == 0) {
		offences_end = offences_n;
		return;
	}
	if (o == NULL)
		usage(2);
	offence = (unsigned int)(o - offences);
	offences_end = offence + 1;
}

static void
option(int opt)
{
	uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;

	switch (opt) {
	case 'w':
		parse_windows(optarg);
		break;
	case 'r':
		read_max = n < CHUNK ? (uint32_t)n : CHUNK;
		break;
	case 'n':
		writes = (unsigned int)n;
		break;
	case 'p':
		pause_after = n;
		break;
	case 't':
		pause_ms = n;
		break;
	case 'a':
		keepalive_ms = n;
		break;
	case 'z':
		conf.noisy = true;
		break;
	case 'c':
		connections = (unsigned int)n;
		break;
	case 'x':
		parse_offence(optarg != NULL ? optarg : "");
		break;
	default:
		usage(opt == 'h' ? 0 : 2);
	}
}

int
main(int argc, char **argv)
{
	uint64_t never = UINT64_MAX;
	unsigned int i;
	int opt;

	while ((opt = getopt(argc, argv, "w:r:n:p:t:a:zc:x:h")) != -1)
		option(opt);
	if (argc - optind != 2)
		usage(2);
	if (conf.windows.n == 0)
		conf.windows.len[conf.windows.n++] = 1 << 20;
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	start_listening(argv[optind], argv[optind + 1]);
	while (!stopped && (connections == 0 || ended < connections))
		(void)serve(&never);
	for (i = 0; i < PEERS; i++) {
		if (peers[i].used)
			end_peer(&peers[i], NULL);
	}
	(void)rdma_destroy_id(listener);
	return failed != 0;
}
