/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-foreign EAL-ARGUMENTS -- listen|connect HOST:PORT MESSAGES [any-id]
 *
 * Leat's side of the test with msg-raw-peer. It sends messages of many sizes over one connection,
 * which must turn out to be in plain mode, receives each of them back and compares it. When it
 * listens, it prints its address.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_msg.h>

#define WINDOW 8
#define MAX_MESSAGE (1u << 20)

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "leat's side: " __VA_ARGS__);                              \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct leat_ep *ep;
static struct leat_msg *m;
static struct leat_msg_conn *c;
static uint8_t block[MAX_MESSAGE + 256], in[WINDOW][MAX_MESSAGE];
static struct leat_msg_req tx[WINDOW], rx[WINDOW];
static unsigned int messages, sends, recvs, sent, received;
static bool closed;
static struct leat_msg_conn_conf conn_conf;

static uint64_t
size_of(unsigned int k)
{
	static const uint32_t sizes[] = { 0,	1,     8,     64,     65,	  4096,
					  4097, 16384, 16385, 100000, MAX_MESSAGE };

	return sizes[k % RTE_DIM(sizes)];
}

static const uint8_t *
bytes_of(unsigned int k)
{
	return block + k % 256;
}

static void
post(void)
{
	struct leat_msg_req *req;

	while (recvs < messages && recvs - received < WINDOW) {
		req = &rx[recvs % WINDOW];
		req->buf = in[recvs++ % WINDOW];
		req->size = MAX_MESSAGE;
		check(leat_msg_recv(c, &req, 1) == 1, "recv");
	}
	while (sends < messages && sends - sent < WINDOW) {
		req = &tx[sends % WINDOW];
		req->buf = (void *)(uintptr_t)bytes_of(sends);
		req->size = size_of(sends++);
		check(leat_msg_send(c, &req, 1) == 1, "send");
	}
}

static void
back(const struct leat_msg_req *req)
{
	check(req->status == 0, "%s %u: %s", req->recv != 0 ? "receive" : "send",
	      req->recv != 0 ? received : sent, strerror(-req->status));
	if (req->recv == 0) {
		sent++;
		return;
	}
	check(req->len == size_of(received) && memcmp(req->buf, bytes_of(received), req->len) == 0,
	      "message %u came back different", received);
	received++;
}

static void
events(void)
{
	struct leat_msg_event mev;
	struct leat_event ev;

	while (leat_ep_events(ep, &ev, 1) == 1) {
		if (ev.type != LEAT_EV_CONNECT_REQ) {
			check(leat_msg_handle_event(m, &ev), "event of nobody: %s", ev.text);
			continue;
		}
		c = leat_msg_accept(m, &ev, &conn_conf);
		check(c != NULL, "accept: %s", leat_err_msg());
	}
	while (leat_msg_events(m, &mev, 1) == 1) {
		check(mev.type != LEAT_MSG_UP || leat_msg_conn_mode(c) == LEAT_MSG_PLAIN,
		      "not in plain mode");
		check(mev.type != LEAT_MSG_ENDED, "ended: %s", mev.text);
		closed = mev.type == LEAT_MSG_CLOSED;
	}
}

int
main(int argc, char **argv)
{
	struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV),
		.max_peers = 1,
	};
	struct leat_msg_req *reqs[WINDOW];
	struct leat_op *ops[32];
	char addr[LEAT_ADDR_MAX];
	unsigned int turn;
	uint16_t i, n;
	int ret = leat_init(argc, argv);

	check(ret >= 0, "leat_init: %s", leat_err_msg());
	argc -= ret;
	argv += ret;
	check(argc == 4 || argc == 5, "-- listen|connect HOST:PORT MESSAGES [any-id]");
	conn_conf.any_id = argc == 5;
	messages = (unsigned int)atoi(argv[3]);
	for (i = 0; i < 256; i++)
		block[i] = (uint8_t)(i * 167);
	for (turn = 256; turn < sizeof(block); turn++)
		block[turn] = (uint8_t)(block[turn - 256] + 1);
	ep = leat_ep_create(leat_dev_get(0), &conf);
	check(ep != NULL, "endpoint: %s", leat_err_msg());
	m = leat_msg_create(ep, NULL);
	check(m != NULL, "messages: %s", leat_err_msg());
	if (strcmp(argv[1], "listen") == 0) {
		check(leat_ep_listen(ep, argv[2]) == 0, "listen: %s", leat_err_msg());
		check(leat_ep_listen_addr(ep, addr, sizeof(addr)) == 0, "listen_addr");
		printf("listening %s\n", addr);
		fflush(stdout);
	} else {
		c = leat_msg_connect(m, argv[2], &conn_conf);
		check(c != NULL, "connect: %s", leat_err_msg());
	}
	for (turn = 0; !closed; turn++) {
		n = leat_msg_process(m, ops, leat_ep_poll(ep, ops, RTE_DIM(ops)));
		check(n == 0, "op of nobody");
		n = leat_msg_poll(m, reqs, WINDOW);
		if (n == 0)
			sched_yield(); /* the other side may need the CPU */
		for (i = 0; i < n; i++)
			back(reqs[i]);
		if (turn % 64 == 0)
			events();
		if (c == NULL || sent + received == 2 * messages + 1)
			continue;
		post();
		if (sent + received == 2 * messages) {
			check(leat_msg_close(c, 1000000) == 0, "close");
			received++; /* so that this runs once */
		}
	}
	check(leat_msg_destroy(m) == 0, "destroy: %s", leat_err_msg());
	check(leat_ep_close(ep, 1000000, NULL, NULL) == 0, "close: %s", leat_err_msg());
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	printf("%u messages there and back\n", messages);
	return 0;
}
