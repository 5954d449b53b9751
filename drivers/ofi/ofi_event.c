/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The provider's event queue (OFI_Q_EVENTS). It reports errors that belong to no op of this side,
 * such as a peer's WRITE to a key that does not exist. The driver logs and removes them, because
 * the provider would keep them all.
 */

#include <rdma/fi_eq.h>

#include "ofi_pvt.h"

/* One call reads at most this many events. */
#define EVENTS_MAX 16

int
ofi_event_open(struct ofi_ep *e)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	int ret;

	ret = fi_eq_open(e->fabric, &attr, &e->eq, NULL);
	return ret != 0 ? ret : fi_ep_bind(e->fid, &e->eq->fid, 0);
}

void
ofi_event_read(struct ofi_ep *e)
{
	struct fi_eq_err_entry err;
	struct fi_eq_entry entry;
	unsigned int i;
	char text[128];
	uint32_t event;
	ssize_t ret;

	for (i = 0; i < EVENTS_MAX; i++) {
		ret = fi_eq_read(e->eq, &event, &entry, sizeof(entry), 0);
		if (ret >= 0)
			/*
			 * No error, so nothing to log: the other events are about connections,
			 * which RDM endpoints do not have.
			 */
			continue;
		if (ret != -FI_EAVAIL)
			return;
		memset(&err, 0, sizeof(err));
		if (fi_eq_readerr(e->eq, &err, 0) < 0)
			return;
		LEAT_LOG(WARNING, driver, "%s: endpoint %s: %s: %s", e->dev->name,
			 leat_ep_name(e->ep), fi_strerror(err.err),
			 fi_eq_strerror(e->eq, err.prov_errno, err.err_data, text, sizeof(text)));
	}
}
