/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Fences on all processors by membarrier(2): for endpoints that sleep (drivers/ring/ring_wait.c,
 * drivers/shm/shm_wait.c), and for endpoints that share memory (ring_share.h).
 */

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring_pvt.h"

/*
 * Commands of membarrier(2). FENCE reaches the threads of this process, or if RING_FOREIGN, of all
 * processes that have called REGISTER.
 */
#if RING_FOREIGN
#define FENCE MEMBARRIER_CMD_GLOBAL_EXPEDITED
#define REGISTER MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
#else
#define FENCE MEMBARRIER_CMD_PRIVATE_EXPEDITED
#define REGISTER MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool offered;

static int
membarrier(int cmd)
{
	return (int)syscall(SYS_membarrier, cmd, 0, 0);
}

static void
find_out(void)
{
	int cmds = membarrier(MEMBARRIER_CMD_QUERY);

	offered = cmds > 0 && (cmds & FENCE) != 0 && membarrier(REGISTER) == 0;
	if (!offered)
		LEAT_LOG(INFO, driver, "%s: membarrier(2) is not there, or not permitted",
			 RING_FOREIGN ? "shm: no wait objects, and no share=1"
				      : "ring: no wait objects");
}

bool
ring_fence_offered(void)
{
	(void)pthread_once(&once, find_out);
	return offered;
}

bool
ring_fence_all(void)
{
	return membarrier(FENCE) == 0;
}
