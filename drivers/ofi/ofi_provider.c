/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * All knowledge of single providers: one row each, with the reason for each entry. The rest of the
 * driver reads the row. Only the code that tells fabric_efa from fabric_ofi compares names.
 *
 * "1.17" and source lines refer to libfabric v1.17.0, the release of Debian 12.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ofi_pvt.h"

#define ANY_VERSION UINT32_MAX

#define TCP_QUIRKS                                                                                 \
	(OFI_Q_WRITE_DC | OFI_Q_WRITE_IMM_DC | OFI_Q_KEY_SEALED | OFI_Q_BREAKS |                   \
	 OFI_Q_INJECT_QUEUES)

static const struct ofi_provider providers[] = {
	{
		/*
		 * Elastic Fabric Adapter, RDM over SRD.
		 * - fabric "efa": from 2.0 on there is also "efa-direct", without tags and atomics.
		 * - Completions come in any order: SRD delivers in any order, and the provider
		 *   reorders messages but not completions.
		 * - WRITE with FI_DELIVERY_COMPLETE: some writes are emulated by messages (1.17
		 *   always does so, later releases where the device has no RDMA write). Without the
		 *   flag such a write completes when it was sent.
		 * - Messages that no receive waits for are copied into packets of a pool without a
		 *   limit (rxr_ep.c rx_unexp_pkt_pool): so the library matches tags itself.
		 * - BREAKS: a message that failed leaves a gap in the receiver's window of message
		 *   numbers (rxr_pkt_type_req.c), and no later message is ever delivered.
		 * - EVENTS: an error of an op that is not the caller's is written to the event
		 *   queue, and the process is aborted if there is none (rxr.h
		 *   efa_eq_write_error()): a peer's WRITE to a wrong key is enough. The peer is not
		 *   notified: its op never completes.
		 * - FAILS_AGAIN: an op of several packets gets one error entry per failed packet
		 *   (rxr_pkt_cmd.c rxr_pkt_handle_send_error(); the entry is not released, rxr_cq.c
		 *   rxr_cq_write_tx_error()).
		 * - ENDED_READS: neither a send nor a READ can be cancelled. A peer that resumes
		 *   after a silence still gets the rest of the message out of the caller's buffer.
		 * - AV_STAYS: fi_av_remove() frees the answers to the peer's READs, but leaves them
		 *   on the list of what is being sent (efa_av.c efa_rdm_peer_clear()); rxr_ep.c
		 *   rxr_ep_progress_internal() then reads the freed peer. So once an endpoint has a
		 *   region that peers may READ, it keeps all addresses until it is closed. Nor may
		 *   an address be removed while a newer address has the same queue pair number
		 *   (its endpoint was created again): fi_av_remove() then deletes the entry of the
		 *   newer address. Messages from the newer address have no source afterwards, and
		 *   removing it crashes (efa_av.c efa_conn_release()).
		 * - No inject: the error entry of an injected message has no context, so the driver
		 *   can't tell which message was lost, and the receiver waits for it for ever.
		 * - Shared memory for peers on the same instance is switched off: it is the shm
		 *   provider with its locks, see below. All releases avoid shared memory when
		 *   FI_REMOTE_COMM is asked for and FI_LOCAL_COMM is not (1.17: ofi_user_info.c,
		 *   rxr_ep_use_shm_for_tx()); peers of this host are then reached through the
		 *   device. Later releases have an endpoint option for it, too.
		 */
		.name = "efa",
		.hint = "efa",
		.fabric = "efa",
		.max_version = ANY_VERSION,
		.quirks = OFI_Q_WRITE_DC | OFI_Q_WRITE_IMM_DC | OFI_Q_NO_SHM_INSIDE | OFI_Q_BREAKS |
			  OFI_Q_EVENTS | OFI_Q_FAILS_AGAIN | OFI_Q_ENDED_READS | OFI_Q_AV_STAYS,
		.status = ofi_efa_status,
		.hint_of = ofi_efa_hint,
		.tx_depth = 512,
		.rx_depth = 512,
		.max_peers = 32768,
		.inject_pays = 0,
		.check = "is the EFA kernel module loaded (lsmod | grep efa), is an EFA interface "
			 "attached to this instance (fi_info -p efa)?",
	},
	{
		/*
		 * Shared memory between processes of one user on one machine. Meant for comparison
		 * with fabric_shm: doc/drivers/ofi.md lists the faults that no call repairs.
		 * - Large messages are copied by process_vm_readv/writev ("CMA"), which the other
		 *   process must permit.
		 * - SINK_FAULT: a message of more than 4096 B that is longer than the receive makes
		 *   fi_cq_read loop for ever, with the region locked (smr.h smr_cma_loop: no room
		 *   is left to copy to, so 0 B are copied, so it tries again). A second iov of
		 *   enormous length whose pages can't be written makes the copy fail instead:
		 *   -EMSGSIZE as everywhere else.
		 * - KEY_SEALED: with FI_MR_VIRT_ADDR the initiator copies directly (fast RMA), and
		 *   no key is ever checked. Without it a wrong key gets no answer: the op never
		 *   completes, and all responses after it are blocked, to all peers
		 *   (smr_progress.c smr_progress_resp).
		 * - WRITE_DC, WRITE_IMM_DC: without them writes of up to 4096 B complete before
		 *   they are placed.
		 * - CLOSE_LAST: endpoints of one process access each other's memory through the
		 *   owner's mapping, and closing the owner removes that mapping (util_shm.c
		 *   smr_map_to_region()).
		 * - AV_FILLS: fi_av_remove() does not clear the endpoint's entry for the removed
		 *   peer (util_shm.c smr_unmap_from_endpoint(), called after smr_map_del()). If the
		 *   index is given to a new address, the endpoint uses the old entry, and the
		 *   receiver of its messages attributes them to another peer.
		 * - MASKS_STAY: the entry of a tagged message that waits for its receive still
		 *   holds the mask of the receive that used the entry before, and the message is
		 *   matched with that mask (smr_ep.c smr_get_tag() sets no ignore,
		 *   smr_match_tagged() reads it).
		 * - 256 peers: SMR_MAX_PEERS.
		 * - leat matches tags itself, because tagged messages that a connection
		 *   leaves unreceived can't be drained (MASKS_STAY), and the unreceived messages of
		 *   one peer hold up the messages of all.
		 * - 4096 receives are asked for, so that leat has enough of them for each of 255
		 *   peers. 256 of them stay for unexpected messages, which take their entries from
		 *   the same pool.
		 */
		.name = "shm",
		.hint = "shm",
		.max_version = FI_VERSION(1, 17),
		.quirks = OFI_Q_SHM | OFI_Q_SINK_FAULT | OFI_Q_KEY_SEALED | OFI_Q_WRITE_DC |
			  OFI_Q_WRITE_IMM_DC | OFI_Q_MASKS_STAY | OFI_Q_CLOSE_LAST | OFI_Q_AV_FILLS,
		.tx_depth = 512,
		.rx_depth = 512,
		.tx_depth_max = 1024,
		.rx_spare = 256,
		.sink_len = 1ULL << 40,
		.max_peers = 255,
		.inject_pays = 4096,
		.check = "is /dev/shm mounted with room for 16 MiB per core (df /dev/shm)?",
	},
	{
		/*
		 * Up to 1.17 the tcp provider has connected endpoints only, and ofi_rxm makes RDM
		 * of them.
		 * - WRITE_DC: otherwise a write completes when the socket took it, and one with a
		 *   wrong key completes with success.
		 * - KEY_SEALED: a wrong key breaks the connection below, and with it everything
		 *   under way between the two, including injected messages whose sender is not
		 *   notified. The driver chooses the keys here, so it puts length and rights into
		 *   them, and the initiator checks.
		 * - BREAKS: when the connection breaks, ops end with FI_ECANCELED. A later message
		 *   would open a new connection, but it is unknown what was lost, so the driver
		 *   ends the peer.
		 * - sink: a message of up to 16 KiB that is longer than its receive breaks the
		 *   connection (tcpx_progress.c "dynamically provided rbuf is too small").
		 * - A send of more than 16 KiB to a peer that died never completes, and posting to
		 *   that peer fails with FI_EAGAIN for ever: the driver learns of the death from
		 *   the exchange of addresses.
		 * - Such a send keeps the domain busy: fi_close() of the domain fails with
		 *   FI_EBUSY, and the domain leaks.
		 * - INJECT_QUEUES: fi_inject() to a peer that does not read never fails with
		 *   FI_EAGAIN.
		 * - AV_CUTS: suppose this side disconnects a stopped peer that has a READ to
		 *   answer. When the peer resumes it would answer, into a buffer that is the
		 *   caller's again. So the driver removes the address, which closes the connection.
		 * - READ_TWICE: see ofi_read.c.
		 * - A message that no receive waits for keeps the 16 KiB buffer into which it came.
		 *   There is no limit on such buffers, and each receive that is posted searches all
		 *   of them (rxm_cq.c rxm_match_rx_buf(), rxm_ep.c rxm_get_unexp_msg()): so the
		 *   library matches tags itself.
		 * - fi_info says 2048 sends and receives; the provider has 16384 and 65536.
		 * - DRAIN_EMPTY: if the sender of a message of more than 16 KiB has left before the
		 *   message meets a receive, the process crashes: the connection is a null pointer
		 *   (rxm_cq.c rxm_handle_rndv). A receive of size 0 fetches nothing, and is safe.
		 */
		.name = "tcp",
		.hint = "tcp;ofi_rxm",
		.sink_len = 64 << 10,
		.max_version = FI_VERSION(1, 17),
		.quirks = TCP_QUIRKS | OFI_Q_DRAIN_EMPTY | OFI_Q_AV_CUTS | OFI_Q_READ_TWICE,
		.depth_ask = 16384,
		.tx_depth = 512,
		.rx_depth = 512,
		.max_peers = 32767,
		.inject_pays = 64,
		.needs_address = true,
		.wait = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		/*
		 * From 1.18 on tcp has RDM endpoints of its own (which 1.17 calls net),
		 * without atomics.
		 */
		.name = "tcp",
		.hint = "tcp",
		.sink_len = 64 << 20,
		.min_version = FI_VERSION(1, 18),
		.max_version = ANY_VERSION,
		.quirks = TCP_QUIRKS,
		.no_ops = OFI_OPS_ATOMIC,
		.no_ops_why = "libfabric's own tcp RDM has no atomics; provider=tcp;ofi_rxm has",
		.no_caps = FI_ATOMIC,
		.tx_depth = 512,
		.rx_depth = 512,
		.max_peers = 32767,
		.inject_pays = 64,
		.needs_address = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		.name = "tcp;ofi_rxm",
		.hint = "tcp;ofi_rxm",
		.sink_len = 64 << 10,
		.max_version = ANY_VERSION,
		.quirks = TCP_QUIRKS | OFI_Q_DRAIN_EMPTY | OFI_Q_AV_CUTS | OFI_Q_READ_TWICE,
		.depth_ask = 16384,
		.tx_depth = 512,
		.rx_depth = 512,
		.max_peers = 32767,
		.inject_pays = 64,
		.needs_address = true,
		.wait = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		/*
		 * The old RDM provider over TCP; deprecated, and removed in 2.0. The target
		 * acknowledges writes even if they were posted without FI_DELIVERY_COMPLETE. Any
		 * number of receives can be posted; fi_info says 256.
		 * - KEY_SEALED: the target executes atomics whatever rights its region has.
		 * - PEEKS: see ofi_window.c.
		 * - No inject: an injected message still arrives after the death of its sender was
		 *   reported.
		 * - Unreceived messages are kept without a limit, each in memory of its own
		 *   (sock_rx_entry.c sock_rx_new_buffered_entry()).
		 */
		.name = "sockets",
		.hint = "sockets",
		.max_version = ANY_VERSION,
		.quirks = OFI_Q_BREAKS | OFI_Q_KEY_SEALED | OFI_Q_PEEKS,
		.tx_depth = 256,
		.rx_depth = 256,
		.max_peers = 4096,
		.inject_pays = 0,
		.needs_address = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		/*
		 * RDM over UDP, for messages.
		 * - If one-sided ops and messages are mixed on an endpoint, both stop; a READ of
		 *   0 B, or with a withdrawn key, never completes; a fetching atomic returns 0.
		 * - The reported source of a message is wrong.
		 * - A message that is too long is cut without an error; with a sink the
		 *   reported length shows that it was cut.
		 * - Unreceived messages are kept without a limit (rxd_cq.c, unexp_list).
		 */
		.name = "udp;ofi_rxd",
		.hint = "udp;ofi_rxd",
		.sink_len = 64 << 20,
		.no_ops = OFI_OPS_RMA | OFI_OPS_ATOMIC,
		.no_ops_why = "mixed with messages they come to a stop in ofi_rxd",
		.no_caps = FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV,
		.max_version = ANY_VERSION,
		.quirks = OFI_Q_BREAKS,
		.tx_depth = 128,
		.rx_depth = 128,
		.max_peers = 127,
		.inject_pays = 0,
		.needs_address = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		/*
		 * 1.17's preview of tcp's own RDM. It announces FI_ATOMIC, but has no atomics. A
		 * receive that names a peer also gets messages of an earlier peer.
		 */
		.name = "net",
		.hint = "net",
		.sink_len = 64 << 20,
		.max_version = FI_VERSION(1, 17),
		.quirks = TCP_QUIRKS,
		.no_ops = OFI_OPS_ATOMIC,
		.no_ops_why = "it announces FI_ATOMIC, but fi_fetch_atomicvalid() says no",
		.no_caps = FI_ATOMIC | FI_DIRECTED_RECV,
		.tx_depth = 256,
		.rx_depth = 256,
		.max_peers = 255,
		.inject_pays = 64,
		.needs_address = true,
		.check = "does the interface have an address (ip addr)?",
	},
	{
		/*
		 * Later releases of provider shm work without the locks of 1.17, and check keys. No
		 * faults are known.
		 */
		.name = "shm",
		.hint = "shm",
		.min_version = FI_VERSION(1, 18),
		.max_version = ANY_VERSION,
		.quirks = OFI_Q_WRITE_DC | OFI_Q_WRITE_IMM_DC,
		.tx_depth = 512,
		.rx_depth = 512,
		.max_peers = 255,
		.inject_pays = 4096,
		.check = "is /dev/shm mounted with room for 16 MiB per core (df /dev/shm)?",
	},
	{
		/* Any other provider: only what libfabric's API promises, and cautious quirks. */
		.max_version = ANY_VERSION,
		.quirks = OFI_Q_WRITE_DC | OFI_Q_WRITE_IMM_DC | OFI_Q_BREAKS | OFI_Q_NO_READ0,
		.tx_depth = 128,
		.rx_depth = 128,
		.max_peers = 255,
		.inject_pays = 64,
		.needs_address = true,
		.check = "fi_info -p PROVIDER -t FI_EP_RDM",
	},
};

