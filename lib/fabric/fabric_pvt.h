/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FABRIC_PVT_H
#define FABRIC_PVT_H

/*
 * What the files of lib/fabric share.
 *
 *     init.c     leat_init(): starts EAL, opens devices; eal_args.c splits the arguments
 *     driver.c   drivers: registration, list, their arguments; plugin.c loads them
 *     dev.c      devices: open, info, close, list
 *     ep.c       endpoints: create, destroy, the list of all, sleep; ep_close.c shutdown
 *     peer.c     peers and events
 *     order.c    the ordering layer off its fast path: ready list, counters
 *     cancel.c   cancels and deadlines of ops; op.c names of op types
 *     mr.c       regions
 *     layer.c    layers between an endpoint and its device: registration, choice; see leat_layer.h
 *     sample.c   latency of ops, from post to poll
 *     tune.c     settings and measurements
 *     process_tune.c  settings and measurements of the process: log levels, memory pools
 *     telemetry.c     commands of DPDK's telemetry
 */

#include <sys/queue.h>

#include "endpoint_tune.h"
#include "leat_driver.h"
#include "leat_error.h"
#include "leat_layer.h"
#include "leat_log.h"
#include "leat_order.h"
#include "leat_tune.h"
#include "leat_wheel.h"

#define LEAT_CONNECT_TIMEOUT_US (5 * 1000 * 1000)

/* ---- drivers ---- */

const struct leat_driver *leat_driver_by_dev_name(const char *dev_name);
int leat_driver_count(void);
/* Return the driver at an index, in the order of the names; NULL after the last. */
const struct leat_driver *leat_driver_at(int i);
/* Record a plugin that could not be loaded, for leat_driver_next(). */
void leat_driver_failed(const char *plugin, const char *why);
/* Write the names of the loaded drivers for a message: "fabric_ofi, fabric_ring". */
const char *leat_driver_names(char *buf, size_t len);
/*
 * Parse "key=val,..." against the driver's list of arguments. NULL with leat_err() if it does not
 * fit.
 */
struct rte_kvargs *leat_driver_kvargs(const struct leat_driver *drv, const char *dev_name,
				      const char *args);

/* Check by its file name whether the value of a -d argument is a driver plugin of leat. */
bool leat_plugin_is_ours(const char *path);

/* ---- devices ---- */

struct leat_dev {
	char name[64];
	const struct leat_driver *driver;
	void *drv;
	unsigned int id;
};

/*
 * Find the driver of a device specification such as "fabric_ofi0,provider=tcp". @return NULL with
 * leat_err(): the name belongs to no loaded driver
 */
const struct leat_driver *leat_dev_driver(const char *spec);
int leat_dev_open(const char *spec);
void leat_dev_close_all(void);

/*
 * Call fn for each device, until it returns < 0, under the mutex of the list: no device is closed
 * meanwhile. For telemetry.
 */
typedef int (*leat_dev_visit_fn)(const struct leat_dev *dev, void *arg);
/* @return what fn returned last; 0 if there is no device */
int leat_dev_foreach(leat_dev_visit_fn fn, void *arg);
/*
 * Do leat_dev_info_for(), and set *layer to the layer that an endpoint with these ops has; NULL if
 * it needs none.
 */
int leat_dev_info_layer(const struct leat_dev *dev, uint32_t ops, struct leat_dev_info *info,
			const struct leat_layer **layer);

/*
 * Return the layer that can add ops to a device with this info, and set *ops to the ops that it
 * adds. If there is no such layer: return NULL, *ops is 0.
 */
const struct leat_layer *leat_layer_of(const struct leat_dev_info *info, uint32_t *ops);

/* ---- endpoints ---- */

enum leat_ep_state {
	LEAT_EP_OPEN,
	LEAT_EP_DRAINING, /* shutting down: receives cancelled, sends have until the deadline */
	LEAT_EP_ABORTING, /* deadline passed: the driver is finishing every op */
	LEAT_EP_SHUT,	  /* no op is in flight */
};

/* An atomic store: the control thread of lib/tune reads the state. */
#define LEAT_EP_STATE_SET(c, s) __atomic_store_n(&(c)->state, s, __ATOMIC_RELAXED)

/* The part of a peer that only slow calls use. */
struct leat_peer_cold {
	TAILQ_ENTRY(leat_peer_cold) link; /* entry of one peer list of leat_ep_ctrl, or of none */
	struct leat_peer *peer;
	void *user;
	int status;	  /* status of the event that ends the peer */
	uint32_t nb_lost; /* ops that failed with the connection; counted once status is known */
	uint16_t priv_len;
	bool req_seen; /* CONNECT_REQ was delivered */
	bool was_up;   /* CONNECTED was raised */
	bool ours;     /* this side called leat_ep_connect() */
	bool ending;   /* leat_peer_closing() was called */
	uint8_t priv[LEAT_EP_PRIV_MAX];
	char text[LEAT_EVENT_TEXT];
	/* Not cleared when the peer id is used again: another thread may be reading it. */
	char addr[LEAT_ADDR_MAX] __attribute__((aligned(sizeof(uint64_t))));
	uint32_t addr_seq; /* odd while addr changes */
};

