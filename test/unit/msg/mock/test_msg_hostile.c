/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A peer that lies in fragments, answers, ends, drops and control messages, over the mock driver.
 * An impossible message ends its connection with -EPROTO, and no other connection.
 */

#include <string.h>

#include "msg_mock.h"

#define FRAGMENT (UINT64_C(2) << 56)
#define ANSWER (UINT64_C(1) << 56)

enum { MSG = 1, CTRL = 3 };
enum { NUMBERS, DROP, PING, PONG, MORE, ANSWERED, ENDS };

/* A message that arrives. */
struct step {
	uint8_t kind;
	uint32_t id;
	uint64_t len;	  /* head: length and flags */
	const char *data; /* the bytes after the head */
	uint8_t ctrl, reason;
	uint32_t arg;
};

#define HEAD(id_, len_, data_)                                                                     \
	{                                                                                          \
		.kind = MSG, .id = (id_), .len = (len_), .data = (data_)                           \
	}
#define TELL(id_, ctrl_, reason_, arg_)                                                            \
	{                                                                                          \
		.kind = CTRL, .id = (id_), .ctrl = (ctrl_), .reason = (reason_), .arg = (arg_)     \
	}

static void
arrives(struct mm *mm, uint64_t base, const struct step *s)
{
	uint32_t le = rte_cpu_to_le_32(s->arg);
	uint8_t ctrl[16] = { 2, [8] = s->ctrl, s->reason };
	uint64_t n;

	if (s->kind == MSG) {
		n = mm_head(s->len, 2, 0, s->data);
		mm_arrive(mm, 0, MM_TAG(MSG, base, s->id), mm_in, n);
		return;
	}
	memcpy(ctrl + 12, &le, sizeof(le));
	mm_arrive(mm, 0, MM_TAG(CTRL, base, s->id), ctrl, sizeof(ctrl));
}

static void
tell(struct mm *mm, uint64_t base, uint32_t id, uint8_t ctrl, uint8_t reason, uint32_t arg)
{
	const struct step s = TELL(id, ctrl, reason, arg);

	arrives(mm, base, &s);
	mm_drive(mm);
}

/* Check that the second connection still receives a message. */
static void
other_goes_on(struct mm *mm, struct leat_msg_conn *c)
{
	uint64_t n = mm_head(2, 2, 0, "ok");
	struct leat_msg_req rx;
	char buf[8];

	mm_recv(c, &rx, buf, sizeof(buf));
	mm_arrive(mm, 1, MM_TAG(MSG, mm_base(1), 0), mm_in, n);
	mm_drive(mm);
	assert_int_equal(rx.state, 0);
	assert_int_equal(rx.status, 0);
	assert_memory_equal(buf, "ok", 2);
}

static void
has_ended(struct mm *mm, const struct leat_msg_conn *c)
{
	mm_drive(mm);
	mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_ENDED], 1);
	assert_ptr_equal(mm->ev.conn, c);
	assert_int_equal(mm->ev.status, -EPROTO);
}

/*
 * The last of the steps is impossible, and must end the connection. `way` says whether the first
 * receive is long enough or too short, so that its message is dropped; and whether all steps are
 * processed together or one by one. If one by one, no earlier step may end the connection.
 */
static void
broken(const struct step *steps, unsigned int n)
{
	unsigned int i, way;

	for (way = 0; way < 4; way++) {
		struct leat_msg_conn *c[2];
		struct leat_msg_req rx[4];
		char buf[4][16];
		struct mm mm;
		uint64_t base;

		mm_open(&mm);
		c[0] = mm_open_leat(&mm, 0);
		c[1] = mm_open_leat(&mm, 0);
		base = mm_base(0);
		memset(buf, '.', sizeof(buf));
		for (i = 0; i < RTE_DIM(rx); i++)
			mm_recv(c[0], &rx[i], buf[i], i == 0 && (way & 1) != 0 ? 1 : 8);
		for (i = 0; i < n; i++) {
			if ((way & 2) != 0) {
				mm_drive(&mm);
				mm_drive(&mm);
				assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
			}
			arrives(&mm, base, &steps[i]);
		}
		has_ended(&mm, c[0]);
		assert_int_equal(mm.nb_back, RTE_DIM(rx));
		for (i = 0; i < RTE_DIM(rx); i++) {
			assert_int_equal(rx[i].state, 0);
			assert_memory_equal(buf[i] + 8, "........", 8);
		}
		assert_memory_equal(buf[0] + (way & 1 ? 1 : 8), "........", 8);
		other_goes_on(&mm, c[1]);
		mm_close(&mm, c, 2);
	}
}

