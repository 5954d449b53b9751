/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A process that is killed while it writes to an endpoint over libfabric's shm, at the worst
 * instruction: with the lock of that endpoint's memory taken, or with half an op in its queue.
 * (test_ofi_shm_half.c has all the others, without the driver around them.) The endpoint hears of
 * the death at once, since it does nothing else; it and a third one must go on.
 *
 *     this process:  other <-> target         child, a new run of this program:  dead -> target
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <rdma/fabric.h>

#include "shm_1_17/ofi_shm_mem.h"
#include "pair.h"
#include "stepper.h"

#define DEV "fabric_ofi0"
#define ADDR_ENV "OFI_CHILD_ADDR"
#define TYPE_ENV "OFI_CHILD_TYPE"
#define MESSAGES 200
/* Of a whole test, which would hang in the provider otherwise. */
#define ALARM_S 60

static char **child_argv;

/* ---- the child ---- */

static int
child(const char *addr, enum leat_op_type type)
{
	static uint8_t buf[128];
	struct leat_op op, *o = &op;
	struct leat_dev *dev = leat_dev_by_name(DEV);
	struct leat_dev_info info;
	struct leat_rkey key;
	struct leat_event ev;
	struct leat_ep *ep;
	struct leat_mr *mr;
	int i;

	/* Not alone in an endless loop when the test fails. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || dev == NULL ||
	    leat_dev_info_get(dev, &info) != 0)
		return 1;
	ep = ep_open(dev, info.ops);
	mr = reg(ep, buf, sizeof(buf), NULL);
	if (leat_ep_connect(ep, addr, NULL) < 0)
		return 1;
	while (leat_ep_events(ep, &ev, 1) == 0)
		(void)sched_yield();
	if (ev.type != LEAT_EV_CONNECTED)
		return 1;
	memcpy(&key, ev.priv, sizeof(key));
	/* The first time so that both know each other, the second time step by step. */
	for (i = 0; i < 2; i++) {
		op = (struct leat_op){ .type = type,
				       .peer = ev.peer,
				       .buf = buf,
				       .size = type == LEAT_OP_FETCH_ADD ? 8 : 100,
				       .mr = mr,
				       .raddr = key.addr,
				       .rkey = key.key,
				       .operand = 1 };
		if (i == 1 && !stepper_here(true))
			return 1;
		while (leat_ep_post(ep, &o, 1) != 1) {
			(void)leat_ep_poll(ep, &o, 1);
			(void)sched_yield();
		}
		if (i == 1)
			(void)stepper_here(false);
		while (leat_ep_poll(ep, &o, 1) != 1)
			(void)sched_yield();
		if (op.status != 0)
			return 1;
	}
	return 0;
}

static pid_t
spawn(const char *addr, enum leat_op_type type)
{
	char text[16];
	pid_t pid;

	snprintf(text, sizeof(text), "%d", (int)type);
	assert_int_equal(setenv(ADDR_ENV, addr, 1), 0);
	assert_int_equal(setenv(TYPE_ENV, text, 1), 0);
	pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", child_argv);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

/* ---- this process ---- */

struct scene {
	struct node target, other;
	uint16_t child; /* target's peer */
	bool child_up;
	struct leat_mr *mr;
	struct leat_rkey key;
	uint8_t buf[256];
	struct ofi_shm_mem *mem[2]; /* of both endpoints */
	size_t len[2];
	int32_t unlocked; /* the value of a free lock */
};

static void
turn(struct scene *s)
{
	struct leat_conn_params cp = { .priv = &s->key, .priv_len = sizeof(s->key) };
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t got;

	node_turn(&s->other);
	got = leat_ep_poll(s->target.ep, ops, 32);
	s->target.nb_done += got;
	if (got == 0)
		(void)sched_yield();
	while (leat_ep_events(s->target.ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			assert_int_equal(leat_ep_accept(s->target.ep, ev.peer, &cp), 0);
		} else if (ev.type == LEAT_EV_CONNECTED && !s->target.up) {
			s->target.peer = ev.peer;
			s->target.up = true;
		} else if (ev.type == LEAT_EV_CONNECTED) {
			s->child = ev.peer;
			s->child_up = true;
		} else if (ev.type == LEAT_EV_DISCONNECTED) {
			assert_int_equal(ev.peer, s->child);
			s->child_up = false;
		}
	}
}

#define SCENE_UNTIL(s, cond) UNTIL(TIMEOUT_US, turn(s), cond)

/*
 * The provider's memory of this process's endpoints. In /dev/shm there may be more of such a name:
 * a process that was killed leaves it, and its pid is given out again. Only what lives is mapped
 * here.
 */
static void
mem_open(struct scene *s)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char mine[48], line[512], path[2][300];
	struct stat st;
	int fd, n = 0;

	assert_non_null(maps);
	snprintf(mine, sizeof(mine), "/dev/shm/leat-%d-", (int)getpid());
	while (fgets(line, sizeof(line), maps) != NULL) {
		const char *name = strstr(line, mine);

		if (name == NULL || strstr(name, " (deleted)") != NULL)
			continue;
		line[strcspn(line, "\n")] = '\0';
		/* Mapped twice, by its peer here or by this test. */
		if ((n > 0 && strcmp(name, path[0]) == 0) || (n > 1 && strcmp(name, path[1]) == 0))
			continue;
		assert_true(n < 2);
		snprintf(path[n], sizeof(path[n]), "%s", name);
		fd = open(path[n], O_RDWR);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		s->len[n] = (size_t)st.st_size;
		s->mem[n] = mmap(NULL, s->len[n], PROT_READ, MAP_SHARED, fd, 0);
		assert_true(s->mem[n] != MAP_FAILED);
		assert_int_equal(close(fd), 0);
		n++;
	}
	assert_int_equal(n, 2);
	assert_int_equal(fclose(maps), 0);
	s->unlocked = s->mem[0]->lock;
}