/* Return the version of the loaded library: major and minor number only. */
static uint32_t
lib_version(void)
{
	uint32_t v = fi_version();

	return FI_VERSION(FI_MAJOR(v), FI_MINOR(v));
}

const struct ofi_provider *
ofi_provider_find(const char *name)
{
	uint32_t v = lib_version();
	size_t i;

	for (i = 0; i < RTE_DIM(providers); i++) {
		const struct ofi_provider *p = &providers[i];

		if ((p->name == NULL || strcmp(p->name, name) == 0) && v >= p->min_version &&
		    v <= p->max_version)
			return p;
	}
	return NULL; /* not reached: the last row fits anything */
}

uint64_t
ofi_provider_mr_modes(void)
{
	/*
	 * The driver handles all modes but FI_MR_RAW: raw keys don't fit the 8 bytes of struct
	 * leat_rkey, and need a call at the initiator for each key received. FI_MR_HMEM and
	 * FI_MR_COLLECTIVE belong to capabilities that are not asked for. FI_MR_MMU_NOTIFY and
	 * FI_MR_ALLOCATED ask for memory that has pages and keeps them: rte_mempools and
	 * leat_mr_register() promise that.
	 */
	return FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_MMU_NOTIFY |
	       FI_MR_RMA_EVENT | FI_MR_ENDPOINT;
}