#define BROKEN(...)                                                                                \
	do {                                                                                       \
		static const struct step steps_[] = { __VA_ARGS__ };                               \
		broken(steps_, RTE_DIM(steps_));                                                   \
	} while (0)

static void
test_fragments(void **state)
{
	(void)state;
	/* a fragment with more bytes than are left: the first, or a later one */
	BROKEN(HEAD(0, FRAGMENT | 2, "abc"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 2, "def"));
	/*
	 * a wrong number of bytes left in the second fragment: more, less, the same as in the first
	 */
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 3, "de"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 1, "d"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 5, "abc"));
	/*
	 * an empty fragment, which gives a message up: as the first one; with another number of
	 * bytes left than expected; twice
	 */
	BROKEN(HEAD(0, FRAGMENT | 5, ""));
	BROKEN(HEAD(0, FRAGMENT, ""));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 5, ""));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT, ""));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 2, ""), HEAD(2, FRAGMENT | 2, ""));
	/* a complete message, and one more fragment */
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, FRAGMENT | 2, "de"),
	       HEAD(2, FRAGMENT | 2, ""));
	/*
	 * another message between the fragments of one: small, empty, asking for an answer, several
	 * in one send, large
	 */
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, 2, "de"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, 0, ""));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, ANSWER | 2, "de"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, 1, "defghijk"));
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, 99, ""));
}

static void
test_ends(void **state)
{
	(void)state;
	/*
	 * an end of sending: sent twice; at an id beyond the credit; at an id before messages that
	 * have arrived
	 */
	BROKEN(TELL(0, ENDS, 0, 0), TELL(1, ENDS, 0, 0));
	BROKEN(TELL(0, ENDS, 0, 2), TELL(1, ENDS, 0, 3));
	BROKEN(TELL(0, ENDS, 0, CREDITS + 1));
	BROKEN(TELL(0, ENDS, 0, UINT32_MAX));
	BROKEN(HEAD(0, 1, "a"), TELL(0, ENDS, 0, 0));
	BROKEN(HEAD(1, 1, "b"), TELL(0, ENDS, 0, 1));
	/* messages after the end, whatever came before them */
	BROKEN(TELL(0, ENDS, 0, 0), HEAD(0, 1, "a"));
	BROKEN(TELL(0, ENDS, 0, 0), HEAD(1, 1, "b"));
	BROKEN(TELL(0, ENDS, 0, 1), HEAD(1, 1, "b"));
	BROKEN(TELL(0, ENDS, 0, 1), HEAD(0, 1, "a"), HEAD(1, 1, "b"));
	BROKEN(TELL(0, ENDS, 0, 1), HEAD(0, ANSWER | 1, "a"), HEAD(1, FRAGMENT | 9, "b"));
	BROKEN(TELL(0, ENDS, 0, 1), HEAD(0, 1, "a"), HEAD(1, 99, ""));
	/* an end between fragments */
	BROKEN(HEAD(0, FRAGMENT | 5, "abc"), TELL(0, ENDS, 0, 1));
	BROKEN(TELL(0, ENDS, 0, 1), HEAD(0, FRAGMENT | 5, "abc"));
}

