/* SPDX-License-Identifier: BSD-3-Clause */

/* The intruder's connection: see intruder.h. Its writes are in attack.c. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <leat_le.h>

#include "leat_cmocka.h"
#include "../lives/traffic.h" /* CHECK */
#include "intruder.h"

#define HUGE (2u << 20)

/*
 * The private data, as struct honest_id. The magic is 0: so the victim knows that this is not the
 * bystander.
 */
struct id {
	uint64_t magic;
	struct leat_rkey key;
	uint16_t peer;
};

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		CHECK(close(*fd) == 0, "close: %s", strerror(errno));
	*fd = -1;
}

/* ---- memory ---- */

/* Create a descriptor of the kind that hello names. @return -1: not possible on this machine */
static int
odd_fd(enum intruder_hello hello, size_t len)
{
	int fd = -1, pair[2];
	char path[] = "/tmp/leat-hostile-XXXXXX";

	switch (hello) {
	case INTRUDER_LANE_PIPE:
	case INTRUDER_WORD_SOCKET:
		CHECK((hello == INTRUDER_LANE_PIPE
			       ? pipe(pair)
			       : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) == 0,
		      "pipe: %s", strerror(errno));
		close_fd(&pair[1]);
		return pair[0];
	case INTRUDER_LANE_FILE:
		fd = mkstemp(path);
		CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)len) == 0, "%s: %s",
		      path, strerror(errno));
		return fd;
	case INTRUDER_LANE_NULL:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case INTRUDER_LANE_HUGE:
		fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
		if (fd >= 0 && ftruncate(fd, (off_t)RTE_ALIGN_CEIL(len, (size_t)HUGE)) == 0 &&
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
			return fd;
		close_fd(&fd);
		return -1;
	default:
		break;
	}
	fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (hello == INTRUDER_LANE_EMPTY || hello == INTRUDER_WORD_EMPTY)
		len = 0;
	else if (hello == INTRUDER_LANE_SHORT || hello == INTRUDER_BOARD_SHORT)
		len -= 128;
	CHECK(fd >= 0 && ftruncate(fd, (off_t)len) == 0, "memfd: %s", strerror(errno));
	if (hello == INTRUDER_LANE_READ_ONLY || hello == INTRUDER_BOARD_READ_ONLY)
		CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE) == 0, "seal: %s",
		      strerror(errno));
	else if (hello != INTRUDER_LANE_UNSEALED)
		CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "seal: %s", strerror(errno));
	return fd;
}

static void
replace(int *fd, enum intruder_hello hello, size_t len)
{
	int odd = odd_fd(hello, len);

	if (odd < 0)
		return;
	close_fd(fd);
	*fd = odd;
}

static void
make_share(struct intruder *in)
{
	struct shm_table *t;

	in->fds[SHM_FDS] = shm_memory_make(&in->table, "table", sizeof(*t), true);
	in->fds[SHM_FDS + 1] = shm_memory_make(&in->piece, "piece", INTRUDER_SHARED, false);
	CHECK(in->fds[SHM_FDS] >= 0 && in->fds[SHM_FDS + 1] >= 0, "memory: %s", leat_err_msg());
	t = in->table.mem;
	t->nb = 1;
	t->pieces[0] = (struct shm_piece){ .addr = INTRUDER_AT, .len = INTRUDER_SHARED };
	t->entries[INTRUDER_KEY & RING_KEY_INDEX] =
		(struct ring_entry){ .key = INTRUDER_KEY,
				     .addr = INTRUDER_AT,
				     .len = INTRUDER_SHARED,
				     .access = LEAT_MR_REMOTE_ALL };
}

static void
make_memory(struct intruder *in, enum intruder_hello hello)
{
	const struct ring_lane_size size = ring_lane_size(&in->shape);

	in->fds[SHM_FD_LANE] = shm_memory_make(&in->lane, "lane", size.shared, false);
	in->fds[SHM_FD_ASLEEP] = shm_memory_make(&in->word, "word", sizeof(uint32_t), false);
	in->fds[SHM_FD_BOARD] = shm_memory_make(&in->board, "board", RING_BOARD_SIZE, false);
	CHECK(in->fds[0] >= 0 && in->fds[1] >= 0 && in->fds[2] >= 0 &&
		      shm_memory_own(&in->own, size.own) == 0,
	      "memory: %s", leat_err_msg());
	ring_lane_place(&in->tx, &in->shape, in->lane.mem, in->own.mem, true);
	if (in->shares)
		make_share(in);
	if (hello >= INTRUDER_LANE_SHORT && hello <= INTRUDER_LANE_HUGE)
		replace(&in->fds[SHM_FD_LANE], hello, size.shared);
	else if (hello == INTRUDER_BOARD_SHORT || hello == INTRUDER_BOARD_READ_ONLY)
		replace(&in->fds[SHM_FD_BOARD], hello, RING_BOARD_SIZE);
	else if (hello == INTRUDER_WORD_EMPTY || hello == INTRUDER_WORD_SOCKET)
		replace(&in->fds[SHM_FD_ASLEEP], hello, sizeof(uint32_t));
}

