/* SPDX-License-Identifier: BSD-3-Clause */

/* The shm device, its arguments, and its endpoints. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm_pvt.h"

static const struct leat_driver_arg shm_args[] = {
	RING_DEV_ARGS("16..16384"),
	{ "dir", "PATH|@PREFIX", "/run/user/UID/leat-shm",
	  "directory where processes find each other, this user's own; or abstract names, which "
	  "begin so. Processes of containers find each other in a directory that they share" },
	{ "segment", "65536..67108864", "524288",
	  "bytes of shared memory, for each direction of a connection, through which go messages "
	  "that don't fit into a slot" },
	{ "share", "0|1", "0",
	  "1: peers that ask for it too, processes of this user, reach all of EAL's memory: large "
	  "messages are copied once, and one-sided ops do not wait for the target's loop" },
	{ "users", "0|1", "0", "1: processes of other users may connect" },
	{ NULL },
};

/* Choose the default of dir, as lib/tune does: the user owns it, and it needs no preparation. */
static void
default_dir(char *dir, size_t len)
{
	const unsigned int uid = (unsigned int)geteuid();
	struct stat st;
	char run[48];

	snprintf(run, sizeof(run), "/run/user/%u", uid);
	if (stat(run, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		snprintf(dir, len, "%s/leat-shm", run);
	else
		snprintf(dir, len, "/tmp/leat-shm-%u", uid);
}

static int
parse(struct shm_dev *sdev, const struct rte_kvargs *kv)
{
	const char *dir = leat_driver_arg_str(kv, "dir");
	int ret;

	sdev->segment = SHM_SEGMENT_DEFAULT;
	ret = ring_dev_parse(&sdev->ring, kv);
	if (ret == 0)
		ret = leat_driver_arg_u32(kv, "segment", SHM_SEGMENT_MIN, SHM_SEGMENT_MAX,
					  &sdev->segment);
	if (ret == 0)
		ret = leat_driver_arg_u32(kv, "users", 0, 1, &sdev->any_user);
	if (ret == 0)
		ret = leat_driver_arg_u32(kv, "share", 0, 1, &sdev->share);
	if (ret < 0)
		return ret;
	if (sdev->share != 0 && sdev->any_user != 0)
		return leat_err(EINVAL, "argument share=1: not with users=1, it would give all of "
					"this process's memory to other users");
	if (sdev->share != 0 && sdev->ring.datagram)
		return leat_err(EINVAL, "argument share=1: not with type=datagram");
	if (sdev->share != 0 && !ring_fence_offered())
		return leat_err(EOPNOTSUPP, "argument share=1: it needs membarrier(2), which is "
					    "not there, or not permitted");
	if (sdev->ring.depth > SHM_DEPTH_MAX)
		return leat_err(EINVAL, "argument depth=%u: at most %u", sdev->ring.depth,
				SHM_DEPTH_MAX);
	if (dir == NULL) {
		default_dir(sdev->dir, sizeof(sdev->dir));
		return 0;
	}
	if (dir[0] == '\0' || strlen(dir) >= sizeof(sdev->dir))
		return leat_err(EINVAL, "argument dir=%s: 1..%zu characters expected", dir,
				sizeof(sdev->dir) - 1);
	snprintf(sdev->dir, sizeof(sdev->dir), "%s", dir);
	return 0;
}

static int
shm_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	struct shm_dev *sdev = calloc(1, sizeof(*sdev));
	int ret;

	if (sdev == NULL)
		return leat_err(ENOMEM, "out of memory");
	ret = parse(sdev, kv);
	if (ret < 0) {
		free(sdev);
		return ret;
	}
	leat_dev_drv_set(dev, sdev);
	return 0;
}

static void
shm_remove(struct leat_dev *dev)
{
	free(leat_dev_drv(dev));
}

static void
shm_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	ring_dev_info(leat_dev_drv(dev), info);
	info->tx_depth_max = RTE_MIN(info->tx_depth_max, (uint32_t)SHM_DEPTH_MAX);
	info->dead_peer_ms = info->dead_peer_ms > 0 ? SHM_DEAD_PEER_MS : 0;
	info->max_peers = SHM_MAX_PEERS;
	info->one_host = true;
	info->wait = ring_fence_offered();
}

