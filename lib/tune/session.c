/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * An agent is a connection to the process's socket. The socket identifies the agent's user and
 * process, and reports the agent's end, whatever its cause. Frames go through two channels of
 * lib/channel, which are passed over the socket:
 *
 *     agent   -- feedback -->    control thread     hello, watch, set, release
 *             <-- telemetry --                      welcome, answer, sample
 *
 * Every frame of an agent is checked before it is used. An agent that breaks the protocol loses its
 * session. An agent that does not read loses answers and samples, the oldest first.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <leat_channel.h>

#include "tune_protocol.h"
#include "tune_pvt.h"

/* Maximum number of frames of a session in a row, before the next session's turn. */
#define FRAMES_AT_ONCE 16
/* A session is closed if no hello comes within this time after it was connected. */
#define HELLO_NS (UINT64_C(5) * NS_PER_S)
#define FEEDBACK_SIZE (UINT64_C(128) << 10)
#define TELEMETRY_SIZE (UINT64_C(256) << 10)
/* Slots for the process and the agent, and two spare: a dead agent may still occupy its slot. */
#define PARTICIPANTS 4
#define FRAME_MAX (LEAT_TUNE_MESSAGE_MAX + 1024)

/* Keys of epoll events: KEY_FIRST + 2 * index of the session + kind of descriptor. */
#define KEY_FIRST 2
#define KEY_SOCKET 0
#define KEY_FEEDBACK 1

struct tune_session {
	int sock;
	struct leat_channel *feedback, *telemetry; /* NULL: the entry is free */
	uint32_t number;
	int32_t pid;
	uint64_t hello_by; /* deadline of the hello; 0: it was received */
	bool frames;	   /* the feedback channel may have frames: it is not armed */
	bool changing;	   /* no further frame is received until the session's change has ended */
	struct tune_watch watch;
	uint32_t object; /* id of the object whose reports the agent gets; 0: none */
	char who[TUNE_WHO_MAX];
};

static struct tune_session sessions[TUNE_SESSIONS];
static uint32_t nb_sessions; /* number of sessions ever opened */
static int epoll_fd;

static bool
is_open(const struct tune_session *s)
{
	return s->telemetry != NULL;
}

const char *
tune_session_who(const struct tune_session *s)
{
	return s->who;
}

uint32_t
tune_session_number(const struct tune_session *s)
{
	return s->number;
}

static void
session_close(struct tune_session *s, const char *why)
{
	LEAT_LOG(DEBUG, tune, "session %u of %s ends: %s", s->number, s->who, why);
	tune_change_forget(s);
	tune_lease_release(s, 0, false, "session over");
	/*
	 * The agent may still have this descriptor open. Then close() alone would leave it in the
	 * epoll set.
	 */
	if (s->feedback != NULL)
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, leat_channel_fd(s->feedback), NULL);
	leat_channel_close(s->feedback);
	leat_channel_close(s->telemetry);
	(void)close(s->sock);
	memset(s, 0, sizeof(*s));
}

void
tune_session_close_all(void)
{
	struct tune_session *s;

	for (s = sessions; s < sessions + TUNE_SESSIONS; s++) {
		if (is_open(s))
			session_close(s, "the process stops");
	}
}

/* ---- connect ---- */

/* Check the user of the agent: only the user of this process, and root, may have a session. */
static int
check_peer(int sock, int32_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	*pid = 0;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return -errno;
	*pid = cred.pid;
	return cred.uid == geteuid() || cred.uid == 0 ? 0 : -EACCES;
}