TAILQ_HEAD(leat_peer_list, leat_peer_cold);

struct leat_ep_ctrl {
	TAILQ_ENTRY(leat_ep_ctrl) link; /* entry of the process's list of endpoints */
	struct leat_ep *ep;
	struct leat_ep *outer;		  /* outer endpoint, if this is an inner one; else NULL */
	const struct leat_driver *driver; /* the device's driver, or the endpoint's layer */
	unsigned int id;
	char name[LEAT_EP_NAME_MAX];
	struct leat_ep_conf conf; /* configuration as completed; name and mempools are not kept */

	enum leat_ep_state state;
	uint64_t shut_deadline; /* cycles */
	int shut_status;
	bool shut_event; /* SHUTDOWN is to be delivered */
	bool halted;	 /* leat_driver.ep_halt was called */
	bool listening;

	uint32_t nb_used; /* peers that are not FREE; read by telemetry */
	struct leat_peer_cold *cold;
	struct leat_peer_list free_peers; /* free; the first, free longest, is used next */
	struct leat_peer_list ev_peers;	  /* peers with events to deliver */
	struct leat_peer_list dead_peers; /* peers with their last event delivered */

	struct leat_wheel wheel; /* deadlines of ops */
	struct leat_mr *mrs;

	struct leat_tune_object *tune; /* NULL: an inner endpoint, or leat_ep_tune_add() not done */
	struct endpoint_tune_settings set;
	uint32_t inline_effective; /* the control thread reads this field and those below it */
	uint32_t signal_effective;
	struct ep_sample *sample; /* NULL: latency was never measured */
	char provider[sizeof(((struct leat_dev_info *)NULL)->provider)];
	char interface[sizeof(((struct leat_dev_info *)NULL)->interface)];
};

void leat_peer_table_init(struct leat_ep *ep);
/* Free the peers whose last event was delivered by an earlier call. */
void leat_peer_reap(struct leat_ep *ep);
/* Deliver events of peers. */
uint16_t leat_peer_events(struct leat_ep *ep, struct leat_event *ev, uint16_t n);

/* Advance a shutdown. */
void leat_ep_closing_step(struct leat_ep *ep, uint64_t now);
/* Name the ops in flight, in words: "2 to 10.0.0.1:7000, 16 receives". */
const char *leat_ep_inflight_str(const struct leat_ep *ep, char *buf, size_t len);
/* Post and poll of a closed endpoint. */
uint16_t leat_ep_closed_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void leat_ep_closed_poll(struct leat_ep *ep);

/* Set how many ops may be in flight, while none is. */
void leat_ep_depths_set(struct leat_ep *ep, uint32_t tx_depth, uint32_t rx_depth);
/* Create the tables of peers and free the present ones. @return 0, or -ENOMEM with leat_err() */
int leat_ep_peers_alloc(struct leat_ep *ep, uint16_t nb_peers);

/* peer.c: copy a peer's address, even while the owner assigns the peer id anew. Any thread. */
void leat_peer_addr_read(const struct leat_ep *ep, const struct leat_peer *peer, char *addr,
			 size_t len);

/* sample.c: time every n-th op; 0: none. Owner thread. @return 0, or negative with leat_err() */
int leat_ep_sample_set(struct leat_ep *ep, uint32_t every);
/* Add the latencies of ops of a type to *to, which the caller zeroed. Any thread. */
void leat_ep_sample_get(const struct leat_ep *ep, unsigned int type,
			struct leat_tune_histogram *to);

/*
 * tune.c: add the endpoint as an object of lib/tune, before the driver opens its part of the
 * endpoint, and copy the sizes of a settings file to ctrl->conf. @return 0, or negative with
 * leat_err()
 */
int leat_ep_tune_add(struct leat_ep *ep, const struct leat_dev_info *info);
/*
 * Apply the settings that need the driver's part of the endpoint, after it was opened. @return 0,
 * or negative with leat_err()
 */
int leat_ep_tune_start(struct leat_ep *ep);

/*
 * process_tune.c: add and remove the objects of lib/tune that exist from leat_init() to
 * leat_cleanup().
 * @return 0, or negative with leat_err()
 */
int leat_process_tune_add(void);
void leat_process_tune_del(void);

/* End the ops whose deadline has passed. */
void leat_op_deadlines_run(struct leat_ep *ep, uint64_t now);

int leat_mr_register_mempools(struct leat_ep *ep, const struct leat_ep_conf *conf);
void leat_mr_release_all(struct leat_ep *ep);

/*
 * Call fn for each endpoint under the mutex of the list; for telemetry and leat_cleanup().
 */
typedef int (*leat_ep_visit_t)(const struct leat_ep *ep, void *arg);
/* @return the sum of what fn returned */
int leat_ep_foreach(leat_ep_visit_t fn, void *arg);

#endif /* FABRIC_PVT_H */
