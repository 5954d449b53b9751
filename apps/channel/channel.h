/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_H
#define CHANNEL_H

/*
 * leat-channel: what its files share.
 *
 *     main.c      which command, and how it ends
 *     options.c   the command line; help.c what --help says
 *     manage.c    create, terminate, destroy
 *     send.c recv.c
 *     show.c      inspect, attach; json.c --json
 *     stop.c      signals, and waiting and writing so that they are noticed
 *
 * A command gets checked options and returns the exit code. One that blocks does so in slices, or in
 * ct_poll(), and asks ct_stopped() in between: whatever ends it, its handle is closed, so that frames it
 * holds go to others.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <leat_channel.h>

#define CT_NAME "leat-channel"

#define CT_NS_PER_S UINT64_C(1000000000)
/* A wait of the library is not ended by signals: so long until one is noticed. */
#define CT_SLICE_NS UINT64_C(100000000)

/* And 128 + N: ended by signal N. */
enum {
	CT_EXIT_OK = 0,
	CT_EXIT_FAILED = 1,
	CT_EXIT_USAGE = 2,
	CT_EXIT_TIMEOUT = 3, /* no frame, or no room, in time */
	CT_EXIT_ENDED = 4,   /* the channel was terminated before all was done */
};

enum ct_command {
	CT_CREATE,
	CT_ATTACH,
	CT_SEND,
	CT_RECV,
	CT_INSPECT,
	CT_TERMINATE,
	CT_DESTROY,
	CT_COMMANDS,
	CT_NONE = CT_COMMANDS,
};

struct ct_options {
	enum ct_command command;
	const char *name; /* of the channel */
	struct leat_channel_conf conf;
	struct leat_channel_opts opts;
	char **texts; /* frames of the command line */
	int nb_texts;
	uint32_t type;
	uint64_t hash;
	uint32_t block; /* bytes of stdin that make a frame; 0: lines do */
	uint64_t timeout_ns;
	uint64_t count; /* 0: not given */
	uint64_t interval_ns;
	bool null; /* NUL ends a line */
	bool raw;
	bool follow;
	bool terminate;
	bool force;
	bool json;
	bool help;
	bool version;
};

/* ---- main.c ---- */

/* What is not printable becomes '?'. */
void ct_msg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The library's words for the last error, and what to do. @return CT_EXIT_FAILED */
int ct_failed(const struct ct_options *o, int err);
/* NULL after a message. */
struct leat_channel *ct_open(const struct ct_options *o);
/* What a command returns when stdout can't be written: nothing is said of a pipe that was closed. */
int ct_unwritten(void);

/* ---- options.c, help.c ---- */

const char *ct_command_name(enum ct_command command);
const char *ct_notify_name(enum leat_channel_notify notify);
const char *ct_on_death_name(enum leat_channel_on_death on_death);
/* @return 0, or -EINVAL after a message */
int ct_options_parse(struct ct_options *o, int argc, char **argv);
/* CT_NONE: of the program */
void ct_help(FILE *f, enum ct_command command);

/* ---- stop.c ---- */

int ct_catch_signals(void);
/* The signal that asks for an end, or 0. */
int ct_stopped(void);
uint64_t ct_now_ns(void);
/* Until fd (-1: none) has one of the events, or so long. @return 1; 0: time is up; -EINTR: ct_stopped(); -errno */
int ct_poll(int fd, short events, uint64_t ns);
/* stdout, but writing to it ends with an error when ct_stopped(). */
extern FILE *ct_out;
int ct_open_stdout(void);
/* How long to wait now, of a time that ends at end (LEAT_CHANNEL_FOREVER: never). 0: it is over */
uint64_t ct_slice(uint64_t end);
/* When a time that begins now ends. */
uint64_t ct_end(uint64_t timeout_ns);

/* ---- commands ---- */

int ct_create(const struct ct_options *o);
int ct_attach(const struct ct_options *o);
int ct_send(const struct ct_options *o);
int ct_recv(const struct ct_options *o);
int ct_inspect(const struct ct_options *o);
int ct_terminate(const struct ct_options *o);
int ct_destroy(const struct ct_options *o);

/* ---- json.c: each prints an object. @return 0, -ENOMEM, or -EIO: stdout ---- */

/* What went by since the last look: per second. */
struct ct_rates {
	double seconds;
	double count[LEAT_CHANNEL_COUNTERS];
};

/* By enum leat_channel_counter. */
extern const char *const ct_counters[LEAT_CHANNEL_COUNTERS];

int ct_json_inspect(const struct ct_options *o, const struct leat_channel_info *info);
int ct_json_attach(const struct leat_channel_info *info, const struct ct_rates *rates);
int ct_json_sent(const struct ct_options *o, uint64_t sent, uint64_t dropped, uint64_t empty);
int ct_json_frame(const struct leat_channel_frame *f);

#endif /* CHANNEL_H */
