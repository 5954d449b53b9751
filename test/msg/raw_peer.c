/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * msg-raw-peer listen|connect HOST:PORT MESSAGES [any-id]
 *
 * A program that uses libfabric directly and has no code of leat. It implements
 * doc/guide/address-exchange.md and doc/guide/msg.md, sends back MESSAGES messages in plain mode,
 * and then waits for the other side to close. When it listens it prints the port, so that port 0
 * may be given. It receives each length by its id; with any-id it receives any length, and reads
 * the id from the tag.
 */

#include <endian.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define PROVIDER "tcp;ofi_rxm"
#define MAX_MESSAGE (2u << 20)

/* Sizes in the statement that proves an address, see address-exchange.md. */
#define NONCE 16
#define PROOF_LEN 32
#define COMMON_KEY UINT64_C(0x6c65617470726f00)
#define STATEMENTS 32768

enum { HELLO = 1, ACCEPT, REJECT, READY, BYE, PROOF };

static struct fi_info *info;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t peer;
static uint8_t address[512]; /* of this side's endpoint, sent to the other side */
static size_t address_len;
static char kind[32];
static struct fid_domain *domain;
/* the region that the other side reads; stride bytes for each statement */
static uint8_t *statements;
static size_t stride;
static uint8_t nonce[NONCE];
/* The other side's address, and its proof. */
static uint8_t their_address[512], their_proof[PROOF_LEN];
static size_t their_len;

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "raw peer: " __VA_ARGS__);                                 \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* ---- libfabric ---- */

static void
fabric_open(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 1 };
	struct fid_fabric *fabric;

	check(hints != NULL, "no memory");
	hints->fabric_attr->prov_name = strdup(PROVIDER);
	hints->caps = FI_TAGGED | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	check(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &info) == 0,
	      "no provider " PROVIDER);
	fi_freeinfo(hints);
	check(fi_fabric(info->fabric_attr, &fabric, NULL) == 0 &&
		      fi_domain(fabric, info, &domain, NULL) == 0 &&
		      fi_cq_open(domain, &cq_attr, &cq, NULL) == 0 &&
		      fi_av_open(domain, &av_attr, &av, NULL) == 0 &&
		      fi_endpoint(domain, info, &ep, NULL) == 0 &&
		      fi_ep_bind(ep, &av->fid, 0) == 0 &&
		      fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0 && fi_enable(ep) == 0,
	      "no endpoint of " PROVIDER);
	address_len = sizeof(address);
	check(fi_getname(&ep->fid, address, &address_len) == 0, "fi_getname");
	snprintf(kind, sizeof(kind), "ofi/%s", info->fabric_attr->prov_name);
}

/* Register a region whose key and size are the same in all endpoints. */
static void
statements_open(void)
{
	struct fid_mr *mr;
	size_t len;

	stride = (NONCE + 2 + address_len + 63) / 64 * 64;
	len = STATEMENTS * stride;
	statements = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(statements != MAP_FAILED, "mmap");
	check((info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_ENDPOINT)) == 0 &&
		      fi_mr_reg(domain, statements, len, FI_REMOTE_READ, 0, COMMON_KEY, 0, &mr,
				NULL) == 0,
	      "fi_mr_reg");
}

static uint64_t tag_in; /* tag of the last receive */

/* Wait for n ops. @return bytes of the last receive */
static size_t
wait_for(unsigned int n)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	size_t len = 0;

	while (n > 0) {
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == 1) {
			n--;
			if ((entry.flags & FI_RECV) != 0) {
				len = entry.len;
				tag_in = entry.tag;
			}
			continue;
		}
		if (ret == -FI_EAVAIL)
			(void)fi_cq_readerr(cq, &err, 0);
		check(ret == -FI_EAGAIN, "completion: %s", fi_strerror(err.err));
		sched_yield(); /* the other side may need the CPU */
	}
	return len;
}

static void
post(bool send, void *buf, size_t len, uint64_t tag, uint64_t ignore, struct fi_context2 *ctx)
{
	ssize_t ret;

	do {
		ret = send ? fi_tsend(ep, buf, len, NULL, peer, tag, ctx)
			   : fi_trecv(ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, ignore, ctx);
		if (ret == -FI_EAGAIN)
			(void)fi_cq_read(cq, NULL, 0);
	} while (ret == -FI_EAGAIN);
	check(ret == 0, "post: %s", fi_strerror((int)-ret));
}

/* ---- plain mode ---- */

