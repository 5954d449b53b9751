/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm: an endpoint closes while another lcore of its process learns its address. Both are
 * in this thread: the other endpoint's turn comes when libfabric has just unmapped the memory of
 * the one that closes, which it does with munmap().
 */

#include <dlfcn.h>
#include <sys/mman.h>

#include "pair.h"

#define DEV "fabric_ofi0"
/* The memory of an endpoint has more than this, and nothing else that a close unmaps has. */
#define REGION_MIN (1u << 20)
#define OPS (LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV))

static struct leat_dev *dev;

/* ---- what happens when the memory is gone ---- */

static void (*unmap_event)(void); /* NULL: nothing, or it has happened */

/* In place of libc's, for libfabric. */
int
munmap(void *addr, size_t len) /* NOLINT(readability-inconsistent-declaration-parameter-name) */
{
	static int (*next)(void *addr, size_t len);
	void (*event)(void) = unmap_event;
	int ret;

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "munmap");
	ret = next(addr, len);
	if (event != NULL && len >= REGION_MIN) {
		unmap_event = NULL;
		event();
	}
	return ret;
}

/* ---- the two endpoints ---- */

static struct leat_ep *asks, *listens;
static struct leat_event ev;

static void
until_event(struct leat_ep *ep, enum leat_event_type type)
{
	struct leat_op *ops[8];

	UNTIL(TIMEOUT_US, (void)leat_ep_poll(ep, ops, RTE_DIM(ops)),
	      leat_ep_events(ep, &ev, 1) == 1);
	assert_int_equal(ev.type, type);
}

/* @return when the listener has the request */
static void
ask(void)
{
	char addr[LEAT_ADDR_MAX];

	asks = ep_open(dev, OPS);
	listens = ep_open(dev, OPS);
	assert_int_equal(leat_ep_listen(listens, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(listens, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(asks, addr, NULL) >= 0);
	ev.type = LEAT_EV_CONNECTED;
	UNTIL(TIMEOUT_US, assert_int_equal(leat_ep_events(asks, &ev, 1), 0),
	      leat_ep_events(listens, &ev, 1) == 1);
	assert_int_equal(ev.type, LEAT_EV_CONNECT_REQ);
}

static void
accept_it(void)
{
	assert_int_equal(leat_ep_accept(listens, ev.peer, NULL), 0);
}

/* The one that asked closes, and is accepted. */
static void
asking_one(void **state)
{
	(void)state;
	ask();
	unmap_event = accept_it;
	assert_int_equal(leat_ep_close(asks, 0, NULL, NULL), 0);
	assert_null(unmap_event);
	until_event(listens, LEAT_EV_DISCONNECTED);
	assert_int_equal(ev.status, -EHOSTUNREACH);
	assert_int_equal(leat_ep_close(listens, 0, NULL, NULL), 0);
}

static void
hear(void)
{
	until_event(asks, LEAT_EV_CONNECT_FAILED);
}

/* The one that listens accepts and closes; the answer is read then. */
static void
listening_one(void **state)
{
	(void)state;
	ask();
	accept_it();
	unmap_event = hear;
	assert_int_equal(leat_ep_close(listens, 0, NULL, NULL), 0);
	assert_null(unmap_event);
	assert_int_equal(ev.status, -EHOSTUNREACH);
	assert_int_equal(leat_ep_close(asks, 0, NULL, NULL), 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(asking_one),
		cmocka_unit_test(listening_one),
	};
	int ret;

	dev = dev_start(argc, argv, DEV ",provider=shm,tags=1");
	if (dev == NULL)
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