static int
watch_fd(const struct tune_session *s, int fd, unsigned int which, uint32_t what)
{
	struct epoll_event ev = {
		.events = what,
		.data.u64 = KEY_FIRST + (uint64_t)(s - sessions) * 2 + which,
	};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

static int
session_open(struct tune_session *s, int sock)
{
	const struct leat_channel_conf feedback = {
		.size = FEEDBACK_SIZE,
		.participants = PARTICIPANTS,
		.notify = LEAT_CHANNEL_NOTIFY_EVENTFD,
	};
	const struct leat_channel_conf telemetry = {
		.size = TELEMETRY_SIZE,
		.participants = PARTICIPANTS,
		.notify = LEAT_CHANNEL_NOTIFY_EVENTFD,
	};
	const struct leat_channel_opts drop = { .full = LEAT_CHANNEL_FULL_DROP_OLDEST };

	s->sock = sock;
	s->feedback = leat_channel_memfd(&feedback, NULL);
	s->telemetry = leat_channel_memfd(&telemetry, &drop);
	if (s->feedback == NULL || s->telemetry == NULL ||
	    leat_channel_pass(s->feedback, sock) < 0 || leat_channel_pass(s->telemetry, sock) < 0)
		return leat_err(EIO, "%s", leat_channel_error());
	if (watch_fd(s, sock, KEY_SOCKET, EPOLLIN | EPOLLRDHUP) < 0 ||
	    watch_fd(s, leat_channel_fd(s->feedback), KEY_FEEDBACK, EPOLLIN | EPOLLET) < 0)
		return leat_err(EIO, "epoll");
	return 0;
}

static void
session_start(struct tune_session *s, int sock, int32_t pid)
{
	s->number = ++nb_sessions;
	s->pid = pid;
	s->hello_by = tune_now() + HELLO_NS;
	s->frames = true;
	snprintf(s->who, sizeof(s->who), "[%d]", pid);
	if (session_open(s, sock) == 0)
		return;
	LEAT_LOG(WARNING, tune, "an agent of process %d has no session: %s", pid, leat_err_msg());
	leat_channel_close(s->feedback);
	leat_channel_close(s->telemetry);
	(void)close(sock);
	memset(s, 0, sizeof(*s));
}

static void
session_admit(int sock)
{
	struct tune_session *s;
	int32_t pid;

	for (s = sessions; s < sessions + TUNE_SESSIONS && is_open(s); s++)
		;
	if (s == sessions + TUNE_SESSIONS) {
		LEAT_LOG(WARNING, tune, "an agent was refused: there are %u sessions",
			 TUNE_SESSIONS);
		(void)close(sock);
	} else if (check_peer(sock, &pid) < 0) {
		LEAT_LOG(WARNING, tune, "an agent of another user was turned away");
		(void)close(sock);
	} else {
		session_start(s, sock, pid);
	}
}

/*
 * The listening socket is edge-triggered: when accept4() fails because no descriptor is free, the
 * waiting connection must not wake this thread again and again. It is accepted when the next
 * connection causes an event.
 */
void
tune_session_accept(int listen_fd, int epfd)
{
	int sock;

	epoll_fd = epfd;
	while ((sock = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		session_admit(sock);
}

/* ---- send ---- */

static void
send_frame(struct tune_session *s, uint32_t type, uint64_t hash, const void *data, uint32_t len)
{
	int ret = leat_channel_send(s->telemetry, type, hash, data, len);

	/* -EAGAIN: the agent holds all frames of the channel, so none can be dropped. */
	if (ret < 0 && ret != -EAGAIN)
		LEAT_LOG(DEBUG, tune, "session %u of %s: %s", s->number, s->who,
			 leat_channel_error());
}

void
tune_session_answer(struct tune_session *s, int64_t request, int status,
		    const struct tune_object *o, uint64_t mask, const char *text)
{
	const struct leat_tune_schema *schema = o != NULL ? o->conf.schema : NULL;
	struct tune_msg_answer m = {
		.request = request,
		.status = status,
		.object = o != NULL ? (int64_t)o->id : 0,
		.epoch = o != NULL ? (int64_t)o->epoch : 0,
		.mask = mask,
	};
	uint8_t buf[TUNE_MSG_ANSWER_SIZE + LEAT_TUNE_MESSAGE_MAX];
	uint32_t len = TUNE_MSG_ANSWER_SIZE;

	snprintf(m.text, sizeof(m.text), "%s", text);
	if (tune_msg_answer_pack(&m, buf, sizeof(buf)) < 0)
		return;
	if (schema != NULL && o->current != NULL) {
		leat_tune_pack(schema, true, o->current, buf + len);
		len += schema->settings_size;
	}
	send_frame(s, TUNE_MSG_ANSWER, schema != NULL ? schema->hash : TUNE_PROTOCOL_HASH, buf,
		   len);
}

void
tune_session_sample(const struct tune_object *o, const void *message)
{
	uint8_t buf[TUNE_MSG_SAMPLE_SIZE + LEAT_TUNE_MESSAGE_MAX];
	struct tune_msg_sample m = {
		.object = (int64_t)o->id,
		.time_ns = (int64_t)o->reported_ns,
		.epoch = (int64_t)o->epoch,
	};
	struct tune_session *s;

	for (s = sessions; s < sessions + TUNE_SESSIONS; s++) {
		if (!is_open(s) || s->object != o->id)
			continue;
		if (tune_msg_sample_pack(&m, buf, sizeof(buf)) < 0)
			return;
		memcpy(buf + TUNE_MSG_SAMPLE_SIZE, message, o->conf.schema->reports_size);
		send_frame(s, TUNE_MSG_SAMPLE, o->conf.schema->hash, buf,
			   TUNE_MSG_SAMPLE_SIZE + o->conf.schema->reports_size);
	}
}

/* ---- receive; a negative return value of a take_*() ends the session ---- */

static int
take_hello(struct tune_session *s, const void *data, size_t len)
{
	struct tune_msg_welcome w = { .version = 1, .session = (int64_t)s->number };
	uint8_t buf[TUNE_MSG_WELCOME_SIZE];
	struct tune_msg_hello m;
	char *c;

	if (s->hello_by == 0 || tune_msg_hello_unpack(&m, data, len) < 0 || m.version != 1)
		return -EPROTO;
	/* The name goes into log lines and JSON. */
	for (c = m.agent; *c != '\0'; c++) {
		if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '_';
	}
	snprintf(s->who, sizeof(s->who), "%.48s[%d]", m.agent[0] != '\0' ? m.agent : "agent",
		 s->pid);
	s->hello_by = 0;
	if (tune_msg_welcome_pack(&w, buf, sizeof(buf)) < 0)
		return -EPROTO;
	send_frame(s, TUNE_MSG_WELCOME, TUNE_PROTOCOL_HASH, buf, sizeof(buf));
	return 0;
}

static int
take_watch(struct tune_session *s, const void *data, size_t len)
{
	struct tune_msg_watch m;

	if (tune_msg_watch_unpack(&m, data, len) < 0 || m.interval_ns < 0 || m.object < 0 ||
	    m.object > UINT32_MAX)
		return -EPROTO;
	s->watch.interval_ns = (uint64_t)m.interval_ns;
	if (s->watch.interval_ns != 0)
		s->watch.interval_ns = RTE_MAX(s->watch.interval_ns, TUNE_INTERVAL_MIN_NS);
	s->watch.rows = m.rows;
	s->object = (uint32_t)m.object;
	return 0;
}

static int
take_set(struct tune_session *s, uint64_t hash, const void *data, size_t len)
{
	struct tune_msg_set m;
	const void *settings;
	size_t size;

	if (tune_msg_set_unpack(&m, data, len, &settings, &size) < 0 || m.object < 0 ||
	    m.object > UINT32_MAX)
		return -EPROTO;
	s->changing = true;
	tune_change_ask(s, hash, m.request, (uint32_t)m.object, m.mask, m.lease_ns, settings, size);
	return 0;
}

static int
take_release(struct tune_session *s, const void *data, size_t len)
{
	struct tune_msg_release m;

	if (tune_msg_release_unpack(&m, data, len) < 0 || m.object < 0 || m.object > UINT32_MAX)
		return -EPROTO;
	tune_lease_release(s, (uint32_t)m.object, m.keep, "released");
	tune_session_answer(s, m.request, 0, NULL, 0, "");
	return 0;
}

static int
take_frame(struct tune_session *s, const struct leat_channel_frame *f)
{
	if (f->type == TUNE_MSG_SET && s->hello_by == 0)
		return take_set(s, f->hash, f->data, f->len);
	if (f->hash != TUNE_PROTOCOL_HASH)
		return -EPROTONOSUPPORT;
	if (f->type == TUNE_MSG_HELLO)
		return take_hello(s, f->data, f->len);
	if (s->hello_by != 0)
		return -EPROTO;
	if (f->type == TUNE_MSG_WATCH)
		return take_watch(s, f->data, f->len);
	if (f->type == TUNE_MSG_RELEASE)
		return take_release(s, f->data, f->len);
	return -EPROTO;
}

/* Receive one frame. @return 1: received; 0: there was none; negative: the session ends */
static int
receive(struct tune_session *s)
{
	uint8_t buf[FRAME_MAX];
	struct leat_channel_frame f;
	int ret = leat_channel_recv_frame(s->feedback, buf, sizeof(buf), &f);

	if (ret == -EAGAIN)
		return 0;
	if (ret >= 0)
		ret = take_frame(s, &f);
	return ret < 0 ? ret : 1;
}

/* Arm the feedback channel: frames that come after this make its descriptor readable. */
static void
arm(struct tune_session *s)
{
	int ret = leat_channel_arm(s->feedback, LEAT_CHANNEL_ARM_FRAMES, 0);

	s->frames = ret > 0;
	if (ret < 0)
		session_close(s, ret == -ESHUTDOWN ? "terminated" : leat_channel_error());
}

static void
session_run(struct tune_session *s, uint64_t now)
{
	int i, ret = 1;

	if (s->hello_by != 0 && now >= s->hello_by) {
		session_close(s, "it sent no hello in time");
		return;
	}
	for (i = 0; i < FRAMES_AT_ONCE && s->frames && !s->changing && ret > 0; i++)
		ret = receive(s);
	if (ret == 0)
		arm(s);
	else if (ret == -EPROTONOSUPPORT)
		session_close(s, "it speaks another version");
	else if (ret < 0)
		session_close(s, ret == -ESHUTDOWN ? "terminated" : "it broke the protocol");
}

void
tune_session_run_all(uint64_t now)
{
	struct tune_session *s;

	for (s = sessions; s < sessions + TUNE_SESSIONS; s++) {
		if (is_open(s))
			session_run(s, now);
	}
}

void
tune_session_event(uint64_t key, uint32_t events)
{
	struct tune_session *s = &sessions[(key - KEY_FIRST) / 2];

	if (!is_open(s))
		return;
	if ((key - KEY_FIRST) % 2 == KEY_FEEDBACK) {
		/* Edge-triggered: the descriptor stays readable until arm() clears it. */
		s->frames = true;
		return;
	}
	/* Agents send no data over the socket: an event means a close, or a broken protocol. */
	RTE_SET_USED(events);
	session_close(s, "it closed the connection");
}

void
tune_session_resume(struct tune_session *s)
{
	s->changing = false;
}

uint64_t
tune_session_due(uint64_t now)
{
	const struct tune_session *s;
	uint64_t due = UINT64_MAX;

	for (s = sessions; s < sessions + TUNE_SESSIONS; s++) {
		if (!is_open(s))
			continue;
		if (s->frames && !s->changing)
			return now;
		if (s->hello_by != 0)
			due = RTE_MIN(due, s->hello_by);
	}
	return due;
}

void
tune_session_watch(struct tune_watch *watch)
{
	const struct tune_session *s;

	memset(watch, 0, sizeof(*watch));
	for (s = sessions; s < sessions + TUNE_SESSIONS; s++) {
		if (!is_open(s))
			continue;
		watch->rows |= s->watch.rows;
		if (s->watch.interval_ns != 0 &&
		    (watch->interval_ns == 0 || s->watch.interval_ns < watch->interval_ns))
			watch->interval_ns = s->watch.interval_ns;
	}
}
