/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_DEV_H
#define LEAT_DEV_H

/**
 * @file
 * Start and stop leat; its drivers and its devices.
 *
 * A device is a fabric port, opened by an EAL-like argument:
 *
 *     --vdev=fabric_ring0
 *     --vdev=fabric_ofi0,provider=tcp,iface=eth0
 *            ------ ---  -----------------------
 *            driver  |   device arguments (key=value)
 *                  number: any digits
 *
 * leat_init() removes the --vdev=fabric_* arguments, loads the driver plugins, starts EAL with the
 * other arguments, and opens the devices.
 *
 * Thread rules: leat_init() and leat_cleanup() from the main thread, before and after everything
 * else. The rest of this file from any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "leat_common.h"
#include "leat_op.h"
#include "leat_version.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_dev;

/**
 * Start leat and EAL.
 *
 * leat_init() changes these defaults of EAL, each only if the caller passed no option of that kind:
 * - no free hugepages and no memory option: `--no-huge`, with one line in the log that says so;
 * - no multi-process option: `--in-memory` (or `--no-shconf` without hugepages), so that any number
 *   of programs run side by side;
 * - no PCI device named (-a, --allow, -b, --block): `--no-pci`. EAL's drivers would otherwise take
 *   the machine's NICs for themselves; `-b` with an address that no device has lets EAL take all
 *   of them;
 * - EAL's log goes to stderr, so that stdout is the application's.
 *
 * Three options are leat's own; a value follows "=" or is the next argument
 * (doc/guide/tune.md):
 * - `--settings FILE`: a file of settings, which replace the program's own;
 * - `--tune-dir DIR`: the directory in which leat-top and leat-tune find the process; default: the
 *   user's directory;
 * - `--no-tune`: leat-top and leat-tune don't find the process.
 *
 * @param argc, argv as main() got them; EAL arguments up to "--" or the end
 * @return number of arguments consumed, counted as rte_eal_init() does: argv[ret] is now the
 *   program's name, in place of "--", and the application's own arguments follow it, as getopt(3)
 *   wants them.
 *   On failure a negative errno, with leat_err_msg() naming the argument or device and the cause;
 *   the devices opened so far are closed again, but EAL can't be started twice in a process:
 *   - -EINVAL: an argument is wrong: an unknown device, driver or key, or one that EAL refuses (its
 *     log says why)
 *   - -ENODEV: a device could not be opened
 *   - the errors of leat_tune_start(): for a line of the settings file, or the directory of
 *     --tune-dir
 *   - -EALREADY: already started
 *   - other: from rte_eal_init()
 */
LEAT_API int leat_init(int argc, char **argv);

/**
 * Close the devices and EAL. All endpoints must have been destroyed.
 * @return 0, or -EBUSY with leat_err_msg() naming the endpoints that are still open (nothing was
 *   done)
 */
LEAT_API int leat_cleanup(void);

/**
 * Load every driver plugin that can be found: those given with `-d` in argv, those of the installed
 * directory, and, when run from a build tree, those of the tree. leat_init() calls it; call it only
 * to list drivers without starting EAL. Main thread.
 * @return number of drivers loaded so far, or -EINVAL if a plugin named with `-d` can't be loaded.
 *   If a plugin that was found in a directory can't be loaded, that is logged and
 *   leat_driver_next() gives the reason.
 */
LEAT_API int leat_driver_load(int argc, char **argv);

/** An argument of a driver's devices: `name=value`. */
struct leat_driver_arg {
	const char *name;  /**< the key */
	const char *value; /**< the values it takes, e.g. "NAME" or "1..65536" */
	const char *def;   /**< default, as text for people; NULL or "": none */
	const char *help;  /**< one line */
};

/** Description of a driver. Only error can be NULL. */
struct leat_driver_info {
	/** e.g. "fabric_ring"; if the plugin could not be loaded, its file's name instead */
	const char *name;
	const char *description;	    /**< one line; "" if it is not loaded */
	const struct leat_driver_arg *args; /**< ends with a NULL name */
	const char *error;		    /**< why it could not be loaded; NULL: it is loaded */
};

/**
 * Walk the drivers: the loaded ones, by name, then the plugins that could not be loaded.
 *
 *     for (d = NULL; (d = leat_driver_next(d)) != NULL;)
 *             printf("%s: %s\n", d->name, d->error == NULL ? d->description : d->error);
 *
 * Main thread. Drivers may not be loaded during a walk.
 * @param prev the driver that the last call returned, NULL to begin
 * @return the next driver, or NULL after the last
 */
