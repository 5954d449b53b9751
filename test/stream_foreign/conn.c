/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"

#define RESOLVE_MS 5000
/* Bit of wr_id that marks receives; the other bits are the receive's number. */
#define WR_RECV (UINT64_C(1) << 32)
#define PAGE 4096u

uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Mark the connection as broken; the first reason is kept. */
static int __attribute__((format(printf, 2, 3))) breaks(struct conn *c, const char *fmt, ...)
{
	va_list ap;

	if (!c->broken) {
		va_start(ap, fmt);
		vsnprintf(c->why, sizeof(c->why), fmt, ap);
		va_end(ap);
	}
	c->broken = true;
	return -1;
}

/* ---- memory ---- */

static void *
map(size_t *len)
{
	void *at;

	*len = (*len + PAGE - 1) / PAGE * PAGE;
	at = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	return at;
}

static void
drop(struct ibv_mr **mr, void *at, size_t len)
{
	if (*mr != NULL)
		(void)ibv_dereg_mr(*mr);
	*mr = NULL;
	if (at != NULL)
		(void)munmap(at, len);
}

/* Create a window of this length, at an unaligned address; its offset in a page varies. */
static int
new_window(struct conn *c, uint32_t len)
{
	uint32_t shift = (uint32_t)(c->registrations_sent * 67 + 13) % PAGE;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *old = c->rx_map;
	size_t old_mapped = c->rx_mapped;

	if (c->rx_mr != NULL && ibv_dereg_mr(c->rx_mr) != 0)
		return breaks(c, "ibv_dereg_mr of a window");
	c->rx_mr = NULL;
	c->rx_mapped = (size_t)len + PAGE;
	c->rx_map = map(&c->rx_mapped);
	if (old != NULL)
		(void)munmap(old, old_mapped);
	if (c->rx_map == NULL)
		return breaks(c, "no memory for a window of %u bytes", len);
	c->rx = c->rx_map + shift;
	c->rx_mr = ibv_reg_mr(c->pd, c->rx, len, access);
	if (c->rx_mr == NULL)
		return breaks(c, "ibv_reg_mr of a window: %s", strerror(errno));
	c->rx_len = len;
	c->rx_arrived = 0;
	c->rx_read = 0;
	return 0;
}

/* Make room for len bytes to send. Bytes lie at the same offset here as in the peer's window. */
static int
tx_resize(struct conn *c, uint32_t len)
{
	if (len <= c->tx_mapped)
		return 0;
	drop(&c->tx_mr, c->tx, c->tx_mapped);
	c->tx_mapped = len;
	c->tx = map(&c->tx_mapped);
	if (c->tx == NULL)
		return breaks(c, "no memory for %u bytes", len);
	c->tx_mr = ibv_reg_mr(c->pd, c->tx, c->tx_mapped, IBV_ACCESS_LOCAL_WRITE);
	return c->tx_mr != NULL ? 0 : breaks(c, "ibv_reg_mr: %s", strerror(errno));
}

/* ---- posting ---- */

static int
post_recv(struct conn *c, unsigned int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->recv_buf[i],
		.length = RECV_LEN,
		.lkey = c->recv_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = WR_RECV | i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(c->id->qp, &wr, &bad) == 0 ? 0 : breaks(c, "ibv_post_recv");
}

static int
post_send(struct conn *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (c->outstanding == SENDS)
		return breaks(c, "the send queue is full");
	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(c->id->qp, wr, &bad) != 0)
		return breaks(c, "ibv_post_send: %s", strerror(errno));
	c->outstanding++;
	return 0;
}

int
conn_control(struct conn *c, const uint8_t *msg, uint32_t len)
{
	uint8_t *buf = c->send_buf[c->next_send++ % SENDS];
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf,
		.length = len,
		.lkey = c->send_mr->lkey,
	};
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	memcpy(buf, msg, len);
	return post_send(c, &wr);
}

int
conn_keepalive(struct conn *c)
{
	uint8_t msg[CONTROL_LEN];

	wire_put_keepalive(msg);
	if (c->conf.noisy)
		memset(msg + 2, 0xa5, 30);
	return conn_control(c, msg, sizeof(msg));
}

