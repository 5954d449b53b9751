/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_SHM_NUMBER_H
#define OFI_SHM_NUMBER_H

/*
 * Provider shm: which connection a long message belongs to, and whether its sender still owns the
 * buffer.
 *
 * The receiver of a message of more than 4096 B copies it out of the sender's buffer. When a
 * connection ends before that, the sender has its op back without the provider's completion, and
 * may write to the buffer: what the receiver copies then is not the message. The sender says so
 * before it gives such an op back, where its peers can read it, and the receiver looks there after
 * it has copied:
 *
 *     sender                                         receiver
 *     post: data = {imm, slot 3, nr 7}  -----------> copies the buffer
 *     the connection ends                            ...
 *     ended[3] = 7                                   completion:
 *     fence                                            ended[3] < 7: this is the message
 *     the op is given back, the buffer reused         ended[3] >= 7: -ECONNRESET
 *
 * However long the receiver stands still between these steps: if it has copied anything that was
 * written after the op was given back, then it also sees the mark that was written before. Neither
 * side waits for the other.
 *
 * The data of a long message (fi_senddata) hold what the receiver needs:
 *
 *     63               41 40      33   32      31            0
 *     +------------------+----------+---------+--------------+
 *     | nr of connection |   slot   | has imm |  immediate   |
 *     +------------------+----------+---------+--------------+
 *
 * The slot is the sender's peer number; nr counts the connections that had it.
 */

#include <stdbool.h>
#include <stdint.h>

/* Longer messages are copied by their receiver. */
#define OFI_SHM_COPIED 4096
#define OFI_SHM_SLOTS 256
#define OFI_SHM_NR_MASK 0x7fffffu
/* Just before it wraps. */
#define OFI_SHM_NR_START (OFI_SHM_NR_MASK - 2)
#define OFI_SHM_HAS_IMM (UINT64_C(1) << 32)

static inline uint64_t
ofi_shm_data(uint16_t slot, uint32_t nr)
{
	return (uint64_t)nr << 41 | (uint64_t)(slot % OFI_SHM_SLOTS) << 33;
}

static inline uint16_t
ofi_shm_data_slot(uint64_t data)
{
	return data >> 33 & (OFI_SHM_SLOTS - 1);
}

static inline uint32_t
ofi_shm_data_nr(uint64_t data)
{
	return (uint32_t)(data >> 41);
}

static inline uint32_t
ofi_shm_nr_next(uint32_t nr)
{
	return (nr + 1) & OFI_SHM_NR_MASK;
}

/*
 * Is ended the number of this connection, or of a later one? They are less than half the numbers
 * apart.
 */
static inline bool
ofi_shm_nr_ended(uint32_t ended, uint32_t nr)
{
	return ((ended - nr) & OFI_SHM_NR_MASK) <= OFI_SHM_NR_MASK / 2;
}

/*
 * ended, for a slot whose next connection is nr: as it is, or, when no connection ended with ops
 * for so long that it would soon be taken for a later one, a quarter of the numbers behind.
 */
static inline uint32_t
ofi_shm_nr_follow(uint32_t ended, uint32_t nr)
{
	const uint32_t quarter = OFI_SHM_NR_MASK / 4;

	return ((nr - ended) & OFI_SHM_NR_MASK) <= quarter ? ended
							   : (nr - quarter) & OFI_SHM_NR_MASK;
}

#endif /* OFI_SHM_NUMBER_H */
