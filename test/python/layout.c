/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Print the layout of leat_channel.h as the compiler sees it: lines of "name value", which
 * test_layout.py compares.
 */

#include <stdio.h>

#include <leat_channel.h>

#define VALUE(name) printf("%s %llu\n", #name, (unsigned long long)(name))
#define STRUCT(s) printf("sizeof(%s) %zu\n", #s, sizeof(struct leat_channel_##s))
#define FIELD(s, f)                                                                                \
	printf("%s.%s %zu %zu\n", #s, #f, offsetof(struct leat_channel_##s, f),                    \
	       sizeof(((struct leat_channel_##s *)0)->f))

int
main(void)
{
	VALUE(LEAT_CHANNEL_PARTICIPANTS_MAX);
	VALUE(LEAT_CHANNEL_SIZE_MIN);
	VALUE(LEAT_CHANNEL_SIZE_MAX);
	VALUE(LEAT_CHANNEL_HEADER);
	VALUE(LEAT_CHANNEL_DELIVERIES);
	VALUE(LEAT_CHANNEL_FOREVER);
	VALUE(LEAT_CHANNEL_DROPPED);
	VALUE(LEAT_CHANNEL_NOTIFY_FUTEX);
	VALUE(LEAT_CHANNEL_NOTIFY_NONE);
	VALUE(LEAT_CHANNEL_NOTIFY_EVENTFD);
	VALUE(LEAT_CHANNEL_REDELIVER);
	VALUE(LEAT_CHANNEL_DROP);
	VALUE(LEAT_CHANNEL_FULL_FAIL);
	VALUE(LEAT_CHANNEL_FULL_WAIT);
	VALUE(LEAT_CHANNEL_FULL_DROP_NEWEST);
	VALUE(LEAT_CHANNEL_FULL_DROP_OLDEST);
	VALUE(LEAT_CHANNEL_WAIT_NOTIFY);
	VALUE(LEAT_CHANNEL_WAIT_SPIN);
	VALUE(LEAT_CHANNEL_WAIT_PAUSE);
	VALUE(LEAT_CHANNEL_WAIT_YIELD);
	VALUE(LEAT_CHANNEL_WAIT_SLEEP);
	VALUE(LEAT_CHANNEL_INVALID_END);
	VALUE(LEAT_CHANNEL_INVALID_SKIP);
	VALUE(LEAT_CHANNEL_ARM_FRAMES);
	VALUE(LEAT_CHANNEL_ARM_ROOM);
	VALUE(LEAT_CHANNEL_SENT);
	VALUE(LEAT_CHANNEL_RECEIVED);
	VALUE(LEAT_CHANNEL_FULL);
	VALUE(LEAT_CHANNEL_OVERWRITTEN);
	VALUE(LEAT_CHANNEL_INVALID);
	VALUE(LEAT_CHANNEL_ABORTED);
	VALUE(LEAT_CHANNEL_RETURNED);
	VALUE(LEAT_CHANNEL_LOST);
	VALUE(LEAT_CHANNEL_COUNTERS);

	STRUCT(conf);
	FIELD(conf, size);
	FIELD(conf, participants);
	FIELD(conf, notify);
	FIELD(conf, on_death);
	FIELD(conf, start);

	STRUCT(opts);
	FIELD(opts, full);
	FIELD(opts, full_ns);
	FIELD(opts, wait);
	FIELD(opts, invalid);
	FIELD(opts, check_ms);

	STRUCT(frame);
	FIELD(frame, data);
	FIELD(frame, len);
	FIELD(frame, type);
	FIELD(frame, hash);
	FIELD(frame, redelivered);

	STRUCT(sent);
	FIELD(sent, sent);
	FIELD(sent, dropped);

	STRUCT(who);
	FIELD(who, slot);
	FIELD(who, pid);
	FIELD(who, start);
	FIELD(who, generation);
	FIELD(who, alive);
	FIELD(who, waiting);
	FIELD(who, count);

	STRUCT(info);
	FIELD(info, size);
	FIELD(info, bytes);
	FIELD(info, write);
	FIELD(info, read);
	FIELD(info, free);
	FIELD(info, notify);
	FIELD(info, on_death);
	FIELD(info, ended);
	FIELD(info, reserved);
	FIELD(info, committed);
	FIELD(info, reading);
	FIELD(info, returned);
	FIELD(info, done);
	FIELD(info, empty);
	FIELD(info, participants);
	FIELD(info, participants_max);
	FIELD(info, count);
	FIELD(info, who);
	return 0;
}
