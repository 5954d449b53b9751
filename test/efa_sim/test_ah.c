/* SPDX-License-Identifier: BSD-3-Clause */

/* Address handles: their numbers, and the number or GID that a receive reports of its sender. */

#include <errno.h>
#include <string.h>

#include "test.h"

#define NO_AH 0xffff

static uint16_t
number_of(struct ibv_ah *ah)
{
	struct efadv_ah_attr attr = { 0 };

	CHECK_EQUAL(efadv_query_ah(ah, &attr, sizeof(attr)), 0);
	return attr.ahn;
}

static void
numbers(void)
{
	struct efadv_ah_attr attr;
	struct host a, b, again;
	struct ibv_ah *ah[5];

	host_open(&a, 0);
	host_open(&again, 0);
	host_open(&b, 1);
	ah[0] = ah_open(&a, &a.gid);
	ah[1] = ah_open(&a, &a.gid);
	ah[2] = ah_open(&again, &a.gid); /* a different protection domain */
	ah[3] = ah_open(&a, &b.gid);
	ah[4] = ah_open(&b, &a.gid); /* a different device */
	CHECK_EQUAL(number_of(ah[0]), number_of(ah[1]));
	CHECK_EQUAL(number_of(ah[0]), number_of(ah[2]));
	CHECK(number_of(ah[0]) != number_of(ah[3]));
	CHECK(number_of(ah[0]) != number_of(ah[4]));
	CHECK_EQUAL(efadv_query_ah(ah[0], &attr, 4), EINVAL);
	for (int i = 0; i < 5; i++)
		ah_close(ah[i]);
	host_close(&a);
	host_close(&b);
	host_close(&again);
}

/* Numbers are reused, and no two GIDs have the same one at a time. */
static void
many_numbers(void)
{
	struct ibv_ah *held, *ah;
	union ibv_gid gid;
	struct host host;
	bool begun = false;

	host_open(&host, 0);
	held = ah_open(&host, &host.gid);
	gid = host.gid;
	gid.raw[0]++;
	for (uint32_t i = 0; i < 2 * NO_AH; i++) {
		memcpy(gid.raw + 4, &i, sizeof(i));
		ah = ah_open(&host, &gid);
		CHECK(number_of(ah) != number_of(held));
		begun = begun || number_of(ah) < number_of(held);
		CHECK(number_of(ah) != NO_AH);
		ah_close(ah);
	}
	CHECK(begun);
	ah_close(held);
	host_close(&host);
}

static void
message(struct ep *from, struct ibv_ah *ah, struct ep *to, struct comp *comp)
{
	CHECK_EQUAL(post_recv(to, 1, 0, 8), 0);
	CHECK_EQUAL(post_send(from, 2, ah, &to->addr, 0, 8), 0);
	CHECK_EQUAL(comp_expect(from, ST_OK), 2);
	comp_wait(to, comp);
	CHECK_EQUAL(comp->status, ST_OK);
	CHECK_EQUAL(comp->src_qp, from->addr.qpn);
}

static void
senders(void)
{
	struct ibv_ah *to, *back;
	struct host a, b;
	struct comp comp;
	struct ep from, ep;

	host_open(&a, 0);
	host_open(&b, 1);
	ep_open(&from, &a, NULL);
	ep_open(&ep, &b, NULL);
	to = ah_open(&a, &b.gid);
	message(&from, to, &ep, &comp);
	CHECK_EQUAL(comp.slid, NO_AH);
	CHECK_EQUAL(comp.sgid_err, 0);
	CHECK(memcmp(&comp.sgid, &a.gid, sizeof(a.gid)) == 0);
	back = ah_open(&b, &a.gid);
	message(&from, to, &ep, &comp);
	CHECK_EQUAL(comp.slid, number_of(back));
	CHECK_EQUAL(comp.sgid_err, -ENOENT);
	ah_close(back);
	message(&from, to, &ep, &comp);
	CHECK_EQUAL(comp.slid, NO_AH);
	CHECK_EQUAL(comp.sgid_err, 0);
	ah_close(to);
	ep_close(&from);
	ep_close(&ep);
	host_close(&a);
	host_close(&b);
}

/* If the device forgets a sender's AH (lose-ah-ppm), the completion has the sender's GID. */
static void
forgotten(void)
{
	struct host host;
	struct comp comp;
	struct ibv_ah *ah;
	struct ep a;
	int known = 0;

	host_open(&host, 0);
	ep_open(&a, &host, NULL);
	ah = ah_open(&host, &host.gid);
	for (int i = 0; i < 200; i++) {
		message(&a, ah, &a, &comp);
		CHECK(comp.slid == NO_AH || comp.slid == number_of(ah));
		CHECK_EQUAL(comp.sgid_err, comp.slid == NO_AH ? 0 : -ENOENT);
		known += comp.slid != NO_AH;
	}
	CHECK(known > 50 && known < 150);
	ah_close(ah);
	ep_close(&a);
	host_close(&host);
}

const struct test tests_ah[] = {
	{ .name = "ah-numbers", .config = "devices=2", .run = numbers },
	{ .name = "ah-many-numbers", .run = many_numbers },
	{ .name = "ah-senders", .config = "devices=2", .run = senders },
	{ .name = "ah-forgotten", .config = "lose-ah-ppm=500000", .run = forgotten },
	{ 0 },
};