int
conn_register(struct conn *c)
{
	const struct windows *w = &c->conf.windows;
	uint8_t msg[CONTROL_LEN];
	struct memory m;

	if (new_window(c, w->len[c->registrations_sent % w->n]) != 0)
		return -1;
	m = (struct memory){ .addr = (uintptr_t)c->rx, .length = c->rx_len, .key = c->rx_mr->rkey };
	wire_put_memory(msg, &m);
	if (c->conf.noisy)
		memset(msg + 2, 0xa5, 14);
	c->registrations_sent++;
	return conn_control(c, msg, sizeof(msg));
}

int
conn_raw_write(struct conn *c, uint64_t addr, uint32_t key, uint32_t len, bool with_imm,
	       uint32_t imm)
{
	struct ibv_sge sge = { .length = len };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = len != 0,
		.opcode = with_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
	};

	if (len != 0) {
		if (tx_resize(c, len) != 0)
			return -1;
		sge.addr = (uintptr_t)c->tx;
		sge.lkey = c->tx_mr->lkey;
	}
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = key;
	wire_put((uint8_t *)&wr.imm_data, 4, imm);
	return post_send(c, &wr);
}

/* Write the len bytes that lie at tx_offset. */
static int
write_staged(struct conn *c, uint32_t len, unsigned int writes)
{
	uint32_t left = len;

	if (writes > len)
		writes = len;
	for (; writes > 0; writes--) {
		uint32_t n = writes > 1 ? left / writes : left;
		struct ibv_sge sge = {
			.addr = (uintptr_t)c->tx + c->tx_offset,
			.length = n,
			.lkey = c->tx_mr->lkey,
		};
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = writes > 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
		};

		wr.wr.rdma.remote_addr = c->peer.addr + c->tx_offset;
		wr.wr.rdma.rkey = c->peer.key;
		if (writes == 1)
			wire_put((uint8_t *)&wr.imm_data, 4, len);
		if (post_send(c, &wr) != 0)
			return -1;
		c->tx_offset += n;
		left -= n;
	}
	c->tx_total += len;
	return 0;
}

int
conn_write(struct conn *c, uint64_t seed, uint32_t len, unsigned int writes)
{
	uint32_t i;

	if (len == 0 || len > conn_room(c))
		return breaks(c, "a test's mistake: %u bytes where %u fit", len, conn_room(c));
	for (i = 0; i < len; i++)
		c->tx[c->tx_offset + i] = pattern(seed, c->tx_total + i);
	return write_staged(c, len, writes);
}

int
conn_write_bytes(struct conn *c, const uint8_t *buf, uint32_t len, unsigned int writes)
{
	if (len == 0 || len > conn_room(c))
		return breaks(c, "a test's mistake: %u bytes where %u fit", len, conn_room(c));
	memcpy(c->tx + c->tx_offset, buf, len);
	return write_staged(c, len, writes);
}

/* ---- reading ---- */

static int
read_done(struct conn *c, uint32_t n)
{
	c->rx_read += n;
	c->rx_total += n;
	return n != 0 && c->rx_read == c->rx_len ? conn_register(c) : 0;
}

int64_t
conn_read(struct conn *c, uint64_t seed, uint32_t len)
{
	uint32_t n = conn_readable(c) < len ? conn_readable(c) : len;
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint8_t want = pattern(seed, c->rx_total + i), is = c->rx[c->rx_read + i];

		if (is != want)
			return breaks(c, "byte %" PRIu64 " is 0x%02x instead of 0x%02x",
				      c->rx_total + i, is, want);
	}
	return read_done(c, n) == 0 ? (int64_t)n : -1;
}

uint32_t
conn_take(struct conn *c, uint8_t *buf, uint32_t len)
{
	uint32_t n = conn_readable(c) < len ? conn_readable(c) : len;

	memcpy(buf, c->rx + c->rx_read, n);
	return read_done(c, n) == 0 ? n : 0;
}

/* ---- received messages ---- */