static void
test_controls(void **state)
{
	(void)state;
	BROKEN(TELL(0, ENDS + 1, 0, 0));
	BROKEN(TELL(0, UINT8_MAX, 0, 0));
	/* an answer when nothing was sent */
	BROKEN(TELL(0, ANSWERED, 0, 1));
	BROKEN(TELL(0, ANSWERED, 0, UINT32_MAX));
	BROKEN(TELL(0, DROP, 1, 0));
	BROKEN(TELL(0, DROP, 2, 1));
	BROKEN(TELL(0, DROP, 1, UINT32_MAX - LEAT_MSG_CREDITS_MAX));
	BROKEN(TELL(0, DROP, 0, UINT32_MAX));
	BROKEN(TELL(0, DROP, 3, UINT32_MAX));
	BROKEN(TELL(0, PONG, 0, 0), TELL(1, ANSWERED, 0, 1));
}

/*
 * Two heads arrive, then the peer ends, then two receives of `size` bytes are posted. Check that
 * these come back with the statuses `first` and `second`.
 */
static void
over(const struct step steps[2], uint64_t size, int first, int second)
{
	struct leat_msg_req rx[2];
	struct leat_msg_conn *c;
	char buf[2][8];
	unsigned int i;
	uint64_t base;
	struct mm mm;

	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	for (i = 0; i < 2; i++)
		arrives(&mm, base, &steps[i]);
	mm_drive(&mm);
	mm_peer_ends(&mm, 0, 0);
	mm_drive(&mm);
	for (i = 0; i < 2; i++)
		mm_recv(c, &rx[i], buf[i], size);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 2);
	assert_int_equal(rx[0].status, first);
	assert_int_equal(rx[1].status, second);
	if (second == 0)
		assert_memory_equal(buf[1], "ok", 2);
	mm_close(&mm, &c, 1);
}

/* Invalid messages that are processed only when the connection is over: none is delivered. */
static void
test_over(void **state)
{
	static const struct step steps[] = { HEAD(0, FRAGMENT | 5, "abc"), HEAD(1, 2, "de") };

	(void)state;
	over(steps, 8, -ENOTCONN, -ENOTCONN);
}

/*
 * A message is dropped after the connection has ended, so the drop can't be reported to its sender.
 * The next message is received nevertheless.
 */
static void
test_over_behind_dropped(void **state)
{
	static const struct step steps[] = { HEAD(0, ANSWER | 5, "fives"), HEAD(1, 2, "ok") };

	(void)state;
	over(steps, 4, -EMSGSIZE, 0);
}

static void
send_delivered(struct leat_msg_conn *c, struct leat_msg_req *req, const void *buf, uint64_t size)
{
	*req = (struct leat_msg_req){ .buf = (void *)(uintptr_t)buf,
				      .size = size,
				      .flags = LEAT_MSG_F_DELIVERED };
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
}

/*
 * Answers to sent messages, and drops of them, that are repeated or come for completed messages,
 * change nothing. An impossible answer ends the connection.
 */
static void
test_answers(void **state)
{
	/*
	 * impossible arguments of the last answer: more messages than were sent, or fewer than were
	 * answered already
	 */
	static const uint32_t wrong[] = { 3, 1, 0, UINT32_MAX, UINT32_C(1) << 31 };
	unsigned int i, k;

	(void)state;
	for (k = 0; k < RTE_DIM(wrong); k++) {
		struct leat_msg_conn *c[2];
		struct leat_msg_req tx[2];
		struct mm mm;
		uint64_t base;

		mm_open(&mm);
		c[0] = mm_open_leat(&mm, 0);
		c[1] = mm_open_leat(&mm, 0);
		base = mm_base(0);
		send_delivered(c[0], &tx[0], "one", 3);
		send_delivered(c[0], &tx[1], "two", 3);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 0);
		/*
		 * A drop and an answer come before the device has completed the sends; later ones
		 * repeat them.
		 */
		tell(&mm, base, 0, DROP, 1, 1);
		tell(&mm, base, 1, ANSWERED, 0, 2);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2);
		assert_int_equal(tx[0].status, 0);
		assert_int_equal(tx[1].status, -EMSGSIZE);
		for (i = 0; i < 2; i++)
			mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, i)), 0, 19);
		tell(&mm, base, 2, ANSWERED, 0, 2);
		tell(&mm, base, 3, DROP, 2, 1);
		tell(&mm, base, 4, DROP, 1, 0);
		tell(&mm, base, 5, DROP, 1, 0);
		mm_drive(&mm);
		assert_int_equal(mm.nb_back, 2);
		assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
		tell(&mm, base, 6, ANSWERED, 0, wrong[k]);
		has_ended(&mm, c[0]);
		other_goes_on(&mm, c[1]);
		mm_close(&mm, c, 2);
	}
}

