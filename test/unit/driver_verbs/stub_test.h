/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STUB_TEST_H
#define STUB_TEST_H

/*
 * An endpoint on a device that exists in this process only (test/verbs_stub). Its peers have no
 * remote side: the test says what happens to each op.
 */

#include <leat_cmocka.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "stub_ibv.h"
#include "verbs_pvt.h"

#define STUB_OPS 600

/* Indices of the devices. */
enum {
	STUB_WR,     /* has ibv_wr_* and ibv_start_poll */
	STUB_POST,   /* has only ibv_post_send and ibv_poll_cq */
	STUB_SIGNAL, /* as STUB_POST, with every 4th send signaled */
	STUB_DEVS,
	/* the others are for single tests */
	STUB_RELAXED = STUB_DEVS, /* registers memory with relaxed ordering */
	STUB_ODP,		  /* registers memory with on-demand paging */
	STUB_PATIENT,		  /* has timeouts and retries of its own */
};

struct stub_ep {
	struct leat_ep *ep;
	struct vb_ep *e;
	struct leat_mr *mr;
	uint16_t peer[4];
	struct leat_op ops[STUB_OPS];
	/* completed ops, in the order in which poll returned them */
	struct leat_op *back[STUB_OPS];
	uint32_t nb_back;
	struct leat_event ev[16];
	uint32_t nb_ev;
	char buf[4096];
};

/* Group setup and teardown. */
int stub_start(void **state);
int stub_stop(void **state);

/*
 * Open an endpoint with the given number of peers, all UP, on a device in its initial state.
 * tx_depth 0: default.
 */
struct stub_ep *stub_open(unsigned int dev, unsigned int peers, uint32_t tx_depth);
/* Close the endpoint, and check that all objects of the device were destroyed. */
void stub_close(struct stub_ep *s);
/* Return the queue pair, or the connection, of s->peer[n]. */
struct ibv_qp *stub_qp(const struct stub_ep *s, unsigned int n);
struct vb_conn *stub_conn(const struct stub_ep *s, unsigned int n);

/* Make ops[from .. from + n) sends of 8 B to s->peer[peer]. */
void stub_make(struct stub_ep *s, uint32_t from, uint32_t n, unsigned int peer);
/*
 * Post ops[from .. from + n).
 * @return number accepted
 */
uint16_t stub_post(struct stub_ep *s, uint32_t from, uint32_t n);
/* Poll ops and events until 8 attempts in a row have found nothing. */
void stub_collect(struct stub_ep *s);
/* As stub_collect(), until an event of the given type has come. */
struct leat_event *stub_event(struct stub_ep *s, enum leat_event_type type);
/*
 * Check that ops[from .. from + n) came back in this order, with the given status, as back[*at ..].
 * Add n to *at.
 */
void stub_expect(struct stub_ep *s, uint32_t *at, uint32_t from, uint32_t n, int status);

#endif /* STUB_TEST_H */
