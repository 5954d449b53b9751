/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-shm-stopped EAL-ARGUMENTS
 *
 * With share=1 an initiator executes its ops on the target's memory itself. Here it is stopped in
 * the middle of a WRITE (SIGSTOP). Until the initiator has continued or is dead, the target must
 * not get its memory back: deregister, disconnect and close do not complete.
 *
 *     target (this process)                     initiator (a child)
 *     a region                                  WRITE, WRITE, ... of all of the region
 *     an early word is new, a late one is not
 *     SIGSTOP
 *     deregister | disconnect | close
 *     SIGCONT or SIGKILL
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_malloc.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"
#include "traffic.h"

#define DEVICE "fabric_shm0"
#define ADDR "shm:stopped"
#define OPS (LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV))
#define REGION ((size_t)48 << 20)
#define WORDS (REGION / sizeof(uint64_t))
#define PATIENCE_US UINT64_C(20000000)
/* Time for which a test checks that something does not happen. */
#define WATCHED_MS 300

static char **eal_argv;
static int eal_argc;
/* Arguments of the initiator: EAL changes the array that it is given. */
static char *role_argv[64], role[] = "initiator";

static struct leat_dev *
device(void)
{
	struct leat_dev *dev;

	CHECK(leat_init(eal_argc, eal_argv) >= 0, "leat_init: %s", leat_err_msg());
	dev = leat_dev_by_name(DEVICE);
	CHECK(dev != NULL, "--vdev=" DEVICE ",share=1 expected");
	return dev;
}

/* @return true: there was an event, of that type */
static bool
event(struct leat_ep *ep, enum leat_event_type type, struct leat_event *ev)
{
	(void)leat_ep_poll(ep, NULL, 0);
	if (leat_ep_events(ep, ev, 1) == 1 && ev->type == type)
		return true;
	sched_yield();
	return false;
}

/* ---- the initiator ---- */

/*
 * Connect again if the target refuses this process because it was slow.
 * @return true: connected, to ev->peer
 */
static bool
connected(struct leat_ep *ep, struct leat_event *ev)
{
	(void)leat_ep_poll(ep, NULL, 0);
	if (leat_ep_events(ep, ev, 1) != 1) {
		sched_yield();
		return false;
	}
	if (ev->type == LEAT_EV_CONNECTED)
		return true;
	CHECK(leat_ep_connect(ep, ADDR, NULL) >= 0, "%s", leat_err_msg());
	return false;
}

/* Write until a WRITE fails because the target deregistered the region or disconnected. */
static void
initiator(void)
{
	const struct leat_ep_conf conf = { .max_peers = 4, .ops = OPS };
	struct leat_ep *ep = leat_ep_create(device(), &conf);
	uint64_t *words = malloc(REGION), value = 0;
	struct leat_op op = { .type = LEAT_OP_WRITE, .buf = words, .size = REGION };
	struct leat_op go = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY }, *p = &go;
	struct leat_rkey rkey;
	struct leat_event ev;
	size_t i;

	/* End when the target ends. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	CHECK(words != NULL && ep != NULL, "%s", leat_err_msg());
	CHECK(leat_ep_connect(ep, ADDR, NULL) >= 0, "%s", leat_err_msg());
	UNTIL(PATIENCE_US, , connected(ep, &ev), "the initiator is not connected");
	memcpy(&rkey, ev.priv, sizeof(rkey));
	/*
	 * Wait for a message of the target: after it the connection is up on both sides, and this
	 * side accesses the target's regions directly.
	 */
	CHECK(leat_ep_post(ep, &p, 1) == 1, "%s", leat_err_msg());
	UNTIL(PATIENCE_US, (void)leat_ep_events(ep, NULL, 0), leat_ep_poll(ep, &p, 1) == 1,
	      "the target says nothing");
	p = &op;
	op.peer = ev.peer;
	op.raddr = rkey.addr;
	op.rkey = rkey.key;
	do {
		value++;
		for (i = 0; i < WORDS; i++)
			words[i] = value;
		while (leat_ep_post(ep, &p, 1) == 0)
			(void)leat_ep_poll(ep, NULL, 0);
		while (leat_ep_poll(ep, &p, 1) == 0)
			(void)leat_ep_events(ep, &ev, 1);
	} while (op.status == 0);
	CHECK(op.status == -EACCES || op.status == -ECONNRESET, "WRITE: %s", strerror(-op.status));
	_exit(0);
}

