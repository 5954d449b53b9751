/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MOCK_DRIVER_H
#define MOCK_DRIVER_H

/*
 * A driver that does nothing by itself, "fabric_mock": it keeps posted ops in a list, and the test
 * completes them when and as it likes. It registers as any driver does. Arguments: fail=1 (probe
 * fails), depth=N.
 */

#include <leat_driver.h>
#include <leat_order.h>

#define MOCK_OPS_MAX 4096

/* The points at which the driver calls mock.step. */
enum mock_point {
	MOCK_POLLED,	/* at the end of a poll */
	MOCK_ARM,	/* in arm, before it sets armed */
	MOCK_ANNOUNCED, /* in arm, after it set armed, before it looks for completions */
	MOCK_LOOKED,	/* in arm, after it looked for completions */
	MOCK_DISARMED,
};

struct mock {
	struct leat_ep *ep;
	struct leat_op *ops[MOCK_OPS_MAX]; /* in flight, in the order of posting */
	unsigned int nb_ops;
	unsigned int nb_posted; /* total number of ops accepted */
	bool can_cancel;	/* false: cancel() returns -EOPNOTSUPP */
	bool keep_on_cancel;	/* cancel() leaves the op in flight until the test finishes it */
	bool keep_on_abort;	/* abort() leaves all ops in flight until the test finishes them */
	unsigned int nb_quiesce, nb_abort, nb_accept, nb_reject, nb_disconnect, nb_progress;
	int disconnect_status;
	int listen_ret, connect_ret, accept_ret;
	uint8_t priv[LEAT_EP_PRIV_MAX]; /* private data of the last connect or accept */
	uint16_t priv_len;
	uint32_t inline_max; /* set by endpoint options; signal_interval needs mock_signal */
	uint32_t signal_interval;
	/* limit of sends in flight, beyond which post accepts none; 0: no limit */
	uint32_t tx_max;
	/* @return whether the device accepts this op; NULL: it accepts all */
	bool (*takes)(const struct leat_op *op);
	/* how many calls of mr_dereg() are still refused */
	int mr_busy;
	unsigned int nb_mrs;
	unsigned int mr_fail_after; /* number of regions at which mr_reg() fails; 0: never */

	/* The fields of the wait object. */
	int fd;
	int arm_ret; /* what arm returns when nothing has completed */
	bool armed;
	unsigned int nb_arm, nb_disarm;
	unsigned int nb_arrived; /* completions that the next poll finds */
	void (*step)(enum mock_point point);
};

/* Whether the device has tagged ops of its own. */
extern bool mock_tags;

/* Without tagged ops: whether the device bounds messages that match no receive. Default: true. */
extern bool mock_bounded;

/* Whether sends of the device can be posted without a signaled completion. */
extern bool mock_signal;

/* Whether endpoints have a wait object. The test opens mock.fd. */
extern bool mock_wait;

/* Called while a device is opened, if not NULL. */
extern void (*mock_probing)(void);

/* Called when a device is asked for its info, and when it is removed, if not NULL. Any thread. */
extern void (*mock_informing)(void);
extern void (*mock_removing)(void);

/*
 * Play the device: let one more op complete in the next poll, and wake the endpoint if it is armed.
 */
void mock_arrive(void);

/* The state of the endpoint that was opened last. */
extern struct mock mock;
extern unsigned int mock_nb_devs, mock_nb_eps;

/* Complete mock.ops[i], and take it out of mock.ops. */
void mock_finish(struct leat_ep *ep, unsigned int i, int status, uint64_t len);

#endif /* MOCK_DRIVER_H */
