/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Proofs: is the provider address that the other side names its own?
 *
 * TCP proves nothing: a client can name the provider address of another endpoint. So each side
 * sends the other a random number (nonce), and the place of its own statement (address or offset,
 * and key). The other side writes a statement with that number at its place, in memory that only it
 * can write, and that can be read through the fabric at the address that it named:
 *
 *     connector C                                          listener L
 *     HELLO   address of C, nonce c, place p(C)      -->
 *                                                          statement at p(L): c, address of C
 *                                                    <--   ACCEPT  address of L, nonce l,
 *                                                          place p(L)
 *     statement at p(C): l, address of L
 *     READ of p(L) at the address of L: finds c and
 *     its own address
 *     PROOF                                          -->
 *                                                          READ of p(C) at the address of C: finds
 *                                                          l and its own address
 *                                                    <--   PROOF
 *
 * The statement holds the address of the side that reads it, so a listener in the middle can't pass
 * on another endpoint's statement as its own. A READ consumes no receive and does not touch the
 * application's messages. A READ that is not answered blocks nothing (except over shm of libfabric
 * 1.17, where it holds up all later answers): its slot, one of at most READS_MAX, stays an orphan
 * until the provider gives it back.
 *
 * Until it is proven, the address has no effect: no message is attributed to the peer or discarded
 * on its behalf, and other connections to that address are not disturbed.
 *
 *     provider                       place
 *     driver chooses the keys        offset in a region whose key is the same in all endpoints. So
 *                                    no READ has a wrong key, which would break the provider's
 *                                    connection to the endpoint that has the address
 *     provider chooses them (efa)    address and key, as the other side names them. A peer that may
 *                                    write and read memory of an endpoint can make a statement
 *                                    there in that endpoint's name
 *     no READ (ofi_rxd)              none: addresses are not proven. Such a provider does not
 *                                    report sources of messages, and can't restrict a receive to
 *                                    one sender, so a false address has little effect
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <leat_le.h>

#include "ofi_read.h"

/* Number of statements for which a region with the common key has room. */
#define STATEMENTS 32768
#define READS_MAX 64
/* us. Pauses before a READ is posted again. */
#define PAUSE_MIN_US 50
#define PAUSE_MAX_US 10000
/* Key of each endpoint's statements. No sealed key equals it: its low byte is no valid check. */
#define COMMON_KEY 0x6c65617470726f00ULL

/* A READ of a statement. */
struct ofi_proof_read {
	struct ofi_slot *slot; /* NULL: not in use */
	uint16_t peer;	       /* LEAT_PEER_ANY: the proof was given up */
};

/* Write a statement: nonce, length of the reader's address, that address, zeros. */
static void
state_for(uint8_t *buf, size_t size, const uint8_t *nonce, const void *addr, uint16_t len)
{
	memset(buf, 0, size);
	memcpy(buf, nonce, OFI_NONCE);
	leat_put_le16(buf + OFI_NONCE, len);
	memcpy(buf + OFI_NONCE + 2, addr, len);
}

/* ---- the endpoint's memory ---- */

static bool
common_key(const struct ofi_ep *e)
{
	return (e->info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_VIRT_ADDR)) == 0;
}

static size_t
reads_offset(const struct ofi_ep *e)
{
	return common_key(e) ? (size_t)STATEMENTS * e->proof_stride
			     : (size_t)e->proof_peers * e->proof_stride;
}

static uint8_t *
read_buf(const struct ofi_ep *e, unsigned int i)
{
	return e->proof_mem + reads_offset(e) + (size_t)i * e->proof_stride;
}

