/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Frames that a participant holds go to other participants once its process has died or has called
 * exec(), and never before. This holds for an observer in another pid, time or mount namespace, and
 * with another namespace's /proc or none.
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define LEN 100
#define NS_PER_S UINT64_C(1000000000)
#define LIMIT_NS (20 * NS_PER_S)

/* How a participant attaches to the block. */
enum by { BY_NAME, BY_FD, BY_MEMORY, BYS };

struct block {
	enum by by;
	char name[64];
	struct shared s;
	struct leat_channel *ch; /* the test's own participant */
};

static struct leat_channel *
block_attach(const struct block *b)
{
	return b->by == BY_NAME ? leat_channel_open(b->name, NULL) : shared_try(&b->s, NULL);
}

static void
block_make(struct block *b, enum by by)
{
	const struct leat_channel_conf conf = { .size = SIZE };
	static unsigned int nb;

	*b = (struct block){ .by = by };
	if (by == BY_NAME) {
		snprintf(b->name, sizeof(b->name), "/leat-dead-%d-%u", (int)getpid(), nb++);
		b->ch = leat_channel_create(b->name, &conf, NULL);
	} else {
		if (by == BY_FD)
			shared_make_file(&b->s, &conf);
		else
			shared_make(&b->s, &conf);
		b->ch = block_attach(b);
	}
	if (b->ch == NULL)
		fail_msg("%s", leat_channel_error());
}

static void
block_free(struct block *b)
{
	leat_channel_close(b->ch);
	if (b->by == BY_NAME)
		assert_int_equal(leat_channel_unlink(b->name), 0);
	else
		shared_free(&b->s);
}

/* A child that holds a frame, and waits. */
struct holder {
	pid_t pid;
	int go[2];  /* the child goes on when the test closes this pipe */
	int end[2]; /* this pipe is closed when the child ends or calls exec() */
};

enum then { THEN_END, THEN_EXEC };

static void
wait_for_close(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

static pid_t
fork_child(void)
{
	pid_t test = getpid(), pid = fork();

	assert_true(pid >= 0);
	/* The child must not live longer than the test, however the test ends. */
	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != test))
		_exit(1);
	return pid;
}

static void
hold(const struct block *b, const struct holder *h, int ready, enum then then, unsigned int frames)
{
	struct leat_channel *ch = block_attach(b);
	struct leat_channel_frame f[CHAN_BURST];

	close(h->go[1]);
	if (ch == NULL || leat_channel_peek(ch, f, frames) != (int)frames ||
	    write(ready, "h", 1) != 1)
		_exit(1);
	wait_for_close(h->go[0]);
	if (then == THEN_EXEC)
		(void)execl("/proc/self/exe", "test_channel_dead", "pause", (char *)NULL);
	_exit(0);
}

