/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef EFA_SIM_TEST_H
#define EFA_SIM_TEST_H

/**
 * @file
 * Tests of the emulated device at the level of verbs.
 *
 * Each test runs in a process and with a configuration (EFA_SIM) of its own: the runner forks it
 * before any device is opened. The process exits with 0, or with the status that the test's
 * entry names; with 99 if objects are left over.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define EP_BYTES (1u << 20) /**< size of the memory of an endpoint */
#define EXIT_LEAKS 99

/** Vendor codes of completions. */
enum {
	ST_OK = 0,
	ST_FLUSHED = 1,
	ST_BAD_AH = 4,
	ST_BAD_LKEY = 5,
	ST_TOO_LONG = 6,
	ST_BAD_ADDRESS = 7,
	ST_ABORT = 8,
	ST_BAD_QPN = 9,
	ST_RNR = 10,
	ST_SHORT = 11,
	ST_UNRESPONSIVE = 13,
};

struct test {
	const char *name;
	const char *config; /**< EFA_SIM of the test; NULL: the defaults */
	void (*run)(void);
	int status;	    /**< expected exit status of the process */
	bool forks_threads; /**< forks with threads: skipped under a sanitizer */
};

extern const struct test tests_device[], tests_srd[], tests_ud[], tests_status[], tests_limits[],
	tests_read[], tests_ah[], tests_poll[], tests_order[], tests_fork[], tests_kill[];

/** Number of kills in the tests of test_kill.c. */
extern unsigned int test_nb_kills;

/** Print what is wrong and end the process. */
void test_fail(const char *file, int line, const char *what) __attribute__((noreturn));
void test_check_equal(const char *file, int line, const char *what, uint64_t a, uint64_t b);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			test_fail(__FILE__, __LINE__, #condition);                                 \
	} while (0)
#define CHECK_EQUAL(a, b)                                                                          \
	test_check_equal(__FILE__, __LINE__, #a " == " #b, (uint64_t)(a), (uint64_t)(b))

/** Return a counter of this process's emulator, by its name in the report. */
uint64_t counter(const char *name);
/** Return the time of CLOCK_MONOTONIC, ns. */
uint64_t now_ns(void);
/**
 * Count the open descriptors of this process, and the emulator's descriptors and mappings among
 * them.
 */
unsigned int nb_fds(void);
unsigned int nb_sim_fds(void);
unsigned int nb_sim_maps(void);

/* ---- one device ---- */

struct host {
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
};

/** Open a device; the first is 0. */
void host_open(struct host *host, int device);
void host_close(struct host *host);

/* ---- one queue pair with a completion queue and memory of its own ---- */

/** Data that a sender needs; processes pass it through their socket. */
struct addr {
	union ibv_gid gid;
	uint32_t qpn, qkey;
	uint32_t rkey;
	uint64_t mem;
};

struct ep {
	struct host *host;
	struct ibv_cq_ex *cq;
	struct efadv_cq *dv;
	bool own_cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	char *mem;
	struct ibv_mr *mr;
	struct addr addr;
};

struct ep_options {
	bool datagram;
	uint32_t qkey;
	uint8_t rnr_retry;
	uint32_t sends, recvs;	/**< 0: 64 */
	bool reset;		/**< leave the QP in the state RESET */
	const struct ep *cq_of; /**< use the CQ of this endpoint */
};

void ep_open(struct ep *ep, struct host *host, const struct ep_options *options);
void ep_close(struct ep *ep);
void ep_error(struct ep *ep);
struct ibv_ah *ah_open(struct host *host, const union ibv_gid *gid);
void ah_close(struct ibv_ah *ah);

/** Post a receive or a send of the endpoint's memory. Return what the device returns. */
int post_recv(struct ep *ep, uint64_t wr_id, uint32_t offset, uint32_t length);
int post_send(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *to,
	      uint32_t offset, uint32_t length);
/** Post a send of any memory. */
int post_send_sges(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *to,
		   struct ibv_sge *sge, int nb, unsigned int flags);
int post_recv_sges(struct ep *ep, uint64_t wr_id, struct ibv_sge *sge, int nb);
/** Post a READ into the endpoint's memory, or into any memory. */
int post_read(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *from,
	      uint64_t remote, uint32_t offset, uint32_t length);
int post_read_sge(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *from,
		  uint32_t rkey, uint64_t remote, struct ibv_sge *sge);

/** A completion. */
struct comp {
	uint64_t wr_id;
	uint32_t status; /**< vendor code */
	enum ibv_wc_status wc_status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len, qp_num, src_qp, slid;
	int sgid_err;
	union ibv_gid sgid;
};

/** Poll once. Return false if there is no completion. */
bool comp_poll(struct ep *ep, struct comp *comp);
/** Poll until there is a completion. */
void comp_wait(struct ep *ep, struct comp *comp);
/** Wait for a completion, which must have the status; return its wr_id. */
uint64_t comp_expect(struct ep *ep, uint32_t status);
/** Check that there is no completion now. */
void comp_none(struct ep *ep);

/* ---- other processes, which talk through a socket ---- */

struct child {
	pid_t pid;
	int fd;
};

/**
 * Fork. The child calls run() and exits with 0. Only tests of fork call this with an open device.
 */
void child_start(struct child *child, void (*run)(int fd, void *arg), void *arg);
/**
 * As child_start(), but the child executes a program of its own: "echo" or "echo-once".
 */
void child_exec(struct child *child, const char *name);
/** Replace this process by the named program, with fd as its socket. */
void become(const char *name, int fd) __attribute__((noreturn));
/** The programs "echo" and "echo-once". */
void child_echo(int fd, void *arg);
void child_echo_once(int fd, void *arg);
/** Wait for the child, which must exit with 0. */
void child_end(struct child *child);
void child_kill(struct child *child);
/** Write or read all bytes, or fail. */
void put(int fd, const void *data, size_t length);
void get(int fd, void *data, size_t length);
/** Read all bytes. Return false if the other process has ended. */
bool try_get(int fd, void *data, size_t length);

#endif /* EFA_SIM_TEST_H */