static int
on_memory(struct conn *c, const uint8_t *msg)
{
	struct memory m;

	wire_get_memory(msg, &m);
	if (m.length == 0 || m.length > PEER_WINDOW_MAX || m.addr + m.length < m.addr)
		return breaks(c, "a window of %u bytes at 0x%llx", m.length,
			      (unsigned long long)m.addr);
	if (c->next_peer.length != 0 || c->tx_offset < c->peer.length)
		return breaks(c, "a window was registered again after %u of its %u bytes",
			      c->tx_offset, c->peer.length);
	c->next_peer = m;
	return 0;
}

/*
 * Switch to the window that the peer registered last, once all writes to its previous window are
 * acknowledged.
 */
static int
next_window(struct conn *c)
{
	if (c->next_peer.length == 0 || c->outstanding != 0)
		return 0;
	if (tx_resize(c, c->next_peer.length) != 0)
		return -1;
	c->peer = c->next_peer;
	c->next_peer.length = 0;
	c->tx_offset = 0;
	c->registrations++;
	return 0;
}

static int
on_control(struct conn *c, const uint8_t *msg, uint32_t len)
{
	uint8_t reply[CONTROL_LEN];
	uint64_t opcode;

	if (len != CONTROL_LEN)
		return breaks(c, "a control message of %u bytes", len);
	opcode = wire_get(msg, 2);
	if (opcode <= OP_REGISTER_MEMORY && !c->conf.noisy && !wire_reserved_zero(msg))
		return breaks(c, "reserved bytes of opcode %u are not zero", (unsigned int)opcode);
	switch (opcode) {
	case OP_REGISTER_MEMORY:
		return on_memory(c, msg);
	case OP_KEEPALIVE:
		c->keepalives++;
		c->keepalive_before = c->keepalive_at;
		c->keepalive_at = now_ms();
		return 0;
	case OP_GET_SERVER_FEATURE:
		c->questions++;
		if (c->accepted) {
			wire_put_feature(reply, OP_GET_SERVER_FEATURE,
					 (uint16_t)wire_get(msg + 2, 2), 0);
			return conn_control(c, reply, sizeof(reply));
		}
		if (c->conf.asks) {
			memcpy(c->answer, msg, CONTROL_LEN);
			c->answers++;
			return 0;
		}
		break;
	case OP_SET_CLIENT_FEATURE:
		c->others++;
		if (c->accepted)
			return 0;
		break;
	default:
		break;
	}
	return breaks(c, "opcode %u, which known %s treat as fatal", (unsigned int)opcode,
		      c->accepted ? "servers" : "clients");
}

static int
on_notice(struct conn *c, uint32_t imm)
{
	c->notices++;
	if (c->registrations_sent == 0)
		return breaks(c, "a notice of %u bytes before a window was registered", imm);
	if (imm == 0 || imm > c->rx_len - c->rx_arrived)
		return breaks(c, "a notice of %u bytes where %u have room", imm,
			      c->rx_len - c->rx_arrived);
	c->rx_arrived += imm;
	return 0;
}

static int
on_completion(struct conn *c, const struct ibv_wc *wc)
{
	unsigned int i = (unsigned int)wc->wr_id;
	uint8_t msg[RECV_LEN];

	if ((wc->wr_id & WR_RECV) == 0)
		c->outstanding--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (c->wc_status == IBV_WC_SUCCESS)
			c->wc_status = wc->status;
		c->closed = true;
		return 0;
	}
	if ((wc->wr_id & WR_RECV) == 0)
		return 0;
	memcpy(msg, c->recv_buf[i], RECV_LEN);
	/* Post the receive again first, so that the peer always finds one. */
	if (post_recv(c, i) != 0)
		return -1;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return on_notice(c, (uint32_t)wire_get((const uint8_t *)&wc->imm_data, 4));
	return on_control(c, msg, wc->byte_len);
}

static int
on_cm(struct conn *c)
{
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(c->cm, &ev) != 0)
		return errno == EAGAIN ? 0 : breaks(c, "rdma_get_cm_event: %s", strerror(errno));
	type = ev->event;
	if (type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE ||
	    type == RDMA_CM_EVENT_CONNECT_ERROR)
		(void)breaks(c, "%s, status %d", rdma_event_str(type), ev->status);
	(void)rdma_ack_cm_event(ev);
	if (type == RDMA_CM_EVENT_ESTABLISHED) {
		c->up = true;
	} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
		c->peer_closed = true;
		c->closed = true;
		(void)rdma_disconnect(c->id);
	}
	return 1;
}

