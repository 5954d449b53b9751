/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_LEFT_H
#define STEPS_LEFT_H

/* What a killed victim must not leave behind in the survivor: counted before, compared after. */
struct steps_left {
	int fds;    /* open descriptors of this process */
	int shared; /* mappings of memory that has a descriptor: of endpoints, and EAL's of peers */
	int names;  /* in the device's directory */
};

/* directory: NULL with abstract names */
struct steps_left steps_left_count(const char *directory);
void steps_left_compare(const struct steps_left *before, const char *directory);

#endif /* STEPS_LEFT_H */
