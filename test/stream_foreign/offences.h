/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_OFFENCES_H
#define FOREIGN_OFFENCES_H

/* Actions of a hostile or odd peer on a connection that is up. Both sides can run them. */

#include "conn.h"

/* Outcome for the connection on which the offence is committed; no other may be disturbed. */
enum outcome {
	ENDS,	/* the victim ends it */
	STAYS,	/* it goes on, or stands still, until the offender closes it */
	EITHER, /* the victim may choose */
};

struct offence {
	const char *name;
	/*
	 * NULL: the offence is only in the connection's configuration. Returns 0, or -1 with
	 * c->why.
	 */
	int (*commit)(struct conn *c);
	enum outcome outcome;
	bool at_once;		     /* do not wait for the victim's window */
	bool no_receives, no_window; /* as in struct conn_conf */
	enum ibv_wc_status status;   /* status of the failed work request; 0: not checked */
};

extern const struct offence offences[];
extern const unsigned int offences_n;

const struct offence *offence_by_name(const char *name);
/* Change the configuration of the connection on which the offence will be committed. */
void offence_conf(const struct offence *o, struct conn_conf *conf);
/*
 * Commit the offence, and check the outcome. Call beside() repeatedly meanwhile: until the
 * connection ends or, if it need not end, until beside() returns true. Returns 0, or -1 with
 * c->why.
 */
int offence_run(const struct offence *o, struct conn *c, bool (*beside)(void *arg), void *arg);

#endif /* FOREIGN_OFFENCES_H */
