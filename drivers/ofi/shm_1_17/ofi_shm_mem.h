/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_SHM_MEM_H
#define OFI_SHM_MEM_H

/*
 * The memory of an endpoint of provider shm, as libfabric 1.17 lays it out (SMR_VERSION 4, without
 * debugging checks; prov/util ofi_shm.h, include/ofi_rbuf.h, include/ofi_mem.h). The driver repairs
 * it when a process that was writing to it is killed, and knows no other release.
 *
 *     struct ofi_shm_mem | command queue | response queue | inject pool | SAR pool | peers | ...
 *
 * Senders take the lock and append to the command queue; the owner takes it and reads. Every
 * process of the user can write everywhere here: what is read from it is checked before it is used.
 */

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define OFI_SHM_VERSION 4
#define OFI_SHM_FLAG_DEBUG 0x2

/* struct smr_region */
struct ofi_shm_mem {
	uint8_t version;
	uint8_t resv;
	uint16_t flags;
	int pid;
	uint8_t cma_cap_peer;
	uint8_t cma_cap_self;
	uint32_t max_sar_buf_per_peer;
	void *base_addr;
	pthread_spinlock_t lock;
	_Atomic int32_t signal;
	void *map;
	size_t total_size;
	size_t cmd_cnt; /* commands that senders may still write */
	size_t sar_cnt;
	size_t cmd_queue_offset;
	size_t resp_queue_offset;
	size_t inject_pool_offset;
	size_t sar_pool_offset;
	size_t peers_offset;
};

static_assert(offsetof(struct ofi_shm_mem, lock) == 24, "as in the provider");
static_assert(offsetof(struct ofi_shm_mem, cmd_cnt) == 48, "as in the provider");
static_assert(offsetof(struct ofi_shm_mem, sar_pool_offset) == 88, "as in the provider");

/* struct smr_peer_data, one for each entry of the address vector. */
struct ofi_shm_peer {
	char name[256]; /* "": not in the address vector */
	/* The owner's entry at that peer, which ops name as their source; -1: not known. */
	int64_t id;
	uint32_t sar_status;
	uint32_t name_sent; /* the peer was asked for the id */
};

#define OFI_SHM_PEERS 256

static_assert(sizeof(struct ofi_shm_peer) == 272, "as in the provider");

/* struct smr_cmd: a header, or the second half of a one-sided op. */
struct ofi_shm_cmd {
	uint64_t msg_id;
	int64_t id;
	uint32_t op;
	uint16_t op_src;
	uint16_t op_flags;
	uint64_t rest[29];
};

static_assert(offsetof(struct ofi_shm_cmd, op) == 16, "as in the provider");
static_assert(sizeof(struct ofi_shm_cmd) == 256, "as in the provider");

/* ofi_proto.h; SMR_OP_MAX + ofi_ctrl_connreq. */
enum ofi_shm_op {
	OFI_SHM_OP_MSG,
	OFI_SHM_OP_TAGGED,
	OFI_SHM_OP_READ_REQ,
	OFI_SHM_OP_READ_RSP,
	OFI_SHM_OP_WRITE,
	OFI_SHM_OP_WRITE_ASYNC,
	OFI_SHM_OP_ATOMIC,
	OFI_SHM_OP_ATOMIC_FETCH,
	OFI_SHM_OP_ATOMIC_COMPARE,
	OFI_SHM_OP_READ_ASYNC,
	OFI_SHM_OP_CONNREQ = 256,
};

/*
 * OFI_DECLARE_CIRQUE(struct smr_cmd, smr_cmd_queue): size is a power of two, the counters only
 * grow.
 */
struct ofi_shm_cmd_queue {
	size_t size;
	size_t size_mask;
	size_t rcnt;
	size_t wcnt;
	struct ofi_shm_cmd buf[];
};

/*
 * struct smr_freestack: next[] of a free entry is the one below it, -1 at the bottom; of one in use
 * -1.
 */
struct ofi_shm_pool {
	uint64_t entry_base_offset;
	size_t object_size;
	size_t size;
	int16_t free;
	int16_t top; /* -1: empty */
	int16_t next[];
};

static_assert(offsetof(struct ofi_shm_pool, next) == 28, "as in the provider");

/*
 * Sets right what a process left half done that was killed while it held the lock of this memory,
 * whose owner is alive. To be called in its place: the lock is taken, and no process but the dead
 * one was inside.
 * @return 1: half an op was taken out of the command queue; 0: there was none; -EPROTO: this is no
 * memory of that provider (any more), and nothing was changed
 */
int ofi_shm_cmd_repair(struct ofi_shm_mem *m, size_t len);

#endif /* OFI_SHM_MEM_H */
