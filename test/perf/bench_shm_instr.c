/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Instructions per op of the shm device compared with the ring device: posts and polls of both
 * sides in one thread, which is the same work as in two processes, without the polls while one side
 * waits for the other.
 *
 *     bench-shm-instr --count   run each case once, in bench_counted(): the script
 *                               count-instructions counts the instructions of that function
 */

#include <stdio.h>
#include <string.h>

#include <leat_error.h>

#include "shm_side.h"

enum { SHM, SHARE, RING, DEVICES };

static const char *const devices[DEVICES] = { "fabric_shm0", "fabric_shm1", "fabric_ring0" };

/* The counted cases. */
static const struct what {
	const char *name;
	unsigned int device; /* the device that is compared with ring */
	unsigned int kind;   /* of the link */
	bool add;
	uint32_t burst;
	uint32_t ops;
	double target;
	uint32_t budget; /* instructions per op that `device` may need beyond those of ring */
} whats[] = {
	{ "send-8", SHM, LINK_LAT, false, 1, 256, 1.15, 20 },
	{ "send-64", SHM, LINK_RATE, false, 1, 1024, 1.15, 20 },
	{ "send-64x32", SHM, LINK_RATE, false, LINK_BURST, 1024, 1.15, 10 },
	{ "fetch_add", SHM, LINK_BULK, true, 1, 256, 0, 150 },
	{ "share-fetch_add", SHARE, LINK_BULK, true, 1, 256, 0, 0 },
};

static struct link links[DEVICES][LINK_KINDS][2];

/* ---- one thread for both sides ---- */

static void
post(struct link *l, struct leat_op **ops, uint16_t n)
{
	if (leat_ep_post(l->ep, ops, n) != n)
		bench_die("can't post");
}

/* Send n messages in bursts; each receive is posted again. */
static void
send_all(struct link *from, struct link *to, uint32_t n, uint32_t burst)
{
	struct leat_op *ops[LINK_BURST], *done[LINK_BURST];
	uint32_t i, got, back;
	uint16_t k;

	for (; n > 0; n -= burst) {
		for (i = 0; i < burst; i++)
			ops[i] = &from->sends[i];
		post(from, ops, (uint16_t)burst);
		for (got = 0; got < burst; got += k) {
			k = leat_ep_poll(to->ep, done, LINK_BURST);
			if (k > 0)
				post(to, done, k);
		}
		for (back = 0; back < burst; back += k)
			k = leat_ep_poll(from->ep, done, LINK_BURST);
	}
}

static void
add_all(struct link *from, struct link *to, uint32_t n)
{
	struct leat_op *done;

	for (; n > 0; n--) {
		post(from, &from->add, 1);
		while (leat_ep_poll(from->ep, &done, 1) == 0)
			(void)leat_ep_poll(to->ep, NULL, 0);
		if (done->status != 0)
			bench_die("fetch_add: %s", strerror(-done->status));
	}
}

static void
run(const struct what *w, unsigned int device)
{
	struct link *l = links[device][w->kind];

	if (w->add)
		add_all(&l[0], &l[1], w->ops);
	else
		send_all(&l[0], &l[1], w->ops, w->burst);
}

/* callgrind counts in this function: its name is an argument of count-instructions. */
void bench_counted(const struct what *w, unsigned int device);

__attribute__((noinline)) void
bench_counted(const struct what *w, unsigned int device)
{
	run(w, device);
}

/* ---- links ---- */

static void
connect_both(unsigned int device, unsigned int kind)
{
	struct link *l = links[device][kind];
	char addr[LEAT_ADDR_MAX];
	struct leat_rkey target;

	link_open(&l[0], devices[device], kind);
	link_open(&l[1], devices[device], kind);
	link_listen(&l[1], addr);
	link_connect(&l[0], addr);
	link_accept(&l[1], &l[0]);
	link_connected(&l[0], &l[1]);
	link_connected(&l[1], &l[0]);
	link_start(&l[0]);
	link_start(&l[1]);
	if (kind != LINK_BULK)
		return;
	target = link_target(&l[1]);
	l[0].add->raddr = target.addr;
	l[0].add->rkey = target.key;
}

static void
start_leat(const struct bench_args *args)
{
	static char no_pci[] = "--no-pci", quiet[] = "--log-level=leat.*:warning",
		    no_telemetry[] = "--no-telemetry", ring[] = "--vdev=fabric_ring0",
		    shm[] = "--vdev=fabric_shm0,dir=@leat-bench-instr",
		    share[] = "--vdev=fabric_shm1,share=1,dir=@leat-bench-instr";
	char *argv[64];
	int i, n = 0;

	for (i = 0; i < args->argc && n < 50; i++) {
		if (strcmp(args->argv[i], "--count") != 0)
			argv[n++] = args->argv[i];
	}
	argv[n++] = no_pci;
	argv[n++] = no_telemetry;
	argv[n++] = quiet;
	argv[n++] = shm;
	argv[n++] = share;
	argv[n++] = ring;
	argv[n] = NULL;
	if (leat_init(n, argv) < 0)
		bench_die("%s", leat_err_msg());
}

int
main(int argc, char **argv)
{
	struct bench_args args;
	unsigned int i, device, kind, side;

	bench_args(&args, argc, argv);
	start_leat(&args);
	for (device = 0; device < DEVICES; device++) {
		for (kind = 0; kind < LINK_KINDS; kind++)
			connect_both(device, kind);
	}
	for (i = 0; i < RTE_DIM(whats); i++) {
		const struct what *w = &whats[i];
		const unsigned int both[] = { w->device, RING };

		for (side = 0; side < RTE_DIM(both); side++) {
			run(w, both[side]);
			bench_counted(w, both[side]);
			printf("shm-instr-%s %s %u %g %u\n", w->name,
			       side == 0 ? "leat" : "reference", w->ops, w->target, w->budget);
		}
	}
	for (device = 0; device < DEVICES; device++) {
		for (kind = 0; kind < LINK_KINDS; kind++) {
			link_close(&links[device][kind][0]);
			link_close(&links[device][kind][1]);
		}
	}
	return leat_cleanup() < 0;
}
