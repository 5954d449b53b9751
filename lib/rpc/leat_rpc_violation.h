/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_VIOLATION_H
#define LEAT_RPC_VIOLATION_H

/**
 * @file
 * Violations of the protocol, and limits of the wire format. Part of leat_rpc.h.
 */

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of requests of a session that may be under way in one direction. */
#define LEAT_RPC_SLOTS_MAX 1024
/** Minimum of leat_rpc_conf.credits: packets of a session on the way in one direction. */
#define LEAT_RPC_CREDITS_MIN 3
/** Maximum number of packets of a session that may be on the way in one direction. */
#define LEAT_RPC_CREDITS_MAX 4096
/** Maximum number of memory descriptors of a request. */
#define LEAT_RPC_BULK_MAX 8
/**
 * @name What the other side may do with described memory
 * @{
 */
#define LEAT_RPC_BULK_PULL 0x1	/**< leat_rpc_pull(): read it */
#define LEAT_RPC_BULK_PUSH 0x2	/**< leat_rpc_push(): write it */
#define LEAT_RPC_BULK_KEYED 0x4 /**< private: addr and key are of registered memory */
/** Private: all of these bits. */
#define LEAT_RPC_BULK_ACCESS (LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH | LEAT_RPC_BULK_KEYED)
/** @} */
/** Minimum number of bytes of a packet. */
#define LEAT_RPC_PACKET_MIN 256
/** Maximum number of bytes of a packet. */
#define LEAT_RPC_PACKET_MAX 65536

/**
 * A violation of the protocol by a peer. Each is counted, and ends that peer's session. On datagram
 * endpoints a packet without the session's token and epoch (each connection has its own) is
 * only counted and dropped, since anyone may have sent it.
 */
enum leat_rpc_violation {
	LEAT_RPC_TRUNCATED = 1, /**< a packet is shorter, or longer, than its items */
	LEAT_RPC_OVERSIZE,	/**< a packet or message is longer than this side accepts */
	LEAT_RPC_BAD_VERSION,	/**< a packet of a different protocol version */
	LEAT_RPC_BAD_TOKEN,	/**< a packet's token is not the session's */
	LEAT_RPC_BAD_EPOCH,	/**< a packet of an earlier connection of the same table entry */
	/** credits for more packets than the peer has receives, or fewer than before */
	LEAT_RPC_BAD_CREDIT,
	LEAT_RPC_BAD_ACK, /**< an acknowledgement of packets that were not sent */
	/** more packets than the peer had credits for, or a number too far ahead */
	LEAT_RPC_OVERRUN,
	LEAT_RPC_BAD_KIND,	/**< an item of unknown kind */
	LEAT_RPC_BAD_FLAGS,	/**< flags, fields or padding that the item's kind must not have */
	LEAT_RPC_BAD_STATUS,	/**< a status that is no errno, or not allowed */
	LEAT_RPC_BAD_PIECE,	/**< a piece that is not the next of its message */
	LEAT_RPC_BAD_SLOT,	/**< a slot that does not exist */
	LEAT_RPC_SLOT_BUSY,	/**< a request in a slot whose previous request is not answered */
	LEAT_RPC_NUM_PAST,	/**< a request or response number before the slot's current one */
	LEAT_RPC_NUM_DUPLICATE, /**< the slot's current request number again */
	LEAT_RPC_NUM_FUTURE,	/**< a request or response number beyond the next one */
	LEAT_RPC_BAD_BULK,	/**< invalid memory descriptors, or a transfer outside them */
	LEAT_RPC_UNASKED,	/**< a response that no request waits for */
	LEAT_RPC_VIOLATIONS,
};

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_VIOLATION_H */
