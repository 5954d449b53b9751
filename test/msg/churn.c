/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-churn EAL-ARGUMENTS -- leat|plain COUNT
 *
 * COUNT connections are opened, used and closed, one after the other, while a conversation on the
 * same endpoint goes on. After a tenth of them the process has all the files and memory that it
 * needs, and must not open or allocate more.
 */

#include <fcntl.h>
#include <malloc.h>
#include <string.h>

#include "ends.h"

static struct end listener, bystander, guest;
static struct talk near = { .begins = true }, far;
static struct talk guest_near = { .begins = true, .may_end = true },
		   guest_far = { .may_end = true };

static void
turn(void)
{
	end_turn(&listener);
	end_turn(&bystander);
	end_turn(&guest);
}

/* Count the files that the process has open. */
static unsigned int
files(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/*
 * Return the bytes in use on the process's heap, libfabric's included. AddressSanitizer replaces
 * this heap, but finds leaks by itself.
 */
static size_t
memory(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void
come_and_go(const char *addr)
{
	guest_near.stop = false;
	guest_far.closed = false;
	talk_connect(&guest, &guest_near, GUEST, addr);
	wait_until(turn, guest_near.received > 1);
	talk_close(&guest_near, &guest_far, turn);
	check(guest_near.status == 0 && guest_far.status == 0, "a connection ended with %d, %d",
	      guest_near.status, guest_far.status);
}

int
main(int argc, char **argv)
{
	const struct leat_msg_conf conf = { .max_conns = 4, .credits = 16 };
	struct leat_msg_stats before, after;
	unsigned int i, count, nb_files = 0;
	uint64_t talked;
	size_t bytes = 0;
	const char *addr;
	int ret = leat_init(argc, argv);

	check(ret >= 0, "leat_init: %s", leat_err_msg());
	argc -= ret;
	argv += ret;
	check(argc == 3, "-- leat|plain COUNT");
	listener.conf.mode = strcmp(argv[1], "plain") == 0 ? LEAT_MSG_PLAIN : LEAT_MSG_LEAT;
	bystander.conf.mode = guest.conf.mode = listener.conf.mode;
	count = (unsigned int)atoi(argv[2]);
	check(count >= 10, "%s: at least 10", argv[2]);
	end_open(&listener, "listener", &conf);
	end_open(&bystander, "bystander", &conf);
	end_open(&guest, "guest", &conf);
	leat_msg_stats_get(listener.m, &before);
	listener.talks[BYSTANDER] = &far;
	listener.talks[GUEST] = &guest_far;
	addr = end_listen(&listener);
	talk_connect(&bystander, &near, BYSTANDER, addr);
	wait_until(turn, near.received > 0);
	talked = near.received;
	for (i = 0; i < count; i++) {
		if (i == count / 10) {
			nb_files = files();
			bytes = memory();
		}
		come_and_go(addr);
		check(near.received > talked, "the conversation stands still");
		talked = near.received;
	}
	check(files() <= nb_files, "%u files are open, after %u connections it were %u", files(),
	      count / 10, nb_files);
	check(memory() <= bytes + (256u << 10),
	      "%zu B are allocated, after %u connections it were %zu", memory(), count / 10, bytes);
	leat_msg_stats_get(listener.m, &after);
	check(after.memory == before.memory && after.conns == 1 && after.ended_errors == 0,
	      "%u connections are left, %" PRIu64 " ended with errors", after.conns,
	      after.ended_errors);
	printf("%u connections, %" PRIu64
	       " messages of the bystander, %u files, %zu KiB -> %zu KiB\n",
	       count, near.received, nb_files, bytes >> 10, memory() >> 10);
	talk_close(&near, &far, turn);
	end_close(&guest);
	end_close(&bystander);
	end_close(&listener);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	return 0;
}