/*
 * Of three fragments of a message two have been sent. Drops and answers of these two match no
 * request, and do not finish the message's request.
 */
static void
test_answers_of_fragments(void **state)
{
	static char data[64 + 64 + 1];
	struct iovec iov = { data, sizeof(data) };
	struct leat_msg_req tx = { .iov = &iov, .nb_iov = 1 }, *req = &tx;
	struct leat_msg_conn *c;
	unsigned int i;
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c = mm_open_leat(&mm, 0);
	base = mm_base(0);
	tx.flags = LEAT_MSG_F_IOV | LEAT_MSG_F_DELIVERED;
	/* A leftover, as if the request had waited for an answer when its last connection ended. */
	tx.answer_waits = 1;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	mm_drive(&mm);
	assert_int_equal(mm_count(LEAT_OP_TSEND), 2);
	tell(&mm, base, 0, DROP, 1, 0);
	tell(&mm, base, 1, DROP, 1, 1);
	tell(&mm, base, 2, ANSWERED, 0, 2);
	for (i = 0; i < 2; i++)
		mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, i)), 0, 80);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	mm_arrive(&mm, 0, MM_TAG(CTRL, base, 3), "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	mm_drive(&mm);
	mm_finish(&mm, mm_posted(0, LEAT_OP_TSEND, MM_TAG(1, MM_THERE, 2)), 0, 17);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 0);
	tell(&mm, base, 4, ANSWERED, 0, 3);
	mm_drive(&mm);
	assert_int_equal(mm.nb_back, 1);
	assert_int_equal(tx.status, 0);
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	mm_close(&mm, &c, 1);
}

/*
 * The peer sends 1,000 control messages of each kind that it can send without limit. Meanwhile at
 * most one answer is in flight, and no further receive is posted.
 */
static void
test_flood(void **state)
{
	static const uint8_t kinds[] = { NUMBERS, PING, PONG, MORE, ANSWERED };
	struct leat_msg_conn *c[2];
	uint32_t id = 0, pongs = 0;
	unsigned int i, k, recvs;
	struct leat_op *op;
	uint64_t base;
	struct mm mm;

	(void)state;
	mm_open(&mm);
	c[0] = mm_open_leat(&mm, 0);
	c[1] = mm_open_leat(&mm, 0);
	base = mm_base(0);
	mm_drive(&mm);
	recvs = mm_count(LEAT_OP_TRECV);
	for (k = 0; k < RTE_DIM(kinds); k++) {
		for (i = 0; i < 1000; i++) {
			tell(&mm, base, id++, kinds[k], 0, 0);
			assert_int_equal(mm_count(LEAT_OP_TRECV), recvs);
			assert_true(mm_count(LEAT_OP_TSEND) <= 1);
		}
		/* The first PING was answered at once, and one PONG answers all the others. */
		while ((op = mm_posted(0, LEAT_OP_TSEND, MM_TAG(CTRL, MM_THERE, pongs))) != NULL) {
			assert_int_equal(((const uint8_t *)op->buf)[8], PONG);
			mm_finish(&mm, op, 0, op->size);
			mm_drive(&mm);
			pongs++;
		}
		assert_int_equal(pongs, k == 0 ? 0 : 2);
	}
	assert_int_equal(mm.nb_ev[LEAT_MSG_ENDED], 0);
	other_goes_on(&mm, c[1]);
	mm_close(&mm, c, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_over_behind_dropped),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_answers_of_fragments),
		cmocka_unit_test(test_flood),
	};

	return cmocka_run_group_tests_name("msg_hostile", tests, mm_start, mm_stop);
}
