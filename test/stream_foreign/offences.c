/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>

#include "offences.h"

#define ENDS_MS 20000
#define FLOOD 3000u

/* ---- control messages ---- */

static int
keepalive_of(struct conn *c, uint32_t len)
{
	uint8_t msg[RECV_LEN] = { 0 };

	wire_put_keepalive(msg);
	return conn_control(c, msg, len);
}

static int
short_message(struct conn *c)
{
	return keepalive_of(c, CONTROL_LEN - 1);
}

static int
long_message(struct conn *c)
{
	return keepalive_of(c, CONTROL_LEN + 1);
}

static int
empty_message(struct conn *c)
{
	return keepalive_of(c, 0);
}

static int
double_message(struct conn *c)
{
	return keepalive_of(c, 2 * CONTROL_LEN);
}

static int
opcode(struct conn *c, uint16_t op)
{
	uint8_t msg[CONTROL_LEN] = { 0 };

	wire_put(msg, 2, op);
	return conn_control(c, msg, sizeof(msg));
}

static int
next_opcode(struct conn *c)
{
	return opcode(c, OP_REGISTER_MEMORY + 1);
}

static int
last_opcode(struct conn *c)
{
	return opcode(c, UINT16_MAX);
}

/* Send a Keepalive in the wrong byte order. */
static int
little_endian(struct conn *c)
{
	return opcode(c, OP_KEEPALIVE << 8);
}

static int
window(struct conn *c, uint64_t addr, uint32_t length)
{
	const struct memory m = { .addr = addr, .length = length, .key = 0x1234 };
	uint8_t msg[CONTROL_LEN];

	wire_put_memory(msg, &m);
	return conn_control(c, msg, sizeof(msg));
}

static int
window_empty(struct conn *c)
{
	return window(c, 4096, 0);
}

static int
window_huge(struct conn *c)
{
	return window(c, 4096, UINT32_MAX);
}

static int
window_wraps(struct conn *c)
{
	return window(c, UINT64_MAX - 100, 4096);
}

/* ---- floods, each within the number of sends that may be posted ---- */

static int
flood(struct conn *c, const uint8_t *msg)
{
	unsigned int i;

	for (i = 0; i < FLOOD && !c->closed; i++) {
		while (!conn_idle_slot(c)) {
			if (conn_step(c, 50) != 0)
				return c->broken ? -1 : 0;
		}
		if (conn_control(c, msg, CONTROL_LEN) != 0)
			return -1;
	}
	return 0;
}

static int
question_flood(struct conn *c)
{
	uint8_t msg[CONTROL_LEN];

	c->conf.asks = true;
	wire_put_feature(msg, OP_GET_SERVER_FEATURE, 0, 0);
	return flood(c, msg);
}

static int
keepalive_flood(struct conn *c)
{
	uint8_t msg[CONTROL_LEN];

	wire_put_keepalive(msg);
	return flood(c, msg);
}

static int
window_flood(struct conn *c)
{
	const struct memory m = { .addr = (uintptr_t)c->rx,
				  .length = c->rx_len,
				  .key = c->rx_mr->rkey };
	uint8_t msg[CONTROL_LEN];

	wire_put_memory(msg, &m);
	return flood(c, msg);
}

/* ---- notices ---- */

static int
notice(struct conn *c, uint32_t imm)
{
	return conn_raw_write(c, c->peer.addr, c->peer.key, c->peer.length != 0, true, imm);
}

static int
notice_beyond(struct conn *c)
{
	return notice(c, c->peer.length + 1);
}

static int
notice_max(struct conn *c)
{
	return notice(c, UINT32_MAX);
}

static int
notices_add_up(struct conn *c)
{
	return notice(c, c->peer.length / 2 + 1) == 0 ? notice(c, c->peer.length / 2 + 1) : -1;
}

/* Send two notices whose sum, in 32 bits, wraps around to a small number. */
static int
notices_wrap(struct conn *c)
{
	return notice(c, 1000) == 0 ? notice(c, UINT32_MAX - 500) : -1;
}

static int
notice_zero(struct conn *c)
{
	return notice(c, 0);
}

/* Announce bytes before the victim's window is known, so that none can have been written. */
static int
early_notice(struct conn *c)
{
	return conn_raw_write(c, 0, 0, 0, true, 1000);
}

/* ---- writes to memory ---- */

static int
write_beyond(struct conn *c)
{
	return conn_raw_write(c, c->peer.addr + c->peer.length - 8, c->peer.key, 16, false, 0);
}