static void
drop_memory(struct intruder *in)
{
	unsigned int i;

	shm_memory_unmap(&in->lane);
	shm_memory_unmap(&in->own);
	shm_memory_unmap(&in->word);
	shm_memory_unmap(&in->board);
	shm_memory_unmap(&in->table);
	shm_memory_unmap(&in->piece);
	shm_memory_unmap(&in->their_lane);
	shm_memory_unmap(&in->their_own);
	shm_memory_unmap(&in->their_word);
	shm_memory_unmap(&in->their_board);
	for (i = 0; i < RTE_DIM(in->fds); i++)
		close_fd(&in->fds[i]);
}

/* ---- hello ---- */

static void
random_shape(struct intruder *in)
{
	const uint64_t r = test_random(&in->random);

	in->shape = (struct ring_shape){
		.nb = 16u << r % 4,
		.datagram = in->datagram,
		.nb_bytes = in->datagram ? 4096u << (r >> 8) % 4 : 32768,
		.nb_chunks = in->datagram ? 0 : 1u << (r >> 16) % 4,
	};
}

/* Write a hello to buf. @return its length */
static uint16_t
make_hello(struct intruder *in, enum intruder_hello hello, uint8_t *buf)
{
	const uint64_t r = test_random(&in->random);
	const struct shm_hello h = {
		.shape = in->shape,
		.mtu = in->datagram ? (uint32_t)(r >> 32 & 1 ? 4096 : 16384) : 0,
		.peer = (uint16_t)(r >> 16),
		.wait = (r & 1) != 0,
		.fences = true,
		.share = in->shares,
	};
	/* Offset and value of the word that is wrong in each kind of hello. */
	static const struct {
		enum intruder_hello hello;
		uint32_t at, value;
	} wrong[] = {
		{ INTRUDER_OTHER_VERSION, 0, 2 },     { INTRUDER_SLOTS_NO_POWER, 4, 48 },
		{ INTRUDER_SLOTS_MANY, 4, 1u << 31 }, { INTRUDER_BYTES_MANY, 8, UINT32_MAX - 127 },
		{ INTRUDER_CHUNKS_NONE, 12, 3 },      { INTRUDER_MTU, 16, 7 },
	};
	unsigned int i;

	shm_hello_put(buf, &h);
	for (i = 0; i < RTE_DIM(wrong); i++) {
		if (wrong[i].hello == hello)
			leat_put_le32(buf + wrong[i].at, wrong[i].value);
	}
	for (i = 0; hello == INTRUDER_RANDOM_HELLO && i < SHM_HELLO_LEN; i++)
		buf[i] = (uint8_t)test_random(&in->random);
	return hello == INTRUDER_SHORT_HELLO ? (uint16_t)(r % SHM_HELLO_LEN) : SHM_HELLO_LEN;
}

/* Send the hello: connect to addr, or if addr is NULL accept the request of conn. */
static void
tell(struct intruder *in, const char *addr, int conn, enum intruder_hello hello)
{
	const struct id id = { .key = { .key = in->random } };
	uint8_t blob[SHM_HELLO_LEN];
	int fds[SHM_FDS + 2], ret;
	struct leat_exchange_data data = {
		.blob = blob,
		.blob_len = make_hello(in, hello, blob),
		.priv = &id,
		.priv_len = sizeof(id),
		.fds = fds,
		.nb_fds = (uint8_t)(SHM_FDS + (in->shares ? 2 : 0)),
	};

	make_memory(in, hello);
	memcpy(fds, in->fds, sizeof(in->fds));
	if (hello == INTRUDER_FDS_MANY)
		fds[SHM_FDS] = in->fds[0];
	if (hello == INTRUDER_FDS_NONE)
		data.nb_fds = 0;
	else if (hello == INTRUDER_FDS_FEW)
		data.nb_fds = 1;
	else if (hello == INTRUDER_FDS_MANY)
		data.nb_fds = SHM_FDS + 1;
	in->tx.dir->want = (uint32_t)test_random(&in->random) & 3;
	if (addr != NULL) {
		in->conn = ret = leat_exchange_connect(in->x, addr, 0, &data, in);
	} else {
		ret = leat_exchange_accept(in->x, conn, &data, in);
		in->conn = conn;
	}
	CHECK(ret >= 0, "exchange: %s", strerror(-ret));
}

