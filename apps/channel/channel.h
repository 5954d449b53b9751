/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_H
#define CHANNEL_H

/*
 * leat-channel: declarations that its files share.
 *
 *     main.c      runs the command, and prints why it failed
 *     options.c   the command line; help.c the text of --help
 *     manage.c    create, terminate, destroy
 *     send.c      send; recv.c recv
 *     show.c      inspect, attach; json.c --json
 *     stop.c      signals; waits and writes that a signal ends
 *
 * A command gets checked options and returns the exit code. A command that waits does so in slices,
 * or in ct_poll(), and checks ct_stopped() in between. So a command closes its handle also after a
 * signal, and other readers get the frames that it held.
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
/* Longest wait before ct_stopped() is checked: a signal does not end a wait of the library. */
#define CT_SLICE_NS UINT64_C(100000000)

/* Exit codes; 128 + N: ended by signal N. */
enum {
	CT_EXIT_OK = 0,
	CT_EXIT_FAILED = 1,
	CT_EXIT_USAGE = 2,
	CT_EXIT_TIMEOUT = 3, /* no frame, or no room, in time */
	CT_EXIT_ENDED = 4,   /* the channel was terminated before the command was done */
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
	const char *name; /* name of the channel */
	struct leat_channel_conf conf;
	struct leat_channel_opts opts;
	char **texts; /* frames given as arguments */
	int nb_texts;
	uint32_t type;
	uint64_t hash;
	uint32_t block; /* bytes of stdin per frame; 0: a frame per line */
	uint64_t timeout_ns;
	uint64_t count; /* frames to receive, lines of attach; 0: not given */
	uint64_t interval_ns;
	bool null; /* lines end with NUL */
	bool raw;
	bool follow;
	bool terminate;
	bool force;
	bool json;
	bool help;
	bool version;
};

/* ---- main.c ---- */

/* Print a message on stderr; control characters become '?'. */
void ct_msg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Print the library's last error message, and what to do about it. @return CT_EXIT_FAILED */
int ct_failed(const struct ct_options *o, int err);
/* Open the channel. @return NULL after printing a message */
struct leat_channel *ct_open(const struct ct_options *o);
/* Print that stdout can't be written; print nothing after a signal. @return CT_EXIT_FAILED */
int ct_stdout_failed(void);

/* ---- options.c, help.c ---- */

const char *ct_command_name(enum ct_command command);
const char *ct_notify_name(enum leat_channel_notify notify);
const char *ct_on_death_name(enum leat_channel_on_death on_death);
/* Parse the command line. @return 0, or -EINVAL after printing a message */
int ct_options_parse(struct ct_options *o, int argc, char **argv);
/* Print the help of a command; CT_NONE: of the program. */
void ct_help(FILE *f, enum ct_command command);

/* ---- stop.c ---- */

/* Let SIGINT, SIGTERM, SIGHUP and SIGPIPE end the command cleanly. @return 0, or -errno */
int ct_catch_signals(void);
/* Return the signal that asked the command to end, or 0. */
int ct_stopped(void);
uint64_t ct_now_ns(void);
/*
 * Wait until fd (-1: none) has one of the events, for at most ns.
 * @return 1; 0: time is up; -EINTR: ct_stopped(); or another negative errno
 */
int ct_poll(int fd, short events, uint64_t ns);
/* Like stdout, but after a signal (ct_stopped()) a write fails instead of waiting. */
extern FILE *ct_out;
/* Open ct_out. @return 0 or a negative errno */
int ct_open_stdout(void);
/*
 * Return how long to wait next, ns: a slice, or less if `end` comes earlier
 * (LEAT_CHANNEL_FOREVER: no end). 0: `end` has passed.
 */
uint64_t ct_slice(uint64_t end);
/* Return the end of a timeout that begins now, for ct_slice(). */
uint64_t ct_end(uint64_t timeout_ns);

/* ---- commands ---- */

int ct_create(const struct ct_options *o);
int ct_attach(const struct ct_options *o);
int ct_send(const struct ct_options *o);
int ct_recv(const struct ct_options *o);
int ct_inspect(const struct ct_options *o);
int ct_terminate(const struct ct_options *o);
int ct_destroy(const struct ct_options *o);

/* ---- json.c: each prints an object. @return 0, -ENOMEM, or -EIO: stdout can't be written ---- */

/* Growth of the counters since the last line of attach. */
struct ct_rates {
	double seconds;			     /* time since the last line */
	double count[LEAT_CHANNEL_COUNTERS]; /* per second */
};

/* Names of the counters, by enum leat_channel_counter. */
extern const char *const ct_counters[LEAT_CHANNEL_COUNTERS];

int ct_json_inspect(const struct ct_options *o, const struct leat_channel_info *info);
int ct_json_attach(const struct leat_channel_info *info, const struct ct_rates *rates);
int ct_json_sent(const struct ct_options *o, uint64_t sent, uint64_t dropped, uint64_t empty);
int ct_json_frame(const struct leat_channel_frame *f);

#endif /* CHANNEL_H */