static int
write_before(struct conn *c)
{
	return conn_raw_write(c, c->peer.addr - 8, c->peer.key, 16, false, 0);
}

static int
wrong_key(struct conn *c)
{
	return conn_raw_write(c, c->peer.addr, c->peer.key ^ 0xff00, 16, true, 16);
}

/* ---- standing still ---- */

/*
 * Fill the victim's window. The victim can't send the bytes back, since this side's window is
 * unknown or is full after 64 KiB.
 */
static int
fill(struct conn *c)
{
	while (conn_room(c) > 0) {
		uint32_t len = conn_room(c) < 65536 ? conn_room(c) : 65536;

		if (!conn_idle_slot(c)) {
			if (conn_step(c, 50) != 0)
				return -1;
			continue;
		}
		if (conn_write(c, 1, len, 1) != 0)
			return -1;
	}
	return 0;
}

const struct offence offences[] = {
	{ .name = "message-31", .commit = short_message },
	{ .name = "message-33", .commit = long_message },
	{ .name = "message-0", .commit = empty_message },
	{ .name = "message-64", .commit = double_message },
	{ .name = "opcode-4", .commit = next_opcode },
	{ .name = "opcode-65535", .commit = last_opcode },
	{ .name = "opcode-swapped", .commit = little_endian },
	{ .name = "window-empty", .commit = window_empty },
	{ .name = "window-huge", .commit = window_huge },
	{ .name = "window-wraps", .commit = window_wraps },
	{ .name = "notice-beyond", .commit = notice_beyond },
	{ .name = "notice-max", .commit = notice_max },
	{ .name = "notices-add-up", .commit = notices_add_up },
	{ .name = "notices-wrap", .commit = notices_wrap },
	{ .name = "notice-zero", .commit = notice_zero, .outcome = EITHER },
	{ .name = "notice-early", .commit = early_notice, .outcome = EITHER, .at_once = true },
	{ .name = "write-beyond", .commit = write_beyond, .status = IBV_WC_REM_ACCESS_ERR },
	{ .name = "write-before", .commit = write_before, .status = IBV_WC_REM_ACCESS_ERR },
	{ .name = "wrong-key", .commit = wrong_key, .status = IBV_WC_REM_ACCESS_ERR },
	{ .name = "question-flood", .commit = question_flood, .outcome = EITHER },
	{ .name = "keepalive-flood", .commit = keepalive_flood, .outcome = STAYS },
	{ .name = "window-flood", .commit = window_flood, .outcome = EITHER },
	{ .name = "silence", .outcome = STAYS },
	{ .name = "no-receives", .outcome = EITHER, .at_once = true, .no_receives = true },
	{ .name = "no-window", .commit = fill, .outcome = STAYS, .no_window = true },
	{ .name = "no-reading", .commit = fill, .outcome = STAYS },
};
const unsigned int offences_n = sizeof(offences) / sizeof(offences[0]);

const struct offence *
offence_by_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < offences_n; i++) {
		if (strcmp(offences[i].name, name) == 0)
			return &offences[i];
	}
	return NULL;
}

void
offence_conf(const struct offence *o, struct conn_conf *conf)
{
	if (o->no_receives)
		conf->recvs = 0;
	conf->no_registration = o->no_window;
}

/* Return what is wrong with the outcome of the offence; NULL: nothing. */
static const char *
wrong(const struct offence *o, const struct conn *c)
{
	if (c->broken)
		return c->why;
	if (o->outcome == ENDS && !c->closed)
		return "the connection goes on";
	/* A client may leave when it gets bytes that it does not expect. */
	if (o->outcome == STAYS && c->closed && !c->accepted)
		return "the connection has ended";
	if (o->status != IBV_WC_SUCCESS && c->wc_status != o->status)
		return "the work request had another status";
	return NULL;
}

int
offence_run(const struct offence *o, struct conn *c, bool (*beside)(void *arg), void *arg)
{
	uint64_t end = now_ms() + ENDS_MS;
	const char *what;
	bool enough = false;

	if (o->commit != NULL && o->commit(c) != 0 && !c->closed && !c->broken)
		return -1;
	do {
		enough = beside(arg);
		(void)conn_step(c, 1);
	} while (!c->closed && !c->broken && now_ms() < end && (o->outcome == ENDS || !enough));
	what = wrong(o, c);
	if (what == NULL)
		return 0;
	if (what != c->why)
		snprintf(c->why, sizeof(c->why), "%s (%s)", what, ibv_wc_status_str(c->wc_status));
	return -1;
}