struct fi_info *
ofi_provider_hints(const struct ofi_provider *p, uint64_t caps)
{
	struct fi_info *h = fi_allocinfo();

	if (h == NULL)
		return NULL;
	h->caps = caps & ~p->no_caps;
	if ((p->quirks & OFI_Q_NO_SHM_INSIDE) != 0)
		h->caps |= FI_REMOTE_COMM;
	/*
	 * Do not ask for FI_MSG_PREFIX, which needs room in front of each of the caller's buffers.
	 * With FI_RX_CQ_DATA a WRITE_IMM consumes a receive natively.
	 */
	h->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->mr_mode = (int)ofi_provider_mr_modes();
	/*
	 * A sealed key is checked against offsets from the region's first byte, not against virtual
	 * addresses.
	 */
	if ((p->quirks & OFI_Q_KEY_SEALED) != 0)
		h->domain_attr->mr_mode &= ~FI_MR_VIRT_ADDR;
	/* Ask that messages between two endpoints stay in order. */
	h->tx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->msg_order = FI_ORDER_SAS;
	return h;
}

struct fi_info *
ofi_provider_pick(const struct ofi_provider *p, struct fi_info *list)
{
	struct fi_info *i;

	for (i = list; i != NULL; i = i->next) {
		if (i->ep_attr->type != FI_EP_RDM)
			continue;
		if (p->hint != NULL && strcmp(i->fabric_attr->prov_name, p->hint) != 0)
			continue;
		if (p->fabric != NULL && strcmp(i->fabric_attr->name, p->fabric) != 0)
			continue;
		return i;
	}
	return NULL;
}

