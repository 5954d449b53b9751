/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STUB_IBV_H
#define STUB_IBV_H

/*
 * A device for the verbs driver that exists only inside this process, without a kernel or a wire: a
 * program that is linked with it has the whole driver, and the functions here in place of
 * libibverbs and librdmacm.
 *
 *     leat_init("--vdev=fabric_verbs0,dev=sim0")   sim0: ibv_wr_*, ibv_start_poll
 *                                                  sim1: ibv_post_send, ibv_poll_cq
 *     leat_ep_connect()    succeeds at once, without a peer (port 7000: through sim0, else sim1)
 *     post                 completes at once; or (sim.hold) when stub_complete() gives its status
 *     a message            arrives when stub_messages() is called
 *
 * It has two uses. Benchmarks count the driver's instructions, since the device does next to
 * nothing: the names of all its functions for posting and polling begin with stub_. And tests cause
 * events that no real device can be made to report.
 *
 * It is strict where the kernel is: an SRQ or CQ in use can't be destroyed, nor a PD. It is lax
 * where devices may be: completions of a destroyed queue pair stay in their CQ.
 *
 * One thread only.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define STUB_NO_LIMIT UINT64_MAX

/* Behaviour and counters of the simulated devices. */
struct sim {
	/* set by the test: */
	bool hold;	 /* posted requests wait for stub_complete() */
	bool silent;	 /* a queue pair in error does not flush its requests */
	uint64_t room;	 /* sends that are accepted before one is refused */
	uint64_t rroom;	 /* receives that are accepted before one is refused */
	bool no_bad;	 /* a refused list of receives does not say which request was refused */
	bool no_device;	 /* rdma_bind_addr() finds no device for an address */
	int modify_err;	 /* errno of a refused change of a queue pair's state; 0: none */
	int destroy_err; /* errno that destroy calls return although they destroy; 0: none */
	uint32_t odp;	 /* sim0's on-demand paging: enum ibv_odp_transport_cap_bits; 0: none */

	/* counters, and what was requested last: */
	uint64_t sends, recvs; /* accepted requests */
	uint64_t doorbells;    /* accepted lists of sends */
	uint64_t rdoorbells;   /* accepted lists of receives */
	uint64_t polls;	       /* polls of a CQ */
	uint64_t polled;       /* completions that polls returned */
	uint64_t inlined;      /* sends with inline data */
	uint32_t overruns;     /* completions that found their CQ full, and were lost */
	int ctxs, pds, cqs, srqs, qps, mrs, ids; /* existing objects */
	unsigned int mr_access;			 /* access flags of the last memory registration */
	struct ibv_qp_attr rts;			 /* attributes of the last QP that became RTS */
};

extern struct sim sim;

/* Reset everything but the existing objects. */
void stub_reset(void);

/*
 * Complete the n oldest requests of a queue pair. As in hardware, unsignaled ones give a completion
 * only if they failed. @return number of completed requests
 */
uint32_t stub_complete(struct ibv_qp *qp, uint32_t n, enum ibv_wc_status status);

/* Let n messages arrive. @return number of messages that met a receive */
uint32_t stub_messages(struct ibv_qp *qp, uint32_t n, uint32_t len);
/* Let a receive complete with this error. @return false if none was posted */
bool stub_message_failed(struct ibv_qp *qp, enum ibv_wc_status status);
/*
 * Add a completion with a made-up wr_id, as from a faulty device, or of a queue pair destroyed long
 * ago.
 */
void stub_completion(struct ibv_cq *cq, uint64_t wr_id, uint32_t qpn, enum ibv_wc_status status);

/* Raise an event of the device, or of a queue pair (qp not NULL). */
void stub_async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp);
/* Raise an event of a connection. */
void stub_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* Raise a peer's request to connect, through sim0. */
void stub_request(struct rdma_event_channel *ch);

#endif /* STUB_IBV_H */
