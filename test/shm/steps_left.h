/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_LEFT_H
#define STEPS_LEFT_H

/*
 * Resources of the survivor that a killed victim must not leave behind: counted before, compared
 * after.
 */
struct steps_left {
	int fds; /* open descriptors of this process */
	/* mappings of memfds: memory of endpoints, and EAL memory of peers */
	int shared;
	int names; /* names in the device's directory */
};

/* directory: the device's; NULL if its names are abstract */
struct steps_left steps_left_count(const char *directory);
void steps_left_compare(const struct steps_left *before, const char *directory);

#endif /* STEPS_LEFT_H */
