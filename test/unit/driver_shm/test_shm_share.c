/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The table of the memory that a process shares, and the table that a peer sends: impossible values
 * in a peer's table are refused, and then none of its memory stays mapped.
 */

#include "leat_cmocka.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_malloc.h>

#include "leat_error.h"

#include "own_process.h"
#include "shm_share.h"

#define PAGE UINT64_C(4096)
#define AT UINT64_C(0x100000000)

/* The memory that a peer announces: fds[0] is the table of the pieces, the others are pieces. */
static struct shm_memory table;
static int fds[1 + SHM_SHARE_FDS];

static struct shm_table *
tab(void)
{
	return table.mem;
}

static int
memory_file(size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	return fd;
}

/* Add a piece with a file of its own. */
static void
piece_add(uint64_t addr, uint64_t len)
{
	const uint64_t n = tab()->nb++;

	tab()->pieces[n] = (struct shm_piece){ .addr = addr, .len = len };
	fds[1 + n] = memory_file(len);
}

static int
setup(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(fds); i++)
		fds[i] = -1;
	fds[0] = shm_memory_make(&table, "table", sizeof(struct shm_table), true);
	return fds[0] >= 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < RTE_DIM(fds); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
	shm_memory_unmap(&table);
	return 0;
}

static void
assert_refused(const char *why)
{
	const unsigned int before = own_mappings();

	assert_null(shm_reach_new(fds, (unsigned int)tab()->nb + 1));
	assert_non_null(strstr(leat_err_msg(), why));
	assert_int_equal(own_mappings(), before);
}

static char
byte_of(int fd, uint64_t at)
{
	char c;

	assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
	return c;
}

/* ---- valid tables ---- */

static void
test_pieces_in_one_run(void **state)
{
	const unsigned int before = own_mappings();
	struct shm_reach *r;
	char *p;

	(void)state;
	piece_add(AT, 2 * PAGE);
	piece_add(AT + 2 * PAGE, PAGE);
	piece_add(AT + 8 * PAGE, PAGE);
	r = shm_reach_new(fds, 4);
	assert_non_null(r);
	assert_int_equal(r->ring.arenas.nb, 2);
	/*
	 * Adjacent pieces are mapped as one run: access two bytes across the end of the first file.
	 */
	p = ring_arenas_at(&r->ring.arenas, AT + 2 * PAGE - 1, 2);
	assert_non_null(p);
	p[0] = 'a';
	p[1] = 'b';
	assert_int_equal(byte_of(fds[1], 2 * PAGE - 1), 'a');
	assert_int_equal(byte_of(fds[2], 0), 'b');
	p = ring_arenas_at(&r->ring.arenas, AT + 8 * PAGE, PAGE);
	assert_non_null(p);
	*p = 'c';
	assert_int_equal(byte_of(fds[3], 0), 'c');
	shm_reach_free(r);
	assert_int_equal(own_mappings(), before);
}

static void
test_bounds(void **state)
{
	struct shm_reach *r;

	(void)state;
	piece_add(AT, 2 * PAGE);
	r = shm_reach_new(fds, 2);
	assert_non_null(r);
	assert_non_null(ring_arenas_at(&r->ring.arenas, AT, 2 * PAGE));
	assert_non_null(ring_arenas_at(&r->ring.arenas, AT + 2 * PAGE, 0));
	assert_null(ring_arenas_at(&r->ring.arenas, AT - 1, 1));
	assert_null(ring_arenas_at(&r->ring.arenas, AT - 1, 2 * PAGE));
	assert_null(ring_arenas_at(&r->ring.arenas, AT, 2 * PAGE + 1));
	assert_null(ring_arenas_at(&r->ring.arenas, AT + 2 * PAGE, 1));
	assert_null(ring_arenas_at(&r->ring.arenas, AT + 1, UINT64_MAX));
	assert_null(ring_arenas_at(&r->ring.arenas, 0, UINT64_MAX));
	assert_null(ring_arenas_at(&r->ring.arenas, UINT64_MAX, 1));
	shm_reach_free(r);
}

static void
test_as_many_as_there_can_be(void **state)
{
	struct shm_reach *r;
	uint64_t i;

	(void)state;
	for (i = 0; i < SHM_SHARE_FDS; i++)
		piece_add(AT + 2 * i * PAGE, PAGE);
	r = shm_reach_new(fds, 1 + SHM_SHARE_FDS);
	assert_non_null(r);
	assert_int_equal(r->ring.arenas.nb, SHM_SHARE_FDS);
	shm_reach_free(r);
}

static void
test_part_of_a_file(void **state)
{
	struct shm_reach *r;
	char *p;

	(void)state;
	piece_add(AT, 4 * PAGE);
	tab()->pieces[0].offset = 2 * PAGE;
	tab()->pieces[0].len = 2 * PAGE;
	r = shm_reach_new(fds, 2);
	assert_non_null(r);
	p = ring_arenas_at(&r->ring.arenas, AT, 1);
	assert_non_null(p);
	*p = 'x';
	assert_int_equal(byte_of(fds[1], 2 * PAGE), 'x');
	shm_reach_free(r);
}

/* ---- invalid tables ---- */