int
ofi_proof_open(struct ofi_ep *e, uint16_t max_peers)
{
	uint64_t access = FI_READ | FI_REMOTE_READ;
	struct leat_mr_piece piece;
	uint32_t addr_max;
	int ret;

	if ((e->info->caps & FI_RMA) == 0)
		return 0;
	e->proof_peers = max_peers;
	/* The length of string addresses varies. */
	addr_max = e->info->addr_format == FI_ADDR_STR ? OFI_ADDR_MAX : e->raw_len;
	e->proof_stride = RTE_ALIGN_CEIL(OFI_NONCE + 2u + addr_max, 64u);
	e->proof_reads = calloc(READS_MAX, sizeof(*e->proof_reads));
	if (e->proof_reads == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	e->proof_len = reads_offset(e) + (size_t)READS_MAX * e->proof_stride;
	/* Unused pages take no memory. */
	e->proof_mem = mmap(NULL, e->proof_len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->proof_mem == MAP_FAILED) {
		e->proof_mem = NULL;
		return leat_err(errno, "%s: create endpoint: memory for proofs: %s", e->dev->name,
				strerror(errno));
	}
	piece = (struct leat_mr_piece){ .addr = e->proof_mem, .len = e->proof_len };
	ret = ofi_mr_reg_raw(e, &piece, access, COMMON_KEY);
	if (ret != 0)
		return leat_err(EIO, "%s: create endpoint: memory for proofs: fi_mr_reg: %s",
				e->dev->name, fi_strerror(-ret));
	e->proof_mr = piece.drv;
	e->proof_desc = piece.desc;
	e->proof_base = piece.base;
	e->proof_key = piece.key;
	e->proves = true;
	return 0;
}

static bool
unanswered(const struct ofi_ep *e)
{
	unsigned int i;

	for (i = 0; i < READS_MAX && e->proof_reads[i].slot == NULL; i++)
		;
	return i < READS_MAX;
}

void
ofi_proof_close(struct ofi_ep *e)
{
	/*
	 * Over shm the other process writes the answer, even after this endpoint was closed. So the
	 * memory stays mapped if a READ is unanswered.
	 */
	if (e->proof_mem != NULL && ((e->quirks & OFI_Q_SHM) == 0 || !unanswered(e)))
		(void)munmap(e->proof_mem, e->proof_len);
	e->proof_mem = NULL;
	free(e->proof_reads);
	e->proof_reads = NULL;
}

/* ---- offers and statements ---- */

static uint8_t *
statement(const struct ofi_ep *e, uint16_t peer)
{
	return e->proof_mem + (size_t)peer * e->proof_stride;
}

int
ofi_proof_offer(const struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, uint8_t *buf)
{
	if (!e->proves)
		return 0;
	if (getrandom(p->nonce, sizeof(p->nonce), GRND_NONBLOCK) != (ssize_t)sizeof(p->nonce))
		return leat_err(EIO, "%s: connect: no random numbers: getrandom: %s", e->dev->name,
				strerror(errno));
	memcpy(buf, p->nonce, OFI_NONCE);
	leat_put_le64(buf + OFI_NONCE, e->proof_base + (uint64_t)peer * e->proof_stride);
	leat_put_le64(buf + OFI_NONCE + 8, e->proof_key);
	return OFI_PROOF_LEN;
}

int
ofi_proof_state(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, const uint8_t *peer_proof,
		uint16_t len, const struct ofi_addr *reader)
{
	if (len != (e->proves ? OFI_PROOF_LEN : 0))
		return leat_err(EPROTO,
				"%s: endpoint %s: the other side names no place to prove its "
				"address, or one for another provider",
				e->dev->name, leat_ep_name(e->ep));
	if (len == 0)
		return 0;
	p->place = leat_get_le64(peer_proof + OFI_NONCE);
	p->key = leat_get_le64(peer_proof + OFI_NONCE + 8);
	if (common_key(e)) {
		/*
		 * READ only inside the region that every endpoint has: any other READ would break
		 * the provider's connection.
		 */
		p->key = e->proof_key;
		if (p->place % e->proof_stride != 0 ||
		    p->place >= (uint64_t)STATEMENTS * e->proof_stride)
			return leat_err(EPROTO, "%s: endpoint %s: the proof is in a wrong place",
					e->dev->name, leat_ep_name(e->ep));
	}
	if (!p->stated) {
		p->stated = true;
		e->nb_stated++;
	}
	state_for(statement(e, peer), e->proof_stride, peer_proof, reader->raw, reader->len);
	return 0;
}

void
ofi_proof_end(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p)
{
	if (p->stated) {
		memset(statement(e, peer), 0, e->proof_stride);
		e->nb_stated--;
	}
	if (p->read != NULL)
		p->read->peer = LEAT_PEER_ANY;
	p->read = NULL;
	p->stated = false;
	p->pending = false;
}

/* ---- reading ---- */

static uint64_t
mark_of(const struct ofi_ep *e, const struct ofi_proof_read *r)
{
	uint64_t mark;

	memcpy(&mark, read_buf(e, (unsigned int)(r - e->proof_reads)), sizeof(mark));
	return mark;
}

bool
ofi_proof_begun(const struct ofi_ep *e, const struct ofi_slot *s)
{
	unsigned int i;

	for (i = 0; i < READS_MAX; i++) {
		if (e->proof_reads[i].slot == s)
			return mark_of(e, &e->proof_reads[i]) != s->arg[0];
	}
	return false;
}

bool
ofi_proof_under_way(const struct ofi_ep *e, const struct ofi_addr *a)
{
	unsigned int i;

	for (i = 0; a->proofs > 0 && i < READS_MAX; i++) {
		const struct ofi_proof_read *r = &e->proof_reads[i];

		if (r->slot != NULL && r->slot->addr == a && mark_of(e, r) != r->slot->arg[0])
			return true;
	}
	return false;
}

static struct ofi_proof_read *
free_read(const struct ofi_ep *e)
{
	unsigned int i;

	for (i = 0; i < READS_MAX; i++) {
		if (e->proof_reads[i].slot == NULL)
			return &e->proof_reads[i];
	}
	return NULL;
}

static void
schedule_retry(struct ofi_proof *p, uint64_t now)
{
	p->pause_us = p->pause_us == 0 ? PAUSE_MIN_US : RTE_MIN(2 * p->pause_us, PAUSE_MAX_US);
	p->next = now + leat_us_to_cycles(p->pause_us);
}

static void
post_read(struct ofi_ep *e, uint16_t peer, struct ofi_addr *a, struct ofi_proof *p, uint64_t now)
{
	struct ofi_proof_read *r = free_read(e);
	struct ofi_slot *s = e->free;
	uint8_t *buf;
	ssize_t ret;

	schedule_retry(p, now);
	if (r == NULL || s == NULL)
		return;
	buf = read_buf(e, (unsigned int)(r - e->proof_reads));
	s->arg[0] = now * UINT64_C(0x9e3779b97f4a7c15);
	memcpy(buf, &s->arg[0], sizeof(s->arg[0]));
	ret = fi_read(e->fid, buf, OFI_NONCE + 2u + e->raw_len, e->proof_desc, a->fi, p->place,
		      p->key, &s->ctx);
	if (ret != 0)
		/*
		 * Try again later. FI_EAGAIN: the provider is still connecting. Other errors pass,
		 * or the timeout of connecting ends the proof.
		 */
		return;
	e->free = s->next;
	s->op = NULL;
	s->state = OFI_SLOT_ORPHAN;
	s->flags = OFI_SLOT_PROOF;
	s->peer = peer;
	s->addr = a;
	a->orphans++;
	a->proofs++;
	e->nb_orphans++;
	r->slot = s;
	r->peer = peer;
	p->read = r;
}

void
ofi_proof_read_done(struct ofi_ep *e, const struct ofi_slot *s, bool complete)
{
	uint8_t want[OFI_NONCE + 2 + OFI_ADDR_MAX];
	struct ofi_proof_read *r;
	struct ofi_proof *p;
	unsigned int i;

	s->addr->proofs--;
	for (i = 0; i < READS_MAX && e->proof_reads[i].slot != s; i++)
		;
	if (i == READS_MAX)
		return;
	r = &e->proof_reads[i];
	r->slot = NULL;
	if (r->peer == LEAT_PEER_ANY)
		return;
	p = &e->peers[r->peer].proof;
	p->read = NULL;
	if (!p->pending || !complete)
		return;
	state_for(want, OFI_NONCE + 2u + e->raw_len, p->nonce, e->raw, e->raw_len);
	p->pending = false;
	p->ok = memcmp(read_buf(e, i), want, OFI_NONCE + 2u + e->raw_len) == 0;
}

void
ofi_proof_begin(struct ofi_proof *p)
{
	p->pending = true;
	p->ok = false;
	p->pause_us = 0;
	p->next = 0;
}

int
ofi_proof_step(struct ofi_ep *e, uint16_t peer, struct ofi_addr *a, struct ofi_proof *p,
	       uint64_t now)
{
	if (!e->proves) {
		p->pending = false;
		return 1;
	}
	if (p->pending && p->read == NULL && now >= p->next)
		post_read(e, peer, a, p, now);
	if (p->pending)
		return 0;
	return p->ok ? 1 : -EACCES;
}
