/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Three writers and three readers, processes under load, killed at random, 400 times or as often as
 * the argument says.
 *
 * A writer numbers its frames by a counter outside the channel, so the test knows which numbers
 * must arrive, except for one frame of each killed writer. A reader counts each frame in a table
 * (`seen`) between peek and consume, so a frame counts as delivered when a reader held it. The
 * frames of a reader that dies between peek and consume are delivered again, counted or not: at
 * most as many frames as were returned or lost are counted more than once.
 */

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel_test.h"

#define WRITERS 3
#define READERS 3
#define SIZE 16384
/*
 * Numbers of one writer for which the tables have room. If the machine is slow to kill, a writer
 * may send more; the tables ignore these.
 */
#define NUMBERS (1u << 23)

struct notes {
	atomic_uint next[WRITERS]; /* the writer may have sent the numbers below this one */
	atomic_uint torn;
	atomic_uint failed;
	atomic_ullong read;
	atomic_uchar seen[WRITERS][NUMBERS];
	atomic_uchar sent[WRITERS][NUMBERS]; /* 1: the commit of this frame has returned */
};

static struct shared shared;
static struct notes *notes;

static uint32_t
length(uint32_t n)
{
	return 8 + n * 2654435761u % 700;
}

static void
write_on(unsigned int me)
{
	struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_WAIT,
					  .full_ns = LEAT_CHANNEL_FOREVER };
	struct leat_channel *ch = shared_try(&shared, &opts);
	uint32_t n;
	void *p;
	int ret;

	while (ch != NULL) {
		n = atomic_fetch_add(&notes->next[me], 1);
		ret = leat_channel_reserve(ch, me + 1, n, length(n), &p);
		if (ret == -ESHUTDOWN) {
			leat_channel_close(ch);
			_exit(0);
		}
		if (ret != 0)
			break;
		frame_fill(p, length(n), n);
		if (leat_channel_commit(ch) != 0)
			break;
		if (n < NUMBERS)
			atomic_store(&notes->sent[me][n], 1);
	}
	atomic_fetch_add(&notes->failed, 1);
	print_error("writer %u: %s\n", me, leat_channel_error());
	_exit(1);
}

static void
read_on(unsigned int me)
{
	struct leat_channel *ch = shared_try(&shared, NULL);
	struct leat_channel_frame f[8];
	int i, ret = 0;
	uint32_t n;

	while (ch != NULL) {
		ret = leat_channel_peek(ch, f, 1 + me * 3);
		if (ret == -EAGAIN)
			ret = leat_channel_wait(ch, LEAT_CHANNEL_FOREVER);
		if (ret < 0)
			break;
		for (i = 0; i < ret; i++) {
			if (!frame_whole(f[i].data, f[i].len, &n) || n != f[i].hash ||
			    f[i].type - 1 >= WRITERS || f[i].len != length(n)) {
				atomic_fetch_add(&notes->torn, 1);
				continue;
			}
			if (n < NUMBERS)
				atomic_fetch_add(&notes->seen[f[i].type - 1][n], 1);
		}
		atomic_fetch_add(&notes->read, (unsigned int)ret);
		if (ret > 0 && leat_channel_consume(ch) != 0)
			break;
	}
	if (ch == NULL || ret != -ESHUTDOWN) {
		atomic_fetch_add(&notes->failed, 1);
		print_error("reader %u: %d, %s\n", me, ret, leat_channel_error());
	}
	leat_channel_close(ch);
	_exit(0);
}

static pid_t
begin(unsigned int i)
{
	pid_t test = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	/*
	 * A child must not live longer than the test, however the test ends, nor start after the
	 * test has ended.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != test)
		_exit(1);
	/* Lower the priority, so that the parent, which kills, gets the CPU. */
	if (nice(15) < 0)
		_exit(1);
	if (i < WRITERS)
		write_on(i);
	else
		read_on(i - WRITERS);
	_exit(1);
}

static void
end(pid_t pid, bool by_kill)
{
	int st;

	if (by_kill)
		assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	if (!by_kill)
		assert_true(WIFEXITED(st));
}

/*
 * Wait until the readers have read this many frames, so that each kill meets a channel at work.
 * Fails the test if that takes more than twenty seconds.
 */
static void
let_them_work(unsigned int frames)
{
	unsigned long long from = atomic_load(&notes->read);
	uint64_t limit = test_now_ns() + UINT64_C(20000000000);

	while (atomic_load(&notes->read) - from < frames) {
		if (test_now_ns() > limit)
			fail_msg("nothing moves: %u frames read in 20 s",
				 (unsigned int)(atomic_load(&notes->read) - from));
		sched_yield();
	}
}

static void
random_kills(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE };
	uint64_t again = 0, missing = 0, rnd = 12345;
	struct leat_channel_info info;
	pid_t pid[WRITERS + READERS];
	unsigned int i, k, kills = **(unsigned int **)state;
	struct leat_channel *ch;
	uint32_t n, sent;

	shared_make_file(&shared, &conf);
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(notes != MAP_FAILED);
	for (i = 0; i < WRITERS + READERS; i++)
		pid[i] = begin(i);
	for (k = 0; k < kills; k++) {
		i = test_random(&rnd) % (WRITERS + READERS);
		let_them_work(test_random(&rnd) % 200);
		end(pid[i], true);
		pid[i] = begin(i);
	}
	let_them_work(1000);
	ch = shared_attach(&shared, NULL);
	assert_int_equal(leat_channel_terminate(ch), 0);
	for (i = 0; i < WRITERS + READERS; i++)
		end(pid[i], false);
	while (recv_number(ch, &n) == 0)
		fail_msg("the readers left a frame");
	assert_int_equal(atomic_load(&notes->torn), 0);
	assert_int_equal(atomic_load(&notes->failed), 0);
	for (i = 0; i < WRITERS; i++) {
		sent = atomic_load(&notes->next[i]);
		for (n = 0; n < sent && n < NUMBERS; n++) {
			missing += atomic_load(&notes->seen[i][n]) == 0;
			if (atomic_load(&notes->sent[i][n]) != 0)
				assert_true(atomic_load(&notes->seen[i][n]) != 0);
			again += atomic_load(&notes->seen[i][n]) > 1;
		}
	}
	assert_int_equal(leat_channel_inspect(ch, &info), 0);
	print_message(
		"%u kills, %llu frames read; %llu aborted, %llu returned, %llu lost; %llu not "
		"sent, %llu delivered again\n",
		kills, atomic_load(&notes->read),
		(unsigned long long)info.count[LEAT_CHANNEL_ABORTED],
		(unsigned long long)info.count[LEAT_CHANNEL_RETURNED],
		(unsigned long long)info.count[LEAT_CHANNEL_LOST], (unsigned long long)missing,
		(unsigned long long)again);
	/*
	 * A missing number was never committed: at most one frame of each killed writer, and one of
	 * each writer that found the channel ended.
	 */
	assert_true(missing <= kills + WRITERS);
	assert_true(again <= info.count[LEAT_CHANNEL_RETURNED] + info.count[LEAT_CHANNEL_LOST]);
	assert_int_equal(info.reserved + info.reading + info.returned + info.committed, 0);
	assert_int_equal(info.participants, 1);
	leat_channel_close(ch);
	shared_free(&shared);
	assert_int_equal(munmap(notes, sizeof(*notes)), 0);
}

int
main(int argc, char **argv)
{
	static unsigned int kills = 400;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(random_kills, &kills),
	};

	if (argc > 1)
		kills = (unsigned int)atoi(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