static void
echo(uint32_t messages, bool any_id)
{
	static uint8_t buf[MAX_MESSAGE];
	struct fi_context2 ctx[2];
	uint64_t len;
	uint32_t id;

	for (id = 0; id < messages; id++) {
		if (any_id)
			post(false, &len, sizeof(len), UINT64_C(1) << 32, 0xffffffff, &ctx[0]);
		else
			post(false, &len, sizeof(len), UINT64_C(1) << 32 | id, 0, &ctx[0]);
		check(wait_for(1) == sizeof(len), "length %u is not of 8 B", id);
		/*
		 * The id must be the next, since the order of sends is kept, and one receive is
		 * posted at a time.
		 */
		check(!any_id || tag_in == (UINT64_C(1) << 32 | id), "tag %#llx instead of id %u",
		      (unsigned long long)tag_in, id);
		len = le64toh(len);
		check(len <= sizeof(buf), "message %u of %llu B", id, (unsigned long long)len);
		if (len > 0) {
			post(false, buf, len, UINT64_C(1) << 33 | id, 0, &ctx[0]);
			check(wait_for(1) == len, "message %u has not the announced length", id);
		}
		len = htole64(len);
		post(true, &len, sizeof(len), UINT64_C(1) << 32 | id, 0, &ctx[0]);
		if (len > 0)
			post(true, buf, le64toh(len), UINT64_C(1) << 33 | id, 0, &ctx[1]);
		(void)wait_for(len > 0 ? 2 : 1);
	}
}

/* ---- the address exchange ---- */

static void
put_header(uint8_t *buf, uint16_t type, uint32_t len)
{
	const uint16_t version = htole16(2);

	memset(buf, 0, 16);
	memcpy(buf, (const uint8_t[]){ 'L', 'E', 'A', 'T' }, 4);
	memcpy(buf + 4, &version, 2);
	type = htole16(type);
	memcpy(buf + 6, &type, 2);
	len = htole32(len);
	memcpy(buf + 12, &len, 4);
}

/* Send HELLO or ACCEPT, without private data. The statement of this side is the first one. */
static void
send_address(int fd, uint16_t type)
{
	uint8_t buf[16 + 40 + sizeof(address) + PROOF_LEN] = { 0 };
	uint16_t len = htole16((uint16_t)address_len);
	size_t total = 16 + 40 + address_len + PROOF_LEN;
	uint64_t key = htole64(COMMON_KEY);

	check(getrandom(nonce, sizeof(nonce), 0) == (ssize_t)sizeof(nonce), "getrandom");
	put_header(buf, type, (uint32_t)(total - 16));
	memcpy(buf + 16, kind, sizeof(kind));
	memcpy(buf + 48, &len, 2);
	len = htole16(PROOF_LEN);
	memcpy(buf + 52, &len, 2);
	memcpy(buf + 56, address, address_len);
	memcpy(buf + 56 + address_len, nonce, sizeof(nonce));
	memcpy(buf + 56 + address_len + NONCE + 8, &key, 8);
	check(write(fd, buf, total) == (ssize_t)total, "write");
}

/* @return length of the body, which is read into body; -1: the other side has closed */
static int
read_message(int fd, uint16_t *type, uint8_t *body, size_t room)
{
	uint8_t head[16];
	uint32_t len;
	ssize_t n = recv(fd, head, sizeof(head), MSG_WAITALL);

	if (n == 0)
		return -1;
	check(n == sizeof(head) && memcmp(head, "LEAT\2", 6) == 0, "malformed header");
	memcpy(type, head + 6, 2);
	*type = le16toh(*type);
	memcpy(&len, head + 12, 4);
	len = le32toh(len);
	/* a recv() of 0 bytes would wait for data */
	check(len <= room && (len == 0 || recv(fd, body, len, MSG_WAITALL) == (ssize_t)len),
	      "malformed body");
	return (int)len;
}

static void
take_address(int fd, uint16_t expected)
{
	uint8_t body[1024] = { 0 };
	uint16_t type = 0, len, priv, proof;

	check(read_message(fd, &type, body, sizeof(body)) >= 40 && type == expected,
	      "message of type %u instead of %u", type, expected);
	check(strcmp((char *)body, kind) == 0, "the other side's kind is %.31s", (char *)body);
	memcpy(&len, body + 32, 2);
	memcpy(&priv, body + 34, 2);
	memcpy(&proof, body + 36, 2);
	len = le16toh(len);
	priv = le16toh(priv);
	check(len <= sizeof(their_address) && priv <= 256 && le16toh(proof) == PROOF_LEN,
	      "lengths of the other side's address");
	memcpy(their_address, body + 40, len);
	their_len = len;
	memcpy(their_proof, body + 40 + len + priv, PROOF_LEN);
	check(fi_av_insert(av, body + 40, 1, &peer, 0, NULL) == 1, "fi_av_insert");
}