struct fi_info *
ofi_provider_all(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;

	if (hints == NULL)
		return NULL;
	hints->mode = ~0ULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	/*
	 * All bits but FI_MR_BASIC and FI_MR_SCALABLE, which are no mode bits (2.0 and later warn
	 * of them).
	 */
	hints->domain_attr->mr_mode = ~3;
	if (fi_getinfo(OFI_API_VERSION, NULL, NULL, 0, hints, &list) != 0)
		list = NULL;
	fi_freeinfo(hints);
	return list;
}

const char *
ofi_provider_list(char *buf, size_t len)
{
	struct fi_info *list = ofi_provider_all(), *i, *j;
	size_t pos = 0;
	int n;

	snprintf(buf, len, "none");
	for (i = list; i != NULL && pos < len; i = i->next) {
		for (j = list; j != i; j = j->next) {
			if (strcmp(j->fabric_attr->prov_name, i->fabric_attr->prov_name) == 0)
				break;
		}
		if (j != i)
			continue;
		n = snprintf(buf + pos, len - pos, "%s%s", pos > 0 ? ", " : "",
			     i->fabric_attr->prov_name);
		if (n < 0)
			break;
		pos += (size_t)n;
	}
	fi_freeinfo(list);
	return buf;
}

void
ofi_provider_ep_options(const struct ofi_provider *p, struct fid_ep *ep)
{
	bool no = false;
	int ret;

	if ((p->quirks & OFI_Q_NO_SHM_INSIDE) == 0 || OFI_OPT_SHM_PERMITTED < 0)
		return;
	ret = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, OFI_OPT_SHM_PERMITTED, &no, sizeof(no));
	if (ret != 0 && ret != -FI_ENOPROTOOPT)
		LEAT_LOG(WARNING, driver,
			 "ofi: shared memory stays permitted inside the provider: %s",
			 fi_strerror(-ret));
}

