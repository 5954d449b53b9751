/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STUB_IBV_H
#define STUB_IBV_H

/*
 * A device for the verbs driver that exists inside this process only. No kernel, no wire: a program that is
 * linked with it has the whole driver, and in place of libibverbs and librdmacm what is here.
 *
 *     leat_init("--vdev=fabric_verbs0,dev=sim0")    sim0: ibv_wr_*, ibv_start_poll
 *                                                    sim1: ibv_post_send, ibv_poll_cq
 *     leat_ep_connect()                              answered at once, by nobody (port 7000: through sim0, else sim1)
 *     post          completes at once; or waits (sim.hold) until stub_complete() says how it ended
 *     a message     comes when stub_messages() says so
 *
 * It has two uses. Benchmarks count what the driver does, since the device does next to nothing: everything of it
 * that runs between post and poll is called stub_*. And tests make happen what no real device can be made to do.
 *
 * It is strict where the kernel is: an SRQ or CQ in use can't be destroyed, nor a PD. It is lax where devices may
 * be: completions of a queue pair that is destroyed stay in their CQ.
 *
 * One thread only.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define STUB_NO_LIMIT UINT64_MAX

/* How the simulated devices behave, and what they have seen. */
struct sim {
	/* to be set by the test */
	bool hold;	 /* what is posted waits for stub_complete() */
	bool silent;	 /* a queue pair in error does not flush what it has */
	uint64_t room;	 /* so many sends are taken, the next one is refused */
	uint64_t rroom;	 /* the same of receives */
	int modify_err;	 /* with which queue pairs refuse another state; 0: they don't */
	int destroy_err; /* what destroying says, although it destroys; 0: success */
	uint32_t odp;	 /* sim0's on-demand paging: enum ibv_odp_transport_cap_bits; 0: none */

	/* counted */
	uint64_t sends, recvs; /* requests taken */
	uint64_t doorbells;    /* lists of sends taken */
	uint64_t rdoorbells;
	uint64_t polls;	   /* of a CQ */
	uint64_t polled;   /* completions taken */
	uint64_t inlined;  /* sends whose data went with them */
	uint32_t overruns; /* completions that found their CQ full, and were lost */
	int ctxs, pds, cqs, srqs, qps, mrs, ids; /* objects that there are */
	unsigned int mr_access;			 /* of the last registration */
	struct ibv_qp_attr rts;			 /* of the last queue pair that could send */
};

extern struct sim sim;

/* All as at the start, but for the objects that there are. */
void stub_reset(void);

/*
 * The n oldest requests of a queue pair are done. As in hardware the unsignaled ones say nothing if they went well.
 * @return how many there were
 */
uint32_t stub_complete(struct ibv_qp *qp, uint32_t n, enum ibv_wc_status status);

/*
 * n messages arrive.
 * @return for how many there was a receive
 */
uint32_t stub_messages(struct ibv_qp *qp, uint32_t n, uint32_t len);
/* One that takes a receive, and ends in a status. */
bool stub_message_failed(struct ibv_qp *qp, enum ibv_wc_status status);
/* A completion with a made-up wr_id: what a driver gets from a device that lies, or of a queue pair long gone. */
void stub_completion(struct ibv_cq *cq, uint64_t wr_id, uint32_t qpn, enum ibv_wc_status status);

/* Raises an event of the device, of a queue pair (qp) or without. */
void stub_async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp);
/* Raises an event of a connection. */
void stub_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* A peer asks to connect, through sim0. */
void stub_request(struct rdma_event_channel *ch);

#endif /* STUB_IBV_H */
