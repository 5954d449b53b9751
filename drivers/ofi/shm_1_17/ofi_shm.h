/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_SHM_H
#define OFI_SHM_H

/*
 * Provider shm of libfabric 1.17, and no other release of it.
 *
 *     ofi_shm.c        keys checked at the initiator, connections that ended
 *     ofi_shm_number.h to which connection a long message belongs
 *     ofi_shm_reg.c    endpoints of one process that hold one another
 *     ofi_shm_dead.c   what killed processes leave behind
 *     ofi_shm_cmd.c    ops that they left half written
 *     ofi_shm_mem.h    the provider's memory that they are repaired in
 */

#include "ofi_pvt.h"

/* Makes the key table, registers the endpoint, and appends the table's name to its address. */
int ofi_shm_init(struct ofi_ep *e);
void ofi_shm_fini(struct ofi_ep *e);
/* Maps the key table of an address and registers it; undone by ofi_shm_detach(). */
int ofi_shm_attach(struct ofi_ep *e, struct ofi_addr *a);
void ofi_shm_detach(struct ofi_ep *e, struct ofi_addr *a);
/* The own entry for a statement, and whether that of an address holds what it should. */
uint8_t *ofi_shm_statement(const struct ofi_ep *e, uint16_t peer, size_t *size);
bool ofi_shm_stated(const struct ofi_addr *a, uint64_t place, const uint8_t *want, size_t len);
/* Is the endpoint at the other side gone, so that nothing of it can arrive any more? */
bool ofi_shm_gone(const struct ofi_addr *a);
/* A key for a region: into the table, out of it. */
int ofi_shm_key_add(struct ofi_ep *e, uint64_t base, uint64_t len, uint32_t access, uint64_t *key);
void ofi_shm_key_del(struct ofi_ep *e, uint64_t key);
/* 0, -EACCES or -ERANGE. */
int ofi_shm_key_check(const struct ofi_addr *a, const struct leat_op *op);

/* A connection of this peer begins: it gets the next number. */
void ofi_shm_conn_begin(struct ofi_ep *e, uint16_t peer);
/* A send is about to be given back that the peer may yet copy. */
void ofi_shm_give_back(struct ofi_ep *e, uint16_t peer);
/* Asked after a long message was copied: may its sender have had the buffer back? */
bool ofi_shm_void(const struct ofi_addr *a, uint64_t data);

/* The provider's memory of an endpoint; NULL if it can't be had: then nothing is repaired. */
struct ofi_shm_region *ofi_shm_region_open(const char *prov_name);
void ofi_shm_region_close(struct ofi_shm_region *s);
/*
 * Makes the provider forget what it knows of peers that left the address vector. s: own region, or
 * NULL
 */
void ofi_shm_region_forget(struct ofi_shm_region *s);
/*
 * Looks after the locks of a peer and of this endpoint, when that peer is killed. Ended by unwatch.
 */
void ofi_shm_watch(struct ofi_shm_region *s, struct ofi_shm_region *mine, int pidfd);
/* Is it alive, or known to have left no lock taken? NULL: its locks are not watched, so it is. */
bool ofi_shm_settled(const struct ofi_shm_region *s);
/* Closes the region: at once, or when it is settled. */
void ofi_shm_unwatch(struct ofi_shm_region *s);
/* A peer is gone and its ops were finished: gives the provider the answers that it waits for. */
void ofi_shm_answer(struct ofi_ep *e, const struct ofi_addr *a);

/* Process-wide registry of endpoints, by provider address. */
struct ofi_shm_reg *ofi_shm_reg_add(struct ofi_ep *e, const char *name);
/* NULL: not of this process. */
struct ofi_shm_reg *ofi_shm_reg_hold(const char *name);
void ofi_shm_reg_release(struct ofi_shm_reg *r);
/* Has its endpoint been closed? */
bool ofi_shm_reg_closed(struct ofi_shm_reg *r);
/* The endpoint is closed. @return true: others still hold it, the last of them will free it */
bool ofi_shm_reg_bury(struct ofi_shm_reg *r);

#endif /* OFI_SHM_H */
