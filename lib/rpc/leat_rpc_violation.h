/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_VIOLATION_H
#define LEAT_RPC_VIOLATION_H

/**
 * @file
 * What a peer may do wrong, and the limits of the wire format. Part of leat_rpc.h.
 */

#ifdef __cplusplus
extern "C" {
#endif

/** Requests of a session that may be under way in one direction, at most. */
#define LEAT_RPC_SLOTS_MAX 1024
/** Packets of a session that may be on the way in one direction, at least and at most. */
#define LEAT_RPC_CREDITS_MIN 3
#define LEAT_RPC_CREDITS_MAX 4096
/** Memory descriptors of a request, at most. */
#define LEAT_RPC_BULK_MAX 8
/**
 * @name What the other side may do with described memory
 * @{
 */
#define LEAT_RPC_BULK_PULL 0x1	/**< leat_rpc_pull(): read it */
#define LEAT_RPC_BULK_PUSH 0x2	/**< leat_rpc_push(): write it */
#define LEAT_RPC_BULK_KEYED 0x4 /**< private: addr and key are those of registered memory */
#define LEAT_RPC_BULK_ACCESS (LEAT_RPC_BULK_PULL | LEAT_RPC_BULK_PUSH | LEAT_RPC_BULK_KEYED)
/** @} */
/** Bytes of a packet, at least and at most. */
#define LEAT_RPC_PACKET_MIN 256
#define LEAT_RPC_PACKET_MAX 65536

/**
 * What a peer did that it must not do. Each ends that peer's session, and is counted. On datagram
 * endpoints a packet without the session's token and epoch is counted and dropped: anybody may have
 * sent it.
 */
enum leat_rpc_violation {
	LEAT_RPC_TRUNCATED = 1, /**< a packet ends before what it announces, or goes on behind it */
	LEAT_RPC_OVERSIZE,	/**< a packet or message longer than this side takes */
	LEAT_RPC_BAD_VERSION,	/**< a packet of another version */
	LEAT_RPC_BAD_TOKEN,	/**< a packet with a token that is not the session's */
	LEAT_RPC_BAD_EPOCH,	/**< a packet of an earlier session in the same place */
	LEAT_RPC_BAD_CREDIT,	/**< credits for more packets than there are places for, or fewer */
	LEAT_RPC_BAD_ACK,	/**< an acknowledgement of packets that were not sent */
	LEAT_RPC_OVERRUN,	/**< more packets than it had credits for, or one too far ahead */
	LEAT_RPC_BAD_KIND,	/**< an unknown kind of item */
	LEAT_RPC_BAD_FLAGS,	/**< flags, or fields, that the item's kind does not have */
	LEAT_RPC_BAD_STATUS,	/**< a status that is none */
	LEAT_RPC_BAD_PIECE,	/**< a piece that is not the next one of its message */
	LEAT_RPC_BAD_SLOT,	/**< a slot that does not exist */
	LEAT_RPC_SLOT_BUSY,	/**< a request in a slot before its last one was answered */
	LEAT_RPC_NUM_PAST,	/**< a request number from before the last one */
	LEAT_RPC_NUM_DUPLICATE, /**< the last request's number again */
	LEAT_RPC_NUM_FUTURE,	/**< a request number behind the next one */
	LEAT_RPC_BAD_BULK,	/**< memory descriptors that can't be, or reaching beyond them */
	LEAT_RPC_UNASKED,	/**< a response that no request waits for */
	LEAT_RPC_VIOLATIONS,
};

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_VIOLATION_H */
