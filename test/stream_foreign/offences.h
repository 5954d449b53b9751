/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_OFFENCES_H
#define FOREIGN_OFFENCES_H

/* What a hostile or odd peer does, on a connection that is up. Both sides can. */

#include "conn.h"

/* What becomes of the connection that it is done on; no other may notice. */
enum outcome {
	ENDS,	/* the victim ends it */
	STAYS,	/* it goes on, or stands still, until the offender closes it */
	EITHER, /* as the victim pleases */
};

struct offence {
	const char *name;
	/* NULL: that conf is like that is offence enough. Returns 0, or -1 with c->why. */
	int (*commit)(struct conn *c);
	enum outcome outcome;
	bool at_once;		     /* without waiting for the victim's window */
	bool no_receives, no_window; /* as in struct conn_conf */
	enum ibv_wc_status status;   /* of the work request, if not IBV_WC_SUCCESS */
};

extern const struct offence offences[];
extern const unsigned int offences_n;

const struct offence *offence_by_name(const char *name);
/* Change the configuration of the connection that it will be done on. */
void offence_conf(const struct offence *o, struct conn_conf *conf);
/*
 * Commit it, and see what comes of it; beside() is called again and again meanwhile, until it
 * returns true after an offence that ends nothing. Returns 0, or -1 with c->why.
 */
int offence_run(const struct offence *o, struct conn *c, bool (*beside)(void *arg), void *arg);

#endif /* FOREIGN_OFFENCES_H */