static void
holder_start(struct holder *h, const struct block *b, enum then then, unsigned int frames)
{
	int ready[2];
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(h->go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(h->end, O_CLOEXEC), 0);
	h->pid = fork_child();
	if (h->pid == 0)
		hold(b, h, ready[1], then, frames);
	close(ready[1]);
	close(h->end[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static void
holder_go(struct holder *h)
{
	close(h->go[0]);
	close(h->go[1]);
	wait_for_close(h->end[0]);
	close(h->end[0]);
}

static void
holder_kill(struct holder *h)
{
	int st;

	assert_int_equal(kill(h->pid, SIGKILL), 0);
	assert_int_equal(waitpid(h->pid, &st, 0), h->pid);
}

/* Recover one dead participant. The kernel may release its locks a moment after waitpid(). */
static int
recover_one(struct leat_channel *ch)
{
	uint64_t limit = test_now_ns() + LIMIT_NS;
	int ret;

	while ((ret = leat_channel_recover(ch)) == 0 && test_now_ns() < limit)
		sched_yield();
	return ret;
}

/* ---- exec() ---- */

/* Frames that a process has peeked are delivered again, in order, once it has called exec(). */
static void
exec_gives_back(enum by by, unsigned int frames)
{
	struct holder h;
	struct block b;
	uint32_t n, got;

	block_make(&b, by);
	for (n = 0; n < frames; n++)
		assert_int_equal(send_number(b.ch, n, LEN), 0);
	holder_start(&h, &b, THEN_EXEC, frames);
	assert_int_equal(leat_channel_recover(b.ch), 0);
	assert_int_equal(recv_number(b.ch, &got), -EAGAIN);
	holder_go(&h);
	assert_int_equal(recover_one(b.ch), 1);
	assert_int_equal(kill(h.pid, 0), 0);
	for (n = 0; n < frames; n++) {
		assert_int_equal(recv_number(b.ch, &got), 0);
		assert_int_equal(got, n);
	}
	assert_int_equal(recv_number(b.ch, &got), -EAGAIN);
	holder_kill(&h);
	assert_int_equal(leat_channel_recover(b.ch), 0);
	block_free(&b);
}

static void
exec_with_a_frame_in_hand(void **state)
{
	(void)state;
	exec_gives_back(BY_NAME, 1);
	exec_gives_back(BY_FD, 1);
}

static void
exec_with_a_burst_in_hand(void **state)
{
	(void)state;
	exec_gives_back(BY_NAME, 7);
	exec_gives_back(BY_FD, 20);
}

/*
 * The next program of the same process attaches again, and receives the frame that the process had
 * peeked.
 */
static void
exec_and_attach_again(void **state)
{
	uint64_t limit = test_now_ns() + LIMIT_NS;
	struct block b;
	uint32_t n;
	pid_t pid;
	int st;

	(void)state;
	block_make(&b, BY_NAME);
	assert_int_equal(send_number(b.ch, 5, LEN), 0);
	pid = fork_child();
	if (pid == 0) {
		struct leat_channel *ch = block_attach(&b);
		struct leat_channel_frame f;

		if (ch != NULL && leat_channel_peek(ch, &f, 1) == 1)
			(void)execl("/proc/self/exe", "test_channel_dead", "read", b.name,
				    (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(recv_number(b.ch, &n), -EAGAIN);
	assert_true(test_now_ns() < limit);
	block_free(&b);
}

/* The program that exec_and_attach_again() starts. */
static int
read_five(const char *name)
{
	struct leat_channel *ch = leat_channel_open(name, NULL);
	uint32_t n = 0;

	while (ch != NULL && recv_number(ch, &n) == -EAGAIN)
		sched_yield();
	if (ch == NULL)
		return 1;
	leat_channel_close(ch);
	return n == 5 ? 0 : 1;
}

/* ---- fork() ---- */

/*
 * A participant's process dies, and its child, which inherited all descriptors, lives on: the
 * participant counts as dead.
 */
static void
a_child_keeps_no_parent_alive(void **state)
{
	struct leat_channel_frame f;
	int out[2], st;
	enum by by;

	(void)state;
	for (by = 0; by < BYS; by++) {
		pid_t pid, child = 0;
		struct block b;
		uint32_t n;

		block_make(&b, by);
		assert_int_equal(send_number(b.ch, 1, LEN), 0);
		assert_int_equal(pipe2(out, O_CLOEXEC), 0);
		pid = fork_child();
		if (pid == 0) {
			struct leat_channel *ch = block_attach(&b);

			if (ch == NULL || leat_channel_peek(ch, &f, 1) != 1)
				_exit(1);
			child = fork();
			if (child == 0) {
				for (;;)
					pause();
			}
			_exit(write(out[1], &child, sizeof(child)) == sizeof(child) ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
		assert_int_equal(read(out[0], &child, sizeof(child)), sizeof(child));
		assert_int_equal(recover_one(b.ch), 1);
		assert_int_equal(recv_number(b.ch, &n), 0);
		assert_int_equal(kill(child, SIGKILL), 0);
		close(out[0]);
		close(out[1]);
		block_free(&b);
	}
}

/*
 * In the child of a fork the handle is not the participant: closing the handle there leaves the
 * parent's participant as it is.
 */
static void
a_child_closes_nothing(void **state)
{
	struct leat_channel_frame f;
	enum by by;
	int st;

	(void)state;
	for (by = 0; by < BYS; by++) {
		struct leat_channel *other;
		struct block b;
		uint32_t n;
		void *p;
		pid_t pid;

		block_make(&b, by);
		other = block_attach(&b);
		assert_non_null(other);
		assert_int_equal(send_number(other, 1, LEN), 0);
		assert_int_equal(leat_channel_peek(b.ch, &f, 1), 1);
		assert_int_equal(leat_channel_reserve(b.ch, 1, 1, LEN, &p), 0);
		pid = fork_child();
		if (pid == 0) {
			leat_channel_close(b.ch);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
		assert_int_equal(leat_channel_recover(other), 0);
		assert_int_equal(recv_number(other, &n), -EAGAIN);
		assert_int_equal(leat_channel_abort(b.ch), 0);
		assert_int_equal(leat_channel_consume(b.ch), 0);
		leat_channel_close(other);
		block_free(&b);
	}
}

/* ---- locks ---- */

/*
 * A process that may only read the file, and locks it, can't make a dead owner look alive: it only
 * keeps others from attaching.
 */
static void
locks_of_strangers(void **state)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct leat_channel_info info;
	struct holder h;
	struct block b;
	uint32_t n;
	int fd;

	(void)state;
	block_make(&b, BY_NAME);
	assert_int_equal(send_number(b.ch, 3, LEN), 0);
	holder_start(&h, &b, THEN_END, 1);
	fd = shm_open(b.name, O_RDONLY | O_CLOEXEC, 0);
	assert_true(fd >= 0);
	/* Lock all bytes except those of the participants that are attached. */
	l.l_start = (off_t)(offsetof(struct chan_block, slots) + 2 * sizeof(struct chan_slot));
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &l), 0);
	assert_int_equal(leat_channel_recover(b.ch), 0);
	holder_kill(&h);
	holder_go(&h);
	l.l_start = (off_t)(offsetof(struct chan_block, slots) + sizeof(struct chan_slot));
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &l), 0);
	assert_int_equal(recover_one(b.ch), 1);
	assert_int_equal(recv_number(b.ch, &n), 0);
	assert_null(leat_channel_open(b.name, NULL));
	assert_int_equal(errno, EUSERS);
	close(fd);
	assert_int_equal(leat_channel_inspect_name(b.name, &info), 0);
	assert_int_equal(info.participants, 1);
	assert_true(info.who[0].alive);
	block_free(&b);
}

/* Each handle of a process has its own lock; handles come and go in any order. */
static void
handles_of_one_process(void **state)
{
	struct leat_channel *ch[LEAT_CHANNEL_PARTICIPANTS_MAX];
	struct leat_channel_info info;
	unsigned int i, k;
	struct block b;
	enum by by;

	(void)state;
	for (by = 0; by < BYS; by++) {
		block_make(&b, by);
		ch[0] = b.ch;
		for (i = 1; i < LEAT_CHANNEL_PARTICIPANTS_MAX; i++) {
			ch[i] = i % 2 ? block_attach(&b) : leat_channel_join(ch[i / 2], NULL);
			assert_non_null(ch[i]);
		}
		assert_null(block_attach(&b));
		assert_int_equal(errno, EUSERS);
		assert_int_equal(leat_channel_recover(b.ch), 0);
		for (k = 1; k < 8; k++) {
			i = k * 7;
			leat_channel_close(ch[i]);
			assert_int_equal(leat_channel_recover(b.ch), 0);
			assert_int_equal(leat_channel_inspect(b.ch, &info), 0);
			assert_int_equal(info.participants, LEAT_CHANNEL_PARTICIPANTS_MAX - 1);
			ch[i] = leat_channel_join(b.ch, NULL);
			assert_non_null(ch[i]);
		}
		assert_int_equal(leat_channel_inspect(b.ch, &info), 0);
		for (i = 0; i < info.participants; i++) {
			assert_true(info.who[i].alive);
			assert_int_equal(info.who[i].pid, getpid());
			assert_true(info.who[i].start == info.who[0].start);
		}
		for (i = 1; i < LEAT_CHANNEL_PARTICIPANTS_MAX; i++)
			leat_channel_close(ch[i]);
		block_free(&b);
	}
}

/*
 * leat_channel_join() attaches to the channel of the handle, even if its name was unlinked, or
 * names another channel by now.
 */
static void
join_without_its_name(void **state)
{
	struct leat_channel *more, *other;
	struct block b;
	uint32_t n;

	(void)state;
	block_make(&b, BY_NAME);
	assert_int_equal(leat_channel_unlink(b.name), 0);
	more = leat_channel_join(b.ch, NULL);
	assert_non_null(more);
	other = leat_channel_create(b.name, NULL, NULL);
	assert_non_null(other);
	leat_channel_close(more);
	more = leat_channel_join(b.ch, NULL);
	assert_non_null(more);
	assert_int_equal(send_number(more, 1, LEN), 0);
	assert_int_equal(leat_channel_recover(b.ch), 0);
	assert_int_equal(recv_number(other, &n), -EAGAIN);
	assert_int_equal(recv_number(b.ch, &n), 0);
	leat_channel_close(more);
	leat_channel_close(other);
	block_free(&b);
}

/* ---- namespaces ---- */

enum where {
	OTHER_TIME,	  /* another offset of the time since boot */
	OTHER_PID,	  /* another pid namespace, with the previous namespace's /proc */
	OTHER_PROC,	  /* the same pid namespace, with another namespace's /proc */
	NO_PROC,	  /* nothing mounted at /proc */
	OTHER_PID_AND_NO, /* another pid namespace and nothing at /proc */
	WHERES,
};

static bool
mount_over_proc(const char *type)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/proc", type, 0, NULL) == 0;
}

static bool
write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/*
 * Run as init of a pid namespace: mount its /proc, and fork a process that has the holder's pid
 * there, if the kernel lets us choose pids.
 */
static void
be_another_init(pid_t holder, int ready)
{
	char text[32];

	if (!mount_over_proc("proc"))
		_exit(1);
	snprintf(text, sizeof(text), "%d", (int)holder - 1);
	(void)write_text("/proc/sys/kernel/ns_last_pid", text);
	if (fork() < 0 || write(ready, "m", 1) != 1)
		_exit(1);
	close(ready);
	for (;;)
		pause();
}

/*
 * Make the namespaces of `where`, and move this process there. Only its next child moves to a new
 * pid or time namespace.
 * @return NULL, or what the kernel does not allow
 * @param init
 *   Set to a process that the caller must kill, if not 0.
 */
static const char *
go_to(enum where where, pid_t holder, pid_t *init)
{
	int flags = where == OTHER_TIME	 ? CLONE_NEWTIME
		    : where == NO_PROC	 ? CLONE_NEWNS
		    : where == OTHER_PID ? CLONE_NEWPID
					 : CLONE_NEWPID | CLONE_NEWNS;
	int ready[2];
	bool mounted;
	char c;

	if (unshare(CLONE_NEWUSER | flags) != 0)
		return "namespaces can't be made";
	if (where == OTHER_TIME && !write_text("/proc/self/timens_offsets", "boottime 100000 0\n"))
		return "the time of a namespace can't be set";
	if (where == NO_PROC || where == OTHER_PID_AND_NO)
		return mount_over_proc("tmpfs") ? NULL : "nothing can be mounted over /proc";
	if (where != OTHER_PROC)
		return NULL;
	if (pipe2(ready, O_CLOEXEC) != 0)
		return "no pipe";
	*init = fork();
	if (*init == 0)
		be_another_init(holder, ready[1]);
	close(ready[1]);
	mounted = *init > 0 && read(ready[0], &c, 1) == 1;
	close(ready[0]);
	return mounted ? NULL : "no /proc can be mounted";
}

#define SKIPPED 77

/* The observer: it must not get the frame while the holder lives, and must get it afterwards. */
static int
look(const struct block *b, const struct holder *h, bool may_refuse, int ready)
{
	struct leat_channel *ch = block_attach(b);
	uint32_t n = 0;
	int i;

	if (ch == NULL) {
		if (may_refuse && errno == EXDEV)
			return write(ready, "r", 1) == 1 ? 0 : 2;
		print_error("%s\n", leat_channel_error());
		return 3;
	}
	for (i = 0; i < 3; i++) {
		if (leat_channel_recover(ch) != 0)
			return 4;
		if (recv_number(ch, &n) != -EAGAIN)
			return 5;
	}
	if (write(ready, "r", 1) != 1)
		return 6;
	wait_for_close(h->go[0]);
	if (recover_one(ch) != 1)
		return 7;
	if (recv_number(ch, &n) != 0 || n != 9)
		return 8;
	leat_channel_close(ch);
	return 0;
}

/* In a child of the test: move to another namespace, and look at the holder from there. */
static int
go_and_look(const struct block *b, enum where where, const struct holder *h, pid_t holder,
	    int ready)
{
	/*
	 * Attach may be refused where a dead participant can't be told from a living one, or where
	 * a memfd can't be reopened.
	 */
	bool may_refuse = b->by == BY_MEMORY || (b->by == BY_FD && where >= OTHER_PROC);
	pid_t pid, init = 0;
	const char *why;
	int st, ret;

	close(h->go[1]);
	why = go_to(where, holder, &init);
	if (why != NULL)
		return write(ready, why, strlen(why) + 1) > 0 ? SKIPPED : 1;
	if (where == OTHER_PROC || where == NO_PROC) {
		ret = look(b, h, may_refuse, ready);
		if (init > 0)
			kill(init, SIGKILL);
		return ret;
	}
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
			_exit(1);
		_exit(look(b, h, may_refuse, ready));
	}
	close(ready);
	return pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) ? WEXITSTATUS(st) : 1;
}

/* @return the exit code of look() */
static int
look_from(enum by by, enum where where, const char **why)
{
	static char words[64];
	struct holder h, looker;
	struct block b;
	int ready[2], st;
	pid_t pid;
	char c;

	block_make(&b, by);
	assert_int_equal(send_number(b.ch, 9, LEN), 0);
	holder_start(&h, &b, THEN_END, 1);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(looker.go, O_CLOEXEC), 0);
	pid = fork_child();
	if (pid == 0)
		_exit(go_and_look(&b, where, &looker, h.pid, ready[1]));
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1 && c != 'r') {
		words[0] = c;
		assert_true(read(ready[0], &words[1], sizeof(words) - 2) > 0);
		*why = words;
	}
	/* The holder dies; then the observer looks again. */
	holder_kill(&h);
	holder_go(&h);
	close(looker.go[0]);
	close(looker.go[1]);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	close(ready[0]);
	block_free(&b);
	return WEXITSTATUS(st);
}