static uint32_t
power_of_two_below(uint32_t n)
{
	return rte_align32prevpow2(n);
}

/* Split a segment: half is the buffer, half are chunks. Datagram connections have no chunks. */
static void
segment_split(struct shm_ep *se, uint32_t segment)
{
	const struct ring_ep *rep = &se->ring;
	uint64_t most;

	if (!rep->datagram) {
		se->nb_bytes = RTE_ALIGN_CEIL(segment / 2, 128u);
		se->nb_chunks = power_of_two_below(segment / 2 / RING_CHUNK);
		return;
	}
	/*
	 * Room for one message more than there are slots, because of the gap at the end
	 * (ring_buf.h).
	 */
	most = ((uint64_t)rep->tx_depth + 1) * RTE_ALIGN_CEIL(rep->mtu, (uint32_t)LEAT_CACHE_LINE);
	if (rep->mtu > rep->inline_max)
		se->nb_bytes =
			(uint32_t)RTE_ALIGN_CEIL(RTE_MIN(most, (uint64_t)segment), UINT64_C(128));
}

static int
share_init(struct shm_ep *se, const struct shm_dev *sdev)
{
	if (sdev->share == 0)
		return 0;
	se->share = shm_share_new(leat_ep_name(se->ring.ep));
	if (se->share == NULL)
		return -rte_errno;
	se->ring.share = &se->share->ring;
	return 0;
}

static void
shm_free(struct shm_ep *se)
{
	shm_conn_fini(se);
	shm_share_free(se->share);
	ring_ep_fini(&se->ring);
	free(se);
}

static int
shm_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	const struct shm_dev *sdev = shm_dev_of(ep);
	struct shm_ep *se = aligned_alloc(128, RTE_ALIGN_CEIL(sizeof(*se), 128));
	int i, ret;

	if (se == NULL)
		return leat_err(ENOMEM, "create endpoint: out of memory");
	memset(se, 0, sizeof(*se));
	for (i = 0; i < SHM_FDS; i++)
		se->fds[i] = -1;
	TAILQ_INIT(&se->ring.pending);
	ret = ring_ep_init(&se->ring, ep, &sdev->ring, conf, NULL);
	if (ret == 0) {
		se->wait = conf->wait;
		segment_split(se, sdev->segment);
		ret = share_init(se, sdev);
	}
	if (ret == 0)
		ret = shm_conn_init(se, conf);
	if (ret < 0) {
		shm_free(se);
		ep->drv = NULL;
		return ret;
	}
	ring_telemetry_add(&se->ring);
	return 0;
}

static void
shm_ep_close(struct leat_ep *ep)
{
	ring_telemetry_del(&shm_of(ep)->ring);
	shm_free(shm_of(ep));
	ep->drv = NULL;
}

static const struct leat_driver shm_driver = {
	.name = "fabric_shm",
	.description = "endpoints of processes of one machine, over memory that they share",
	.args = shm_args,
	.probe = shm_probe,
	.remove = shm_remove,
	.info = shm_info,
	.ep_open = shm_ep_open,
	.ep_quiesce = ring_ep_quiesce,
	.ep_abort = ring_ep_abort,
	.ep_halt = shm_halt,
	.ep_close = shm_ep_close,
	.cancel = ring_cancel,
	.progress = shm_progress,
	.listen = shm_listen,
	.listen_addr = shm_listen_addr,
	.connect = shm_connect,
	.accept = shm_accept,
	.reject = shm_reject,
	.disconnect = ring_disconnect,
	.mr_reg = ring_mr_reg,
	.mr_dereg = ring_mr_dereg,
	.fd = shm_ep_fd,
	.arm = shm_ep_arm,
	.disarm = shm_ep_disarm,
	.option = ring_ep_option,
};

LEAT_DRIVER_REGISTER(shm_driver)