static void
statement_put(uint8_t *buf, const uint8_t *number, const uint8_t *reader, size_t len)
{
	uint16_t le = htole16((uint16_t)len);

	memcpy(buf, number, NONCE);
	memcpy(buf + NONCE, &le, 2);
	memcpy(buf + NONCE + 2, reader, len);
}

/* Write the statement through which this side proves to the other that the address is its own. */
static void
state(void)
{
	statement_put(statements, their_proof, their_address, their_len);
}

/* Read the other side's statement, and check that the address is its own. */
static void
prove(void)
{
	static uint8_t want[1024], have[1024];
	struct fi_context2 ctx;
	uint64_t place;
	ssize_t ret;

	memcpy(&place, their_proof + NONCE, 8);
	place = le64toh(place);
	statement_put(want, nonce, address, address_len);
	do {
		ret = fi_read(ep, have, NONCE + 2 + address_len, NULL, peer, place, COMMON_KEY,
			      &ctx);
		if (ret == -FI_EAGAIN)
			(void)fi_cq_read(cq, NULL, 0);
	} while (ret == -FI_EAGAIN);
	check(ret == 0, "fi_read: %s", fi_strerror((int)-ret));
	(void)wait_for(1);
	check(memcmp(want, have, NONCE + 2 + address_len) == 0,
	      "the address is not the other side's own");
}

/*
 * Read a message without a body. The provider is driven meanwhile, since the other side reads this
 * side's statement through it.
 */
static void
expect(int fd, uint16_t expected)
{
	uint8_t body[128];
	uint16_t type = 0;

	while (recv(fd, body, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
		(void)fi_cq_read(cq, NULL, 0);
		sched_yield();
	}
	check(read_message(fd, &type, body, sizeof(body)) == 0 && type == expected,
	      "message of type %u instead of %u", type, expected);
}

static void
say(int fd, uint16_t type)
{
	uint8_t buf[16];

	put_header(buf, type, 0);
	check(write(fd, buf, sizeof(buf)) == (ssize_t)sizeof(buf), "write");
}

static int
meet(bool listens, char *where)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	char *port = strrchr(where, ':');
	struct sockaddr_in sin = { 0 };
	socklen_t len = sizeof(sin);
	int fd, lfd;

	check(port != NULL, "%s: no port", where);
	*port++ = '\0';
	check(getaddrinfo(where, port, &hints, &ai) == 0, "%s: unknown", where);
	fd = socket(ai->ai_family, SOCK_STREAM, 0);
	check(fd >= 0, "socket");
	if (listens) {
		lfd = fd;
		check(bind(lfd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(lfd, 1) == 0 &&
			      getsockname(lfd, (struct sockaddr *)&sin, &len) == 0,
		      "listen");
		printf("listening %s:%u\n", where, ntohs(sin.sin_port));
		fflush(stdout);
		fd = accept(lfd, NULL, NULL);
		check(fd >= 0, "accept");
		close(lfd);
		take_address(fd, HELLO);
		state();
		send_address(fd, ACCEPT);
		expect(fd, PROOF);
		prove();
		say(fd, PROOF);
		expect(fd, READY);
	} else {
		check(connect(fd, ai->ai_addr, ai->ai_addrlen) == 0, "connect");
		send_address(fd, HELLO);
		take_address(fd, ACCEPT);
		state();
		prove();
		say(fd, PROOF);
		expect(fd, PROOF);
		say(fd, READY);
	}
	freeaddrinfo(ai);
	return fd;
}

int
main(int argc, char **argv)
{
	uint8_t body[256];
	uint16_t type;
	int fd;

	check(argc == 4 || argc == 5, "listen|connect HOST:PORT MESSAGES [any-id]");
	fabric_open();
	statements_open();
	fd = meet(strcmp(argv[1], "listen") == 0, argv[2]);
	echo((uint32_t)atoi(argv[3]), argc == 5);
	/* Drive the provider, which may still have data to move, until the other side closes. */
	check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	while (recv(fd, body, 1, MSG_PEEK) < 0)
		(void)fi_cq_read(cq, NULL, 0);
	check(fcntl(fd, F_SETFL, 0) == 0, "fcntl");
	check(read_message(fd, &type, body, sizeof(body)) >= 8 && type == BYE, "no BYE");
	fi_close(&ep->fid);
	close(fd);
	printf("%s messages sent back\n", argv[3]);
	return 0;
}
