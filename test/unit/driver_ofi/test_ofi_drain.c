/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One drain pass (ofi_drain.c) over a provider that exists only in this program: it holds messages
 * of one address, and completes a cancelled receive by a message if there is one.
 */

#include <stdlib.h>

#include "ofi_pvt.h"

#include "leat_cmocka.h"

#define SLOTS 4
#define ENTRIES 16

/* ---- the provider ---- */

struct entry {
	void *context;
	int err; /* 0: a message was received */
};

static struct entry entries[ENTRIES];
static unsigned int nb_entries, nb_read, nb_messages;
/* Context of an earlier receive, whose cancel completes just before the next receive; or NULL. */
static void *late;

static void
put(void *context, int err)
{
	assert_in_range(nb_entries, 0, ENTRIES - 1);
	entries[nb_entries++] = (struct entry){ context, err };
}

static ssize_t
fake_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
	   fi_addr_t src_addr, void *context)
{
	(void)ep, (void)iov, (void)desc, (void)count, (void)src_addr, (void)context;
	return 0;
}

static ssize_t
fake_cancel(fid_t fid, void *context)
{
	(void)fid;
	if (late != NULL)
		put(late, FI_ECANCELED);
	late = NULL;
	put(context, nb_messages > 0 ? 0 : FI_ECANCELED);
	nb_messages -= nb_messages > 0;
	return 0;
}

static ssize_t
fake_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	(void)cq, (void)src_addr;
	if (nb_read == nb_entries || count == 0)
		return -FI_EAGAIN;
	if (entries[nb_read].err != 0)
		return -FI_EAVAIL;
	*(struct fi_cq_tagged_entry *)buf = (struct fi_cq_tagged_entry){
		.op_context = entries[nb_read++].context,
		.flags = FI_RECV,
	};
	return 1;
}

static ssize_t
fake_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	(void)cq, (void)flags;
	if (nb_read == nb_entries || entries[nb_read].err == 0)
		return -FI_EAGAIN;
	buf->op_context = entries[nb_read].context;
	buf->err = entries[nb_read++].err;
	return 1;
}

/* ---- the endpoint ---- */

static struct fi_ops_msg msg_ops = { .size = sizeof(msg_ops), .recvv = fake_recvv };
static struct fi_ops_ep ep_ops = { .size = sizeof(ep_ops), .cancel = fake_cancel };
static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops),
	.readfrom = fake_readfrom,
	.readerr = fake_readerr,
};
static struct fid_ep fid = { .ops = &ep_ops, .msg = &msg_ops };
static struct fid_cq cq = { .ops = &cq_ops };
static struct fi_info info;
static struct ofi_dev dev = { .name = "fake", .caps = FI_DIRECTED_RECV };
static struct ofi_slot slots[SLOTS];
static struct ofi_addr addr;
static struct ofi_ep e;

static int
setup(void **state)
{
	uint32_t i;

	(void)state;
	nb_entries = nb_read = nb_messages = 0;
	late = NULL;
	memset(&addr, 0, sizeof(addr));
	memset(slots, 0, sizeof(slots));
	e = (struct ofi_ep){
		.fid = &fid,
		.cq = &cq,
		.info = &info,
		.dev = &dev,
		.slots = slots,
		.nb_slots = SLOTS,
		.source = true,
	};
	for (i = SLOTS; i > 0; i--)
		ofi_slot_put(&e, &slots[i - 1]);
	return 0;
}

/* Take a slot for a receive that the driver ended by force. */
static struct ofi_slot *
orphan(void)
{
	struct ofi_slot *s = e.free;

	e.free = s->next;
	s->state = OFI_SLOT_ORPHAN;
	s->flags = OFI_SLOT_CANCEL;
	s->addr = NULL;
	e.nb_orphans++;
	return s;
}

/* ---- tests ---- */

/* A pass counts the messages that it discards, and gives all its slots back. */
static void
all_messages(void **state)
{
	unsigned int n;

	for (n = 0; n < 4; n++) {
		setup(state);
		nb_messages = n;
		assert_int_equal(ofi_drain(&e, &addr), n);
		assert_int_equal(nb_messages, 0);
		assert_int_equal(e.nb_orphans, 0);
		assert_int_equal(addr.orphans, 0);
	}
}

/*
 * The cancel of an earlier receive completes while the pass waits for its own receive, which gets a
 * message: the message counts, and the pass goes on to the next message.
 */
static void
late_cancel(void **state)
{
	(void)state;
	late = &orphan()->ctx;
	nb_messages = 2;
	assert_int_equal(ofi_drain(&e, &addr), 2);
	assert_int_equal(nb_messages, 0);
	assert_int_equal(e.nb_orphans, 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_messages, setup),
		cmocka_unit_test_setup(late_cancel, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