/* Handle all available completions. Returns their number. */
static int
drain(struct conn *c)
{
	struct ibv_wc wc[32];
	int n, i, all = 0;

	while ((n = ibv_poll_cq(c->cq, 32, wc)) > 0) {
		for (i = 0; i < n; i++) {
			if (on_completion(c, &wc[i]) != 0)
				return -1;
		}
		all += n;
	}
	if (n < 0)
		return breaks(c, "ibv_poll_cq");
	return next_window(c) == 0 ? all : -1;
}

int
conn_step(struct conn *c, int timeout_ms)
{
	struct pollfd fds[2] = {
		{ .fd = c->cm->fd, .events = POLLIN },
		{ .fd = c->comp->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *arg;
	int n;

	if (c->broken || c->closed)
		return -1;
	n = drain(c);
	if (n == 0)
		n = on_cm(c);
	if (n == 0 && poll(fds, 2, timeout_ms) > 0 && (fds[1].revents & POLLIN) != 0) {
		if (ibv_get_cq_event(c->comp, &cq, &arg) == 0)
			ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(c->cq, 0) != 0)
			return breaks(c, "ibv_req_notify_cq");
	}
	/* If on_cm() has seen a disconnect, earlier completions may still be in the queue. */
	if (drain(c) < 0)
		return -1;
	return c->broken || c->closed ? -1 : 0;
}

bool
conn_wait(struct conn *c, uint64_t ms, bool (*holds)(const struct conn *c, uint64_t n), uint64_t n)
{
	uint64_t end = now_ms() + ms;

	while (!holds(c, n) && now_ms() < end && conn_step(c, 50) == 0)
		;
	return holds(c, n);
}

bool
conn_is_up(const struct conn *c, uint64_t n)
{
	(void)n;
	return c->up;
}

bool
conn_registered(const struct conn *c, uint64_t n)
{
	return c->registrations >= n;
}

bool
conn_keepalives(const struct conn *c, uint64_t n)
{
	return c->keepalives >= n;
}

bool
conn_answers(const struct conn *c, uint64_t n)
{
	return c->answers >= n;
}

/* ---- connecting ---- */

/* Create a queue pair for c->id, with its receives posted. */
static int
set_up(struct conn *c)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = SENDS,
			 .max_recv_wr = RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	size_t recv_len = sizeof(*c->recv_buf) * RECVS, send_len = sizeof(*c->send_buf) * SENDS;
	unsigned int i;

	c->pd = ibv_alloc_pd(c->id->verbs);
	c->comp = ibv_create_comp_channel(c->id->verbs);
	if (c->pd == NULL || c->comp == NULL)
		return breaks(c, "no protection domain, or no completion channel");
	c->cq = ibv_create_cq(c->id->verbs, RECVS + SENDS, NULL, c->comp, 0);
	if (c->cq == NULL || ibv_req_notify_cq(c->cq, 0) != 0)
		return breaks(c, "ibv_create_cq");
	attr.send_cq = c->cq;
	attr.recv_cq = c->cq;
	if (fcntl(c->comp->fd, F_SETFL, O_NONBLOCK) != 0 ||
	    fcntl(c->cm->fd, F_SETFL, O_NONBLOCK) != 0 || rdma_create_qp(c->id, c->pd, &attr) != 0)
		return breaks(c, "rdma_create_qp: %s", strerror(errno));
	c->recv_buf = map(&recv_len);
	c->send_buf = map(&send_len);
	if (c->recv_buf == NULL || c->send_buf == NULL)
		return breaks(c, "no memory");
	c->recv_mr = ibv_reg_mr(c->pd, c->recv_buf, recv_len, IBV_ACCESS_LOCAL_WRITE);
	c->send_mr = ibv_reg_mr(c->pd, c->send_buf, send_len, 0);
	if (c->recv_mr == NULL || c->send_mr == NULL)
		return breaks(c, "ibv_reg_mr: %s", strerror(errno));
	for (i = 0; i < c->conf.recvs; i++) {
		if (post_recv(c, i) != 0)
			return -1;
	}
	return 0;
}

