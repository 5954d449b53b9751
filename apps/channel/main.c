/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs the command, and prints why it failed. */

#include <stdarg.h>
#include <string.h>

#include "channel.h"

void
ct_msg(const char *fmt, ...)
{
	char line[1024], *p;
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(line, sizeof(line), fmt, ap) < 0)
		line[0] = '\0';
	va_end(ap);
	for (p = line; *p != '\0'; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	}
	fprintf(stderr, CT_NAME ": %s\n", line);
}

/* Return what to do about an error; "": the library's message is enough. */
static const char *
hint(const struct ct_options *o, int err)
{
	switch (err) {
	case ENOENT:
		return o->command == CT_DESTROY ? "" : "; 'leat-channel create' makes one";
	case EEXIST:
		return "; 'leat-channel destroy' removes it";
	case EACCES:
		return "; a channel belongs to the user who created it: run this as the same user";
	case EAGAIN:
		return "; if this persists, 'leat-channel destroy --force' removes it";
	case EPROTO:
		return "; 'leat-channel destroy' removes a channel that can't be used any more";
	case EUSERS:
		return "; 'leat-channel inspect' lists them, 'create --participants' has more";
	case EXDEV:
		return "; run this in the same container";
	default:
		return "";
	}
}

int
ct_failed(const struct ct_options *o, int err)
{
	ct_msg("%s%s", leat_channel_error(), hint(o, err));
	return CT_EXIT_FAILED;
}

struct leat_channel *
ct_open(const struct ct_options *o)
{
	struct leat_channel *ch = leat_channel_open(o->name, &o->opts);

	if (ch == NULL)
		(void)ct_failed(o, errno);
	return ch;
}

int
ct_stdout_failed(void)
{
	if (ct_stopped() == 0)
		ct_msg("stdout: can't write: %s", strerror(errno));
	return CT_EXIT_FAILED;
}

static int
flushed(void)
{
	return fflush(ct_out) != 0 || ferror(ct_out) ? ct_stdout_failed() : CT_EXIT_OK;
}

static int
run(const struct ct_options *o)
{
	static int (*const commands[CT_COMMANDS])(const struct ct_options *) = {
		[CT_CREATE] = ct_create,   [CT_ATTACH] = ct_attach,   [CT_SEND] = ct_send,
		[CT_RECV] = ct_recv,	   [CT_INSPECT] = ct_inspect, [CT_TERMINATE] = ct_terminate,
		[CT_DESTROY] = ct_destroy,
	};

	if (o->help) {
		ct_help(ct_out, o->command);
		return flushed();
	}
	if (o->version) {
		fprintf(ct_out, CT_NAME " " CT_VERSION "\n");
		return flushed();
	}
	return commands[o->command](o);
}

int
main(int argc, char **argv)
{
	struct ct_options o;
	int ret;

	if (ct_options_parse(&o, argc, argv) < 0)
		return CT_EXIT_USAGE;
	ret = ct_catch_signals();
	if (ret == 0)
		ret = ct_open_stdout();
	if (ret < 0) {
		ct_msg("signals, stdout: %s", strerror(-ret));
		return CT_EXIT_FAILED;
	}
	ret = run(&o);
	return ct_stopped() != 0 ? 128 + ct_stopped() : ret;
}