LEAT_API const struct leat_driver_info *leat_driver_next(const struct leat_driver_info *prev);

/** Count the open devices. Their ids are 0 to count - 1, in the order of the arguments. */
LEAT_API unsigned int leat_dev_count(void);

/** Return the device with an id, or NULL. */
LEAT_API struct leat_dev *leat_dev_get(unsigned int id);

/** Return the device with a name ("fabric_ring0"), or NULL. */
LEAT_API struct leat_dev *leat_dev_by_name(const char *name);

/** Return the name of a device. */
LEAT_API const char *leat_dev_name(const struct leat_dev *dev);

/** Types of endpoints. */
enum leat_ep_type {
	LEAT_EP_RELIABLE = 0, /**< connected, reliable, ordered per peer */
	/**
	 * A message may be lost, arrive twice or overtake another one, and is at most max_msg long.
	 * Such an endpoint keeps every promise of leat_ep.h, and differs from a reliable one in:
	 * - a SEND completes when the device no longer needs its buffer, whether the peer has
	 *   received it or not; a message that meets no receive is lost;
	 * - connecting only tells each side the other side's address. At the acceptor the peer is
	 *   up at once, even if the answer never reaches the connecting side. The device does not
	 *   report leat_ep_disconnect(), nor the end or death of an endpoint, to the other side: a
	 *   peer whose endpoint has died stays up, and sends to it succeed;
	 * - a message is received with leat_op.src LEAT_PEER_ANY if its sender is not a connected
	 *   peer: before LEAT_EV_CONNECTED was returned here, after this side disconnected, or if
	 *   the device also delivers messages of unknown senders.
	 */
	LEAT_EP_DATAGRAM,
};

/** Properties and abilities of a device. */
struct leat_dev_info {
	char name[64];	 /**< e.g. "fabric_ofi0" */
	char driver[32]; /**< e.g. "fabric_ofi" */
	/** the software that moves the data below the driver, e.g. "tcp;ofi_rxm"; "" if none */
	char provider[64];
	/** port, domain or network interface, e.g. "rdmap0s6-rdm"; "" if none */
	char interface[64];
	uint32_t ops;	   /**< mask of LEAT_OP_BIT: the op types that the device can do */
	uint32_t ep_types; /**< mask of 1 << enum leat_ep_type */
	uint64_t max_msg;  /**< largest message, and largest one-sided op, bytes */
	/** SEND, TSEND and WRITE up to this many bytes are copied when posted */
	uint32_t inline_max;
	uint32_t max_peers;    /**< largest leat_ep_conf.max_peers */
	uint32_t tx_depth;     /**< default send depth of an endpoint, ops */
	uint32_t tx_depth_max; /**< largest send depth, ops */
	uint32_t rx_depth;     /**< default receive depth, ops */
	uint32_t rx_depth_max; /**< largest receive depth, ops */
	/**
	 * longest time from the death of a peer's process until the library reports it and the ops
	 * to the peer fail, ms; 0: never reported (datagrams)
	 */
	uint32_t dead_peer_ms;
	int32_t numa_node;  /**< -1: unknown or none */
	bool mr_local;	    /**< buffers of ops must lie in registered memory (leat_op.mr) */
	bool directed_recv; /**< RECV and TRECV may name a peer */
	bool source;	    /**< leat_op.src is filled in */
	bool send_imm;	    /**< SEND and TSEND may carry an immediate */
	uint8_t imm_size;   /**< bytes of an immediate that are sent: 4 or 8 */
	bool in_order;	    /**< the device completes the ops of one peer in order by itself */
	/**
	 * messages that wait for a receive take a fixed amount of memory and hold up only their
	 * sender; if false, the provider keeps any number of them, and a protocol that doesn't
	 * trust its peers must limit them by credits of its own
	 */
	bool unexpected_bounded;
	/** a posted send can be cancelled as long as the receiver has not taken it */
	bool cancel_send;
	/**
	 * a message or access that the receiver must refuse (a message longer than the receive that
	 * it meets, a wrong key) ends the connection; the receive that it met, if any, comes back
	 * with -EMSGSIZE or -ECONNRESET
	 */
	bool refusal_ends;
	uint16_t priv_connect; /**< longest private data of connect, bytes, <= LEAT_EP_PRIV_MAX */
	uint16_t priv_accept;  /**< longest private data of accept, bytes, <= LEAT_EP_PRIV_MAX */
	/** endpoints can have a wait object, to sleep until something happens: leat_ep_conf.wait */
	bool wait;
	bool one_process; /**< the device connects endpoints of one process only */
	/** the device connects processes of one machine only; true if one_process is */
	bool one_host;
	/**
	 * Messages and writes posted to a peer (SEND, WRITE, WRITE_IMM) take effect there in the
	 * order of posting. Of a long SEND that the library sends in pieces (ops_software), only
	 * the first piece keeps that order. If false, the notice of a WRITE_IMM can reach the peer
	 * before the data of earlier writes.
	 */
	bool write_order;
	/**
	 * the receive that a WRITE_IMM completes has the right leat_op.src even if the two
	 * endpoints have several connections with each other; if false, src can be any of these
	 */
	bool notice_source;
	uint8_t rkey_size; /**< bytes of leat_rkey.key that are used: 4 or 8 */
	/**
	 * private data of connect and accept arrive with zeros appended, up to a length that the
	 * device sets
	 */
	bool priv_padded;
	/**
	 * mask of LEAT_OP_BIT: the ops that the library does in software, over the device's SEND
	 * and RECV (doc/guide/tags.md):
	 * - none;
	 * - TSEND and TRECV, if the device has no such ops;
	 * - TSEND, TRECV, SEND and RECV, if the device by itself would keep an unlimited number of
	 *   messages that wait for a receive.
	 * leat_dev_info_for() gives the properties of an endpoint with any of these ops.
	 */
	uint32_t ops_software;
};