static bool
locked(const struct scene *s)
{
	return s->mem[0]->lock != s->unlocked || s->mem[1]->lock != s->unlocked;
}

/* Commands written to either queue so far. */
static size_t
commands(const struct scene *s)
{
	size_t n = 0;
	int i;

	for (i = 0; i < 2; i++) {
		const struct ofi_shm_mem *m = s->mem[i];
		const struct ofi_shm_cmd_queue *q =
			(const void *)((const char *)m + m->cmd_queue_offset);

		n += q->wcnt;
	}
	return n;
}

static void
scene_open(struct scene *s)
{
	struct leat_dev *dev = leat_dev_by_name(DEV);
	char addr[LEAT_ADDR_MAX];
	struct leat_dev_info info;

	memset(s, 0, sizeof(*s));
	assert_non_null(dev);
	assert_int_equal(leat_dev_info_get(dev, &info), 0);
	s->target.ep = ep_open(dev, info.ops);
	s->other.ep = ep_open(dev, info.ops);
	s->mr = reg(s->target.ep, s->buf, sizeof(s->buf), &s->key);
	assert_int_equal(leat_ep_listen(s->target.ep, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(s->target.ep, addr, sizeof(addr)), 0);
	assert_true(leat_ep_connect(s->other.ep, addr, NULL) >= 0);
	SCENE_UNTIL(s, s->target.up && s->other.up);
	mem_open(s);
}

static void
mem_close(struct scene *s)
{
	assert_int_equal(munmap(s->mem[0], s->len[0]), 0);
	assert_int_equal(munmap(s->mem[1], s->len[1]), 0);
}

static void
scene_close(struct scene *s)
{
	mem_close(s);
	assert_int_equal(leat_mr_deregister(s->mr), 0);
	(void)leat_ep_close(s->other.ep, 100000, NULL, NULL);
	(void)leat_ep_close(s->target.ep, 100000, NULL, NULL);
}

static void
send_all(struct scene *s, struct node *from, struct node *to)
{
	static uint8_t tx[8], rx[64];
	struct leat_op send, recv;
	uint32_t i;

	for (i = 0; i < MESSAGES; i++) {
		struct leat_op *o = &recv;

		memcpy(tx, &i, sizeof(i));
		recv = (struct leat_op){
			.type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY, .buf = rx, .size = sizeof(rx)
		};
		assert_int_equal(leat_ep_post(to->ep, &o, 1), 1);
		send = (struct leat_op){
			.type = LEAT_OP_SEND, .peer = from->peer, .buf = tx, .size = sizeof(tx)
		};
		o = &send;
		SCENE_UNTIL(s, leat_ep_post(from->ep, &o, 1) == 1);
		SCENE_UNTIL(s, op_done(&send) && op_done(&recv));
		assert_int_equal(send.status, 0);
		assert_int_equal(recv.status, 0);
		assert_memory_equal(rx, tx, sizeof(tx));
	}
}

/*
 * A child does an op, and is killed when the lock is taken, or when half of the op is in the queue.
 */
static void
kill_child(struct scene *s, enum leat_op_type type, bool half)
{
	struct leat_op imm = { .type = LEAT_OP_RECV, .peer = LEAT_PEER_ANY }, *o = &imm;
	char addr[LEAT_ADDR_MAX];
	uint32_t quiet;
	size_t before;
	pid_t pid;

	if (type == LEAT_OP_WRITE_IMM)
		assert_int_equal(leat_ep_post(s->target.ep, &o, 1), 1);
	assert_int_equal(leat_ep_listen_addr(s->target.ep, addr, sizeof(addr)), 0);
	pid = spawn(addr, type);
	SCENE_UNTIL(s, stepper_reached(pid));
	assert_true(s->child_up);
	for (quiet = 0; quiet < 100; quiet++)
		turn(s);
	if (type == LEAT_OP_WRITE_IMM)
		assert_true(op_done(&imm));
	before = commands(s);
	do {
		if (!stepper_step(pid))
			fail_msg("the child did its op without what was waited for");
	} while (half ? commands(s) != before + 1 : !locked(s));
	assert_true(locked(s));
	stepper_kill(pid);
}

static void
killed(enum leat_op_type type, bool half)
{
	static struct scene s;

	(void)alarm(ALARM_S);
	scene_open(&s);
	kill_child(&s, type, half);
	SCENE_UNTIL(&s, !s.child_up);
	send_all(&s, &s.other, &s.target);
	send_all(&s, &s.target, &s.other);
	scene_close(&s);
	(void)alarm(0);
}

static void
write_locked(void **state)
{
	(void)state;
	killed(LEAT_OP_WRITE, false);
}

static void
half_write_imm(void **state)
{
	(void)state;
	killed(LEAT_OP_WRITE_IMM, true);
}

static void
half_fetch_add(void **state)
{
	(void)state;
	killed(LEAT_OP_FETCH_ADD, true);
}

/*
 * A peer that still sends to an endpoint that is closed with the lock taken waits no longer, either.
 */
static void
closed_locked(void **state)
{
	static struct scene s;
	static uint8_t tx[8];
	struct leat_op send = { .type = LEAT_OP_SEND, .buf = tx, .size = sizeof(tx) };
	struct leat_op *o = &send;

	(void)state;
	(void)alarm(ALARM_S);
	scene_open(&s);
	kill_child(&s, LEAT_OP_WRITE, false);
	assert_int_equal(leat_mr_deregister(s.mr), 0);
	(void)leat_ep_close(s.target.ep, 0, NULL, NULL);
	assert_true(locked(&s));
	send.peer = s.other.peer;
	(void)leat_ep_post(s.other.ep, &o, 1);
	assert_false(locked(&s));
	mem_close(&s);
	(void)leat_ep_close(s.other.ep, 100000, NULL, NULL);
	(void)alarm(0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_locked),
		cmocka_unit_test(half_write_imm),
		cmocka_unit_test(half_fetch_add),
		cmocka_unit_test(closed_locked),
	};
	static char vdev[] = "--vdev=" DEV ",provider=shm,tags=1";
	static char eal_quiet[] = "--log-level=lib.eal:error";
	static char no_pci[] = "--no-pci";
	static char no_telemetry[] = "--no-telemetry";
	const char *addr = getenv(ADDR_ENV), *type = getenv(TYPE_ENV);
	char *av[64];
	int i, ac = 0, ret;

	if (FI_MAJOR(fi_version()) != 1 || FI_MINOR(fi_version()) != 17) {
		print_message("libfabric is not 1.17: nothing to repair\n");
		return 77;
	}
	if (addr == NULL && !stepper_works()) {
		print_message("no child can be run step by step here\n");
		return 77;
	}
	child_argv = argv;
	for (i = 0; i < argc && i < 40; i++)
		av[ac++] = argv[i];
	av[ac++] = vdev;
	av[ac++] = eal_quiet;
	av[ac++] = no_pci;
	av[ac++] = no_telemetry;
	av[ac] = NULL;
	if (leat_init(ac, av) < 0) {
		fprintf(stderr, "leat_init: %s\n", leat_err_msg());
		return 1;
	}
	if (addr != NULL)
		return child(addr, (enum leat_op_type)(type == NULL ? 0 : atoi(type)));
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