static void
looked_at_from(void **state)
{
	enum where where = *(enum where *)*state;
	const char *why = NULL;
	enum by by;
	int ret;

	for (by = 0; by < BYS; by++) {
		ret = look_from(by, where, &why);
		if (ret == SKIPPED) {
			print_message("skipped: %s\n", why);
			skip();
		}
		if (ret != 0)
			fail_msg("way %d: %d", (int)by, ret);
	}
}

int
main(int argc, char **argv)
{
	static enum where wheres[WHERES] = { OTHER_TIME, OTHER_PID, OTHER_PROC, NO_PROC,
					     OTHER_PID_AND_NO };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exec_with_a_frame_in_hand),
		cmocka_unit_test(exec_with_a_burst_in_hand),
		cmocka_unit_test(exec_and_attach_again),
		cmocka_unit_test(a_child_keeps_no_parent_alive),
		cmocka_unit_test(a_child_closes_nothing),
		cmocka_unit_test(locks_of_strangers),
		cmocka_unit_test(handles_of_one_process),
		cmocka_unit_test(join_without_its_name),
		{ "looked_at_from_another_time_namespace", looked_at_from, NULL, NULL, &wheres[0] },
		{ "looked_at_from_another_pid_namespace", looked_at_from, NULL, NULL, &wheres[1] },
		{ "looked_at_with_the_proc_of_others", looked_at_from, NULL, NULL, &wheres[2] },
		{ "looked_at_without_proc", looked_at_from, NULL, NULL, &wheres[3] },
		{ "looked_at_from_a_bare_pid_namespace", looked_at_from, NULL, NULL, &wheres[4] },
	};

	if (argc == 2 && strcmp(argv[1], "pause") == 0) {
		for (;;)
			pause();
	}
	if (argc == 3 && strcmp(argv[1], "read") == 0)
		return read_five(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