/**
 * Fill in info for endpoints that use the device alone, with none of ops_software.
 * @return 0 or -EINVAL
 */
LEAT_API int leat_dev_info_get(const struct leat_dev *dev, struct leat_dev_info *info);

/**
 * Fill in info for endpoints with certain ops. If any of them is one of ops_software, the info
 * differs from leat_dev_info_get() in: max_peers, ep_types, directed_recv, source, send_imm,
 * notice_source, imm_size, in_order, unexpected_bounded, cancel_send, refusal_ends (false, but a
 * refused one-sided op can still end the connection), priv_connect, priv_accept, priv_padded.
 * @param dev the device
 * @param ops mask of LEAT_OP_BIT, as for leat_ep_conf.ops
 * @param[out] info the properties
 * @return 0 or -EINVAL
 */
LEAT_API int leat_dev_info_for(const struct leat_dev *dev, uint32_t ops,
			       struct leat_dev_info *info);

/**
 * @name Devices of this machine, and their details
 * Ports, state, speed, addresses, limits. Drivers report value by value; the caller prints the
 * values as text or JSON, or searches them. On a machine with one adapter the calls are
 *
 *     device(arg, "fabric_verbs0,dev=mlx5_0")
 *     text(arg, "state", "active")
 *     text(arg, "speed", "100 Gb/s")
 *     item(arg, "gids", "0: fe80::1, RoCE v1")
 *     item(arg, "gids", "1: 10.0.0.1, RoCE v2")
 *     number(arg, "max_qp", 131072)
 *     none(arg, "fabric_ofi", "fabric_ofi: libfabric offers no RDM endpoints")
 *
 * Keys are words of small letters, digits and underscores. Each driver has keys of its own and
 * lists them in its page of doc/drivers. Main thread.
 * @{
 */

/**
 * Callbacks for the reported values. Strings are valid during the call only. No callback may be
 * NULL.
 */
struct leat_dev_sink {
	/**
	 * A device that `--vdev=spec` opens, or would open if it were up; the values that follow
	 * belong to it.
	 */
	void (*device)(void *arg, const char *spec);
	/**
	 * A driver has no device to offer; why gives the reason, in a line that begins with the
	 * driver's name.
	 */
	void (*none)(void *arg, const char *driver, const char *why);
	/** A value that is text. */
	void (*text)(void *arg, const char *key, const char *value);
	/** A value that is a number. */
	void (*number)(void *arg, const char *key, uint64_t value);
	/** One of several values of a key; the values of one key are reported in a row. */
	void (*item)(void *arg, const char *key, const char *value);
	void *arg; /**< first argument of each callback */
};

/**
 * Report the devices that could be opened on this machine, for every loaded driver, whether they
 * are open or not. Needs no leat_init(), only leat_driver_load().
 * @return 0, or -EINVAL: no driver is loaded
 */
LEAT_API int leat_dev_list(const struct leat_dev_sink *to);

/**
 * Report the details of an open device, beyond leat_dev_info_get().
 * @return 0, or -EIO: the device can't be queried
 */
LEAT_API int leat_dev_describe(const struct leat_dev *dev, const struct leat_dev_sink *to);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* LEAT_DEV_H */
