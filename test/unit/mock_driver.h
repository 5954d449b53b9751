/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MOCK_DRIVER_H
#define MOCK_DRIVER_H

/*
 * A driver that does nothing by itself, "fabric_mock": it takes ops into a list, and the test finishes them when and
 * how it likes. It registers as any driver does. Arguments: fail=1 (probe fails), depth=N.
 */

#include <leat_driver.h>
#include <leat_order.h>

#define MOCK_OPS_MAX 4096

/* Where mock.step is called. */
enum mock_point {
	MOCK_POLLED,	/* at the end of a poll */
	MOCK_ARM,	/* before the announcement */
	MOCK_ANNOUNCED, /* before it looks */
	MOCK_LOOKED,	/* it is armed */
	MOCK_DISARMED,
};

struct mock {
	struct leat_ep *ep;
	struct leat_op *ops[MOCK_OPS_MAX]; /* in flight, in the order of posting */
	unsigned int nb_ops;
	unsigned int nb_posted; /* ops taken ever */
	bool can_cancel;	/* else cancel() says -EOPNOTSUPP */
	bool keep_on_cancel;	/* cancel() leaves the op in flight until the test finishes it */
	bool keep_on_abort;	/* abort() gives back nothing until the test does */
	unsigned int nb_quiesce, nb_abort, nb_accept, nb_reject, nb_disconnect, nb_progress;
	int disconnect_status;
	int listen_ret, connect_ret, accept_ret;
	uint8_t priv[LEAT_EP_PRIV_MAX]; /* of the last connect or accept */
	uint16_t priv_len;
	uint32_t inline_max; /* options; signal_interval is refused unless mock_signal */
	uint32_t signal_interval;
	uint32_t tx_max; /* post takes no more sends when so many are in flight; 0: no limit */
	bool (*takes)(const struct leat_op *op); /* NULL, or does the device take this op? */
	int mr_busy;				 /* refusals left of mr_dereg() */
	unsigned int nb_mrs;
	unsigned int mr_fail_after; /* mr_reg() fails when so many exist; 0: never */

	/* the wait object */
	int fd;
	int arm_ret; /* when nothing is there */
	bool armed;
	unsigned int nb_arm, nb_disarm;
	unsigned int nb_arrived; /* completions that the next poll finds */
	void (*step)(enum mock_point point);
};

/* Has it tagged ops of its own? */
extern bool mock_tags;

/* If not: does it bound messages that no receive takes? It does, unless the test says otherwise. */
extern bool mock_bounded;

/* Has the device a choice which sends tell their completion? */
extern bool mock_signal;

/* Do endpoints have a wait object? The test opens mock.fd. */
extern bool mock_wait;

/* Called while a device is opened, if not NULL. */
extern void (*mock_probing)(void);

/* The device completes the oldest op. */
void mock_arrive(void);

/* Of the endpoint that was opened last. */
extern struct mock mock;
extern unsigned int mock_nb_devs, mock_nb_eps;

/* Finishes op i of the list and takes it off. */
void mock_finish(struct leat_ep *ep, unsigned int i, int status, uint64_t len);

#endif /* MOCK_DRIVER_H */
