/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef EFA_SIM_HOST_H
#define EFA_SIM_HOST_H

/**
 * @file
 * The part of a host that other hosts can read, in a memfd: its memory regions, and where its QPs'
 * inboxes are.
 *
 *     GID   fe80 | fd of the arena (16 bits) | salt (32) | pid (32) | 0 (24) | device (8)
 *
 * The owning process alone writes the tables; senders write nb_received and deaf, and fill the
 * inboxes. A table's entry is read under a sequence lock: an odd seq means that the owner is
 * writing. All members of an entry are atomic, and accessed in the order of the program
 * (sequentially consistent).
 */

#include <pthread.h>

#include "sim.h"

#define SIM_ARENA_MAGIC 0x4546412d53494d31ull
#define SIM_INBOX_MAGIC 0x4546412d53494d32ull

/** Table entry of a QP of the host. */
struct sim_qp_entry {
	_Atomic uint32_t seq;
	_Atomic int32_t fd; /**< memfd of the inbox; -1: no such QP */
	_Atomic uint32_t generation;
};

/** Table entry of a memory region of the host. */
struct sim_mr_entry {
	_Atomic uint32_t seq;
	_Atomic uint32_t key; /**< 0: none */
	_Atomic uint32_t access;
	_Atomic uint32_t pd;
	_Atomic uint64_t addr;
	_Atomic uint64_t length;
};

struct sim_arena {
	_Atomic uint64_t magic; /**< written last */
	uint8_t gid[15];	/**< without the byte of the device */
	pthread_mutex_t up;	/**< held while the host lives */
	_Atomic uint32_t deaf;	/**< its network is cut off */
	/** number of messages, counted by the senders, after which the host is cut off; 0: never */
	uint64_t deaf_after;
	_Atomic uint64_t nb_received;
	struct sim_qp_entry qps[SIM_DEVICES][SIM_QPS];
	struct sim_mr_entry mrs[SIM_MRS];
};

/** A message in an inbox. */
struct sim_slot {
	uint32_t room; /**< size of the posted receive's buffers, bytes */
	uint32_t length;
	uint32_t src_qp;
	union ibv_gid sgid;
	char data[];
};

/** The receive side of a QP, in a memfd of its own. */
struct sim_inbox {
	uint64_t magic;
	uint32_t generation;
	uint32_t qpn;
	uint32_t pd;
	uint32_t depth;	 /**< slots; a power of two */
	uint32_t stride; /**< bytes per slot */
	uint64_t bytes;
	pthread_mutex_t lock; /**< robust: a sender may be killed while it holds it */
	_Atomic uint32_t open;
	_Atomic uint32_t qkey;
	_Atomic uint64_t posted;    /**< number of receives; written by the owner */
	_Atomic uint64_t committed; /**< number of messages; a sender writes it last, under lock */
	_Alignas(64) char slots[];
};

static inline struct sim_slot *
sim_inbox_slot(struct sim_inbox *inbox, uint64_t i)
{
	return (struct sim_slot *)(inbox->slots + (i & (inbox->depth - 1)) * inbox->stride);
}

/** Lock an inbox; a message that a killed sender had begun is not in it. Return 0, or an errno. */
int sim_inbox_lock(struct sim_inbox *inbox);

/* ---- this host ---- */

/** Make this process a host, if it is not one. Return 0, or an errno. */
int sim_host_start(void);
void sim_host_stop(void);
/** Remove the files that killed hosts have left in /dev/shm. */
void sim_segments_sweep(void);
/** Return the arena of this host; NULL: this process is not a host yet. */
struct sim_arena *sim_host_arena(void);
void sim_host_gid(unsigned int device, union ibv_gid *gid);
/**
 * Create an inbox for the QP's receives and enter it in the table. Return NULL and set errno on
 * failure.
 */
struct sim_inbox *sim_inbox_create(const struct sim_qp *qp);
void sim_inbox_destroy(unsigned int device, unsigned int index, struct sim_inbox *inbox);

/* ---- other hosts, and this one ---- */

/** A host that messages can be sent to. */
struct sim_peer {
	LIST_ENTRY(sim_peer) next;
	uint8_t gid[15];
	int pid;
	uint32_t nb_refs;
	pthread_mutex_t lock;
	struct sim_arena *arena; /**< NULL: not found yet */
	bool lost;
	struct sim_inbox *inboxes[SIM_DEVICES][SIM_QPS];
};

/** Take a reference on the host of a GID, which need not exist yet. NULL: out of memory. */
struct sim_peer *sim_peer_get(const union ibv_gid *gid);
void sim_peer_put(struct sim_peer *peer);
/** Is the host up? Call under the peer's lock. */
bool sim_peer_up(struct sim_peer *peer);
/**
 * Return the inbox of a QP, or NULL if there is no such QP now. Call under the peer's lock, if the
 * peer is up.
 */
struct sim_inbox *sim_peer_inbox(struct sim_peer *peer, unsigned int device, uint32_t qpn);
/**
 * Carry out a READ: copy from the peer's memory, if a region in the protection domain of the
 * inbox's QP allows it. Call under the peer's lock.
 */
enum sim_status sim_peer_read(struct sim_peer *peer, const struct sim_inbox *inbox,
			      const struct sim_wqe *wqe);
/** Return the index of a QP number in the tables; SIM_QPS: not a number of the device. */
unsigned int sim_qp_index(uint32_t qpn);
uint32_t sim_qp_number(unsigned int index);

#endif /* EFA_SIM_HOST_H */