int
ofi_provider_status(const struct ofi_provider *p, const struct fi_cq_err_entry *err)
{
	return p->status != NULL ? p->status(err) : ofi_errno(err->err);
}

void
ofi_provider_why(const struct ofi_provider *p, const char *name, int prov_errno, const char *addr,
		 char *text, size_t len)
{
	if (p->hint_of != NULL)
		snprintf(text, len, "%s: an op failed: %s", addr, p->hint_of(prov_errno));
	else
		snprintf(text, len,
			 "%s: provider %s lost its connection: was a remote key wrong or "
			 "withdrawn?",
			 addr, name);
}

void
ofi_provider_prepare(void)
{
	/*
	 * Only environment variables can change the following two, and only before the process
	 * first uses libfabric. So set them whichever provider comes first. FI_AV_REMOVE_CLEANUP:
	 * an address that leaves the AV closes its connection (tcp). FI_SHM_RX_SIZE: the number of
	 * receives of an endpoint, and of commands in its memory (shm).
	 */
	(void)setenv("FI_AV_REMOVE_CLEANUP", "1", 0);
	(void)setenv("FI_SHM_RX_SIZE", "4096", 0);
}

/* Check that processes of this user may copy from and to one another's memory. */
static int
cma_check(const char *dev)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (f != NULL) {
		if (fscanf(f, "%d", &scope) != 1)
			scope = 0;
		(void)fclose(f);
	}
	if (scope == 0)
		return 0;
	if (scope > 1)
		return leat_err(
			ENODEV,
			"%s: provider shm copies between processes with process_vm_readv(), which "
			"this machine forbids (sysctl kernel.yama.ptrace_scope=%d, 0 or 1 needed)",
			dev, scope);
	/* With ptrace_scope 1 each process must permit copies of its own memory: do so. */
	if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) != 0)
		return leat_err(ENODEV,
				"%s: provider shm: prctl(PR_SET_PTRACER): %s; "
				"set sysctl kernel.yama.ptrace_scope=0",
				dev, strerror(errno));
	LEAT_LOG(NOTICE, driver,
		 "%s: processes of this user may now read and write this process "
		 "(kernel.yama.ptrace_scope is 1, and provider shm works that way)",
		 dev);
	return 0;
}

int
ofi_provider_env(const char *dev, const struct ofi_provider *p)
{
	char self = 1, copy = 0;
	struct iovec l = { &copy, 1 }, r = { &self, 1 };

	if ((p->quirks & OFI_Q_SHM) == 0)
		return 0;
	if (process_vm_readv(getpid(), &l, 1, &r, 1, 0) != 1)
		return leat_err(ENODEV,
				"%s: provider shm needs process_vm_readv(), which fails here: %s "
				"(a container's seccomp profile?)",
				dev, strerror(errno));
	return cma_check(dev);
}