static void
test_pieces_without_descriptors(void **state)
{
	const unsigned int before = own_mappings();

	(void)state;
	piece_add(AT, PAGE);
	tab()->nb = 2;
	assert_null(shm_reach_new(fds, 2));
	tab()->nb = UINT64_MAX;
	assert_null(shm_reach_new(fds, 2));
	tab()->nb = 0;
	assert_null(shm_reach_new(fds, 2));
	assert_int_equal(own_mappings(), before);
}

static void
test_sizes(void **state)
{
	/* Values of the last piece, each of which makes it invalid. */
	static const struct {
		uint64_t addr, len, offset;
	} wrong[] = {
		{ AT, 0, 0 },
		{ AT, PAGE + 1, 0 },
		{ AT + 8, PAGE, 0 },
		{ AT, PAGE, 8 },
		{ AT, 5 * PAGE, 0 },
		{ AT, 4 * PAGE, PAGE },
		{ AT, PAGE, 4 * PAGE },
		{ AT, PAGE, 0 - PAGE },
		{ AT, 0 - PAGE, 2 * PAGE },
		{ 0 - PAGE, 2 * PAGE, 0 },
		{ AT, UINT64_C(1) << 45, 0 },
	};
	unsigned int i;

	(void)state;
	piece_add(AT + 16 * PAGE, PAGE); /* mapped before the wrong piece is seen, then unmapped */
	piece_add(AT, 4 * PAGE);
	for (i = 0; i < RTE_DIM(wrong); i++) {
		tab()->pieces[1] =
			(struct shm_piece){ wrong[i].addr, wrong[i].len, wrong[i].offset };
		assert_refused("memory beyond the end of its file");
	}
}

static void
test_no_memory(void **state)
{
	int ends[2];

	(void)state;
	piece_add(AT, PAGE);
	assert_int_equal(close(fds[1]), 0);
	assert_int_equal(pipe(ends), 0);
	fds[1] = ends[0];
	assert_refused("neither a memfd nor huge pages");
	assert_int_equal(dup2(open("/dev/null", O_RDWR | O_CLOEXEC), fds[1]), fds[1]);
	assert_refused("memory beyond the end of its file");
	assert_int_equal(dup2(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fds[1]), fds[1]);
	assert_refused("neither a memfd nor huge pages");
	assert_int_equal(close(ends[1]), 0);
}

static void
test_read_only(void **state)
{
	char path[48];
	int fd;

	(void)state;
	piece_add(AT, PAGE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(close(fds[1]), 0);
	fds[1] = fd;
	assert_refused("mmap");
}

static void
test_table(void **state)
{
	const int good = fds[0];

	(void)state;
	fds[0] = memory_file(sizeof(struct shm_table));
	assert_refused("sealed");
	assert_int_equal(close(fds[0]), 0);
	fds[0] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_refused("shorter");
	assert_int_equal(close(fds[0]), 0);
	fds[0] = good;
	/* A peer can't write to the table. */
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, good, 0), MAP_FAILED);
}

/* ---- the table of this process ---- */

static void
test_memory_of_eal(void **state)
{
	const unsigned int mapped = own_mappings(), open_fds = own_fds();
	uint64_t *mem = rte_zmalloc(NULL, 8 * PAGE, PAGE), *there;
	struct shm_share *s = shm_share_new("test");
	struct shm_reach *r;

	(void)state;
	assert_non_null(mem);
	assert_non_null(s);
	assert_true(s->nb_fds >= 2);
	assert_ptr_equal(ring_arenas_at(&s->ring.arenas, (uintptr_t)mem, 8 * PAGE), mem);
	assert_null(ring_arenas_at(&s->ring.arenas, (uintptr_t)&mem, sizeof(mem)));
	r = shm_reach_new(s->fds, s->nb_fds);
	assert_non_null(r);
	there = ring_arenas_at(&r->ring.arenas, (uintptr_t)mem, 8 * PAGE);
	assert_non_null(there);
	assert_ptr_not_equal(there, mem);
	mem[511] = 1;
	assert_int_equal(there[511], 1);
	there[512] = 2;
	assert_int_equal(mem[512], 2);
	s->ring.entries[7].key = 99;
	assert_int_equal(r->ring.entries[7].key, 99);
	shm_share_withdraw_all(s);
	assert_int_equal(r->ring.entries[7].key, 0);
	shm_reach_free(r);
	shm_share_free(s);
	rte_free(mem);
	assert_int_equal(own_mappings(), mapped);
	assert_int_equal(own_fds(), open_fds);
}

int
main(int argc, char **argv)
{
	static char no_huge[] = "--no-huge", no_pci[] = "--no-pci", m[] = "-m", mib[] = "32",
		    no_shconf[] = "--no-shconf", no_telemetry[] = "--no-telemetry";
	char *eal[] = { argv[0], no_huge, m, mib, no_pci, no_shconf, no_telemetry, NULL };
	const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		TEST(test_pieces_in_one_run),
		TEST(test_bounds),
		TEST(test_part_of_a_file),
		TEST(test_as_many_as_there_can_be),
		TEST(test_pieces_without_descriptors),
		TEST(test_sizes),
		TEST(test_no_memory),
		TEST(test_read_only),
		TEST(test_table),
		cmocka_unit_test(test_memory_of_eal),
	};

	(void)argc;
	if (rte_eal_init((int)RTE_DIM(eal) - 1, eal) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