/* ---- the target ---- */

static struct {
	struct leat_dev *dev;
	struct leat_ep *ep;
	struct leat_mr *mr;
	uint64_t *words;
	uint16_t peer;
	pid_t pid;
	bool gone; /* the DISCONNECTED event came */
	int status;
} t;

static volatile sig_atomic_t killed;

static void
drive(void)
{
	struct leat_event ev;

	if (event(t.ep, LEAT_EV_DISCONNECTED, &ev)) {
		t.gone = true;
		t.status = ev.status;
	}
}

static void
spawn(void)
{
	CHECK(posix_spawn(&t.pid, "/proc/self/exe", NULL, NULL, role_argv, environ) == 0,
	      "spawn: %s", strerror(errno));
}

static void
let_in(void)
{
	struct leat_conn_params params = { .priv_len = sizeof(struct leat_rkey) };
	struct leat_op go = { .type = LEAT_OP_SEND }, *p = &go;
	struct leat_rkey rkey;
	struct leat_event ev;

	CHECK(leat_mr_rkey(t.mr, t.words, REGION, &rkey) == 0, "%s", leat_err_msg());
	params.priv = &rkey;
	UNTIL(PATIENCE_US, , event(t.ep, LEAT_EV_CONNECT_REQ, &ev), "no initiator comes");
	t.peer = ev.peer;
	CHECK(leat_ep_accept(t.ep, t.peer, &params) == 0, "%s", leat_err_msg());
	UNTIL(PATIENCE_US, , event(t.ep, LEAT_EV_CONNECTED, &ev), "it does not connect");
	go.peer = t.peer;
	CHECK(leat_ep_post(t.ep, &p, 1) == 1, "%s", leat_err_msg());
	UNTIL(PATIENCE_US, , leat_ep_poll(t.ep, &p, 1) == 1, "a message is not sent");
}

/*
 * Stop the initiator. @return true: it stands still in the middle of a WRITE; false: it was not in
 * one, and runs again
 */
static bool
stop_it(void)
{
	/* Look at words within the region: memcpy() writes both ends of a buffer last. */
	const uint64_t *early = &t.words[WORDS / 8], *late = &t.words[WORDS - WORDS / 8];
	const uint64_t old = __atomic_load_n(early, __ATOMIC_RELAXED);
	int status;

	UNTIL(PATIENCE_US, drive(), __atomic_load_n(early, __ATOMIC_RELAXED) != old,
	      "the initiator does not write");
	CHECK(kill(t.pid, SIGSTOP) == 0, "kill: %s", strerror(errno));
	CHECK(waitpid(t.pid, &status, WUNTRACED) == t.pid && WIFSTOPPED(status),
	      "the initiator does not stop: status %#x", (unsigned int)status);
	if (__atomic_load_n(early, __ATOMIC_RELAXED) != __atomic_load_n(late, __ATOMIC_RELAXED))
		return true;
	CHECK(kill(t.pid, SIGCONT) == 0, "kill: %s", strerror(errno));
	return false;
}

/* Open an endpoint with a peer that stands still in the middle of a WRITE to its region. */
static int
setup(void **state)
{
	const struct leat_ep_conf conf = { .max_peers = 4, .ops = OPS };

	(void)state;
	memset(t.words, 0, REGION);
	t.gone = false;
	t.ep = leat_ep_create(t.dev, &conf);
	CHECK(t.ep != NULL, "%s", leat_err_msg());
	t.mr = leat_mr_register(t.ep, t.words, REGION, LEAT_MR_REMOTE_WRITE);
	CHECK(t.mr != NULL && leat_ep_listen(t.ep, ADDR) == 0, "%s", leat_err_msg());
	spawn();
	let_in();
	while (!stop_it())
		;
	return 0;
}

static void
watch(void)
{
	const uint64_t end = leat_now() + leat_us_to_cycles(WATCHED_MS * UINT64_C(1000));

	while (leat_now() < end)
		drive();
}

static void
assert_busy(void)
{
	assert_int_equal(leat_mr_deregister(t.mr), -EBUSY);
}

static void
assert_ends(int status)
{
	int how;

	/* Drive the target meanwhile: the initiator may wait for its answer. */
	UNTIL(PATIENCE_US, drive(), waitpid(t.pid, &how, WNOHANG) == t.pid, "it does not end");
	assert_int_equal(how, status);
}