/* Wait for the event that ends this step of connecting. */
static int
await(struct conn *c, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(c->cm, &ev) != 0)
		return breaks(c, "rdma_get_cm_event: %s", strerror(errno));
	type = ev->event;
	(void)rdma_ack_cm_event(ev);
	return type == want
		       ? 0
		       : breaks(c, "%s instead of %s", rdma_event_str(type), rdma_event_str(want));
}

int
conn_connect(struct conn *c, const struct conn_conf *conf, const char *from, const char *to,
	     const char *port)
{
	/*
	 * As with the known clients, the server retries for ever while this side has no receive
	 * posted.
	 */
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct addrinfo *src = NULL, *dst = NULL;
	int ret;

	memset(c, 0, sizeof(*c));
	c->conf = *conf;
	c->cm = rdma_create_event_channel();
	if (c->cm == NULL || rdma_create_id(c->cm, &c->id, NULL, RDMA_PS_TCP) != 0)
		return breaks(c, "rdma_create_id: %s", strerror(errno));
	if (getaddrinfo(to, port, &hints, &dst) != 0 ||
	    (from != NULL && getaddrinfo(from, NULL, &hints, &src) != 0))
		ret = breaks(c, "no address: %s, %s", to, from != NULL ? from : "");
	else if (rdma_resolve_addr(c->id, src != NULL ? src->ai_addr : NULL, dst->ai_addr,
				   RESOLVE_MS) != 0)
		ret = breaks(c, "rdma_resolve_addr: %s", strerror(errno));
	else
		ret = await(c, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (src != NULL)
		freeaddrinfo(src);
	if (dst != NULL)
		freeaddrinfo(dst);
	if (ret != 0)
		return -1;
	if (rdma_resolve_route(c->id, RESOLVE_MS) != 0)
		return breaks(c, "rdma_resolve_route: %s", strerror(errno));
	if (await(c, RDMA_CM_EVENT_ROUTE_RESOLVED) != 0 || set_up(c) != 0)
		return -1;
	return rdma_connect(c->id, &param) == 0 ? 0
						: breaks(c, "rdma_connect: %s", strerror(errno));
}

int
conn_accept(struct conn *c, const struct conn_conf *conf, struct rdma_cm_id *id)
{
	/*
	 * As with the known server, the client never retries: it must always find a receive posted.
	 */
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 5,
		.rnr_retry_count = 0,
	};

	memset(c, 0, sizeof(*c));
	c->conf = *conf;
	c->accepted = true;
	c->id = id;
	c->cm = rdma_create_event_channel();
	if (c->cm == NULL || rdma_migrate_id(id, c->cm) != 0)
		return breaks(c, "rdma_migrate_id: %s", strerror(errno));
	if (set_up(c) != 0)
		return -1;
	return rdma_accept(id, &param) == 0 ? 0 : breaks(c, "rdma_accept: %s", strerror(errno));
}

void
conn_close(struct conn *c)
{
	if (c->up && !c->peer_closed)
		(void)rdma_disconnect(c->id);
	if (c->id != NULL && c->id->qp != NULL)
		rdma_destroy_qp(c->id);
	drop(&c->rx_mr, c->rx_map, c->rx_mapped);
	drop(&c->tx_mr, c->tx, c->tx_mapped);
	drop(&c->recv_mr, c->recv_buf, sizeof(*c->recv_buf) * RECVS);
	drop(&c->send_mr, c->send_buf, sizeof(*c->send_buf) * SENDS);
	if (c->cq != NULL)
		(void)ibv_destroy_cq(c->cq);
	if (c->comp != NULL)
		(void)ibv_destroy_comp_channel(c->comp);
	if (c->pd != NULL)
		(void)ibv_dealloc_pd(c->pd);
	if (c->id != NULL)
		(void)rdma_destroy_id(c->id);
	if (c->cm != NULL)
		rdma_destroy_event_channel(c->cm);
	memset(c, 0, sizeof(*c));
}