/* ---- events ---- */

static void
map_theirs(struct intruder *in, const struct leat_exchange_event *ev)
{
	struct ring_lane_size size;
	struct id id;

	CHECK(shm_hello_get(ev->blob, ev->blob_len, in->datagram, &in->theirs) == NULL &&
		      ev->nb_fds >= SHM_FDS,
	      "the victim's hello is not well-formed");
	size = ring_lane_size(&in->theirs.shape);
	CHECK(shm_memory_map(&in->their_lane, "lane", ev->fds[SHM_FD_LANE], size.shared, true) ==
			      0 &&
		      shm_memory_map(&in->their_word, "word", ev->fds[SHM_FD_ASLEEP],
				     sizeof(uint32_t), false) == 0 &&
		      shm_memory_map(&in->their_board, "board", ev->fds[SHM_FD_BOARD],
				     RING_BOARD_SIZE, true) == 0 &&
		      shm_memory_own(&in->their_own, size.own) == 0,
	      "%s", leat_err_msg());
	ring_lane_place(&in->rx, &in->theirs.shape, in->their_lane.mem, in->their_own.mem, false);
	if (ev->priv_len == sizeof(id)) {
		memcpy(&id, ev->priv, sizeof(id));
		in->exposed = id.key;
	}
}

static void
on_event(struct intruder *in, struct leat_exchange_event *ev)
{
	unsigned int i;

	switch (ev->type) {
	case LEAT_EXCHANGE_REQUEST:
		if (in->conn != 0) {
			CHECK(leat_exchange_reject(in->x, ev->conn, "one is enough") == 0,
			      "reject");
			break;
		}
		map_theirs(in, ev);
		tell(in, NULL, ev->conn, in->hello);
		break;
	case LEAT_EXCHANGE_CONNECTED:
		if (!in->listens)
			map_theirs(in, ev);
		in->up = true;
		memset(in->acked, 0, sizeof(in->acked));
		in->nr = RING_FIRST;
		in->place = 0;
		in->put = in->ack = LEAT_CURSOR_START;
		break;
	case LEAT_EXCHANGE_FAILED:
	case LEAT_EXCHANGE_DOWN:
		snprintf(in->why, sizeof(in->why), "%s", ev->text);
		in->up = false;
		in->ended = true;
		in->conn = 0;
		break;
	default:
		break;
	}
	for (i = 0; i < ev->nb_fds; i++)
		close_fd(&ev->fds[i]);
}

void
intruder_turn(struct intruder *in)
{
	unsigned int i, n = leat_exchange_poll(in->x, leat_now(), in->ev, 2);

	for (i = 0; i < n; i++)
		on_event(in, &in->ev[i]);
}

/* ---- open, connect and close ---- */

void
intruder_open(struct intruder *in, const char *dir, bool datagram, uint64_t seed)
{
	const struct leat_exchange_conf conf = {
		.name = "intruder",
		.kind = datagram ? "shm/datagram" : "shm/reliable",
		.dir = dir,
		.max_fds = LEAT_EXCHANGE_FDS_MAX,
	};
	unsigned int i;

	memset(in, 0, sizeof(*in));
	in->datagram = datagram;
	in->random = seed * 5 | 1;
	for (i = 0; i < RTE_DIM(in->fds); i++)
		in->fds[i] = -1;
	in->ev = calloc(2, sizeof(*in->ev));
	in->x = leat_exchange_create(&conf);
	CHECK(in->x != NULL && in->ev != NULL, "exchange: %s", leat_err_msg());
	CHECK(leat_exchange_listen(in->x, "127.0.0.1:0") == 0 &&
		      leat_exchange_listen_addr(in->x, in->addr, sizeof(in->addr)) == 0,
	      "listen: %s", leat_err_msg());
}

void
intruder_begin(struct intruder *in, const char *addr, bool listens, enum intruder_hello hello)
{
	static const uint32_t tames[] = { 2, 50, 1000, 10000 };

	in->listens = listens;
	in->ended = false;
	in->hello = hello;
	in->shares = hello == INTRUDER_WELL_FORMED && !in->datagram &&
		     (test_random(&in->random) & 1) != 0;
	in->wild_period = tames[test_random(&in->random) % RTE_DIM(tames)];
	random_shape(in);
	if (!listens)
		tell(in, addr, 0, hello);
}

void
intruder_end(struct intruder *in)
{
	if (in->conn != 0)
		CHECK(leat_exchange_close(in->x, in->conn, "enough") == 0, "close");
	in->conn = 0;
	in->up = false;
	in->ended = true;
	drop_memory(in);
}

void
intruder_close(struct intruder *in)
{
	intruder_end(in);
	leat_exchange_destroy(in->x);
	free(in->ev);
}