static int
dereg(void)
{
	drive();
	return leat_mr_deregister(t.mr);
}

static void
test_deregister_and_go_on(void **state)
{
	uint64_t sum = 0, again = 0;
	size_t i;

	(void)state;
	assert_busy();
	watch();
	assert_busy();
	assert_int_equal(kill(t.pid, SIGCONT), 0);
	UNTIL(PATIENCE_US, , dereg() == 0, "the region stays busy");
	for (i = 0; i < WORDS; i++)
		sum += t.words[i];
	watch();
	for (i = 0; i < WORDS; i++)
		again += t.words[i];
	assert_int_equal(sum, again);
	/* The initiator's next WRITE failed because the region was deregistered, so it ended. */
	assert_ends(0);
	assert_int_equal(leat_ep_close(t.ep, 0, NULL, NULL), 0);
}

static void
test_deregister_and_die(void **state)
{
	(void)state;
	assert_busy();
	assert_int_equal(kill(t.pid, SIGKILL), 0);
	UNTIL(PATIENCE_US, , dereg() == 0, "the region stays busy");
	UNTIL(PATIENCE_US, drive(), t.gone, "the death is not told");
	assert_int_equal(t.status, -ECONNRESET);
	assert_ends(SIGKILL);
	assert_int_equal(leat_ep_close(t.ep, 0, NULL, NULL), 0);
}

static void
test_disconnect_and_go_on(void **state)
{
	(void)state;
	assert_int_equal(leat_ep_disconnect(t.ep, t.peer), 0);
	watch();
	assert_false(t.gone);
	assert_busy();
	assert_int_equal(kill(t.pid, SIGCONT), 0);
	UNTIL(PATIENCE_US, drive(), t.gone, "the disconnection does not end");
	assert_int_equal(leat_mr_deregister(t.mr), 0);
	/* The initiator's next WRITE failed, or it got the event. */
	assert_ends(0);
	assert_int_equal(leat_ep_close(t.ep, 0, NULL, NULL), 0);
}

static void
test_disconnect_and_die(void **state)
{
	(void)state;
	assert_int_equal(leat_ep_disconnect(t.ep, t.peer), 0);
	watch();
	assert_false(t.gone);
	assert_int_equal(kill(t.pid, SIGKILL), 0);
	UNTIL(PATIENCE_US, drive(), t.gone, "the disconnection does not end");
	assert_int_equal(leat_mr_deregister(t.mr), 0);
	assert_ends(SIGKILL);
	assert_int_equal(leat_ep_close(t.ep, 0, NULL, NULL), 0);
}

static void
on_alarm(int sig)
{
	(void)sig;
	killed = 1;
	(void)kill(t.pid, SIGKILL);
}

static void
test_close(void **state)
{
	const struct itimerval soon = { .it_value = { .tv_usec = WATCHED_MS * 1000 } };
	int how;

	(void)state;
	killed = 0;
	assert_non_null(t.mr);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	/* Closing the endpoint deregisters the remaining regions. */
	assert_int_equal(leat_ep_close(t.ep, 0, NULL, NULL), 0);
	assert_true(killed);
	assert_int_equal(waitpid(t.pid, &how, 0), t.pid);
	assert_int_equal(how, SIGKILL);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_deregister_and_go_on, setup),
		cmocka_unit_test_setup(test_deregister_and_die, setup),
		cmocka_unit_test_setup(test_disconnect_and_go_on, setup),
		cmocka_unit_test_setup(test_disconnect_and_die, setup),
		cmocka_unit_test_setup(test_close, setup),
	};
	int i;

	if (argc > 1 && strcmp(argv[1], "initiator") == 0) {
		for (i = 1; i < argc; i++)
			argv[i] = argv[i + 1];
		eal_argc = argc - 1;
		eal_argv = argv;
		initiator();
	}
	eal_argc = argc;
	eal_argv = argv;
	role_argv[0] = argv[0];
	role_argv[1] = role;
	for (i = 1; i < argc && i < (int)RTE_DIM(role_argv) - 2; i++)
		role_argv[i + 1] = argv[i];
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR, "signal: %s", strerror(errno));
	t.dev = device();
	t.words = rte_malloc(NULL, REGION, LEAT_CACHE_LINE);
	CHECK(t.words != NULL, "out of EAL's memory");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
