# SPDX-License-Identifier: BSD-3-Clause
"""devtools/driver-abi sees what changes the driver ABI, and nothing else: test_driver_abi.py TOOL

Over a small tree that is made up.
"""

import os
import subprocess
import sys
import tempfile

from tap import main

TOOL = sys.argv[1]
FILES = {
    "lib/fabric/meson.build": """\
headers = files('leat_op.h')
driver_headers = files(
	'leat_driver.h',
)
""",
    "lib/fabric/driver_abi": "7 0123456789abcdef\n",
    "lib/fabric/leat_driver.h": """\
/* The contract. */
#ifndef LEAT_DRIVER_H
#define LEAT_DRIVER_H
#include "leat_op.h"
#include "leat_version.h" /* generated */
#ifdef __cplusplus
extern "C" {
#endif
struct leat_driver {
	const char *name;
	int (*open)(struct leat_op *op); // one
};
static inline int
leat_op_room(const struct leat_op *op)
{
	return op->room;
}
LEAT_API int leat_peer_up(int peer);
#ifdef __cplusplus
}
#endif
#endif
""",
    "lib/base/leat_op.h": """\
#define LEAT_WORDS (2 * LEAT_WORD)
#define LEAT_WORD 4
#define LEAT_UNUSED 1
struct leat_op {
	int room; /**< how much */
	int words[LEAT_WORDS];
};
typedef void (*leat_fn)(struct leat_op *op);
static inline void
leat_op_inline(void)
{
}
LEAT_API int leat_op_public(int a);
""",
}


class Tree:
    def __init__(self, where):
        self.where = where
        for path, text in FILES.items():
            self.put(path, text)

    def put(self, path, text):
        path = os.path.join(self.where, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def record(self):
        with open(os.path.join(self.where, "lib/fabric/driver_abi"), encoding="utf-8") as f:
            return f.read()

    def tool(self, *args):
        return subprocess.run(
            [TOOL, "--top", self.where, *args], capture_output=True, text=True, timeout=60
        )

    def git(self, *args):
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(
            ["git", "-C", self.where, *who, *args], check=True, capture_output=True, timeout=60
        )

    def seen(self, path, old, new):
        """Return whether the tool sees this change."""
        assert FILES[path].count(old) == 1, old
        self.put(path, FILES[path].replace(old, new))
        p = self.tool()
        assert p.returncode in (0, 1) and not p.stderr, p.stderr
        self.put(path, FILES[path])
        return p.returncode == 1


def tree(test):
    def with_tree():
        with tempfile.TemporaryDirectory() as where:
            t = Tree(where)
            p = t.tool("--write")
            assert p.returncode == 0, p.stderr
            assert t.record().startswith("8 "), t.record()
            assert t.tool().returncode == 0
            test(t)

    with_tree.__name__ = test.__name__
    return with_tree


@tree
def what_changes_the_abi_is_seen(t):
    for path, old, new in (
        ("lib/fabric/leat_driver.h", "	const char *name;\n", ""),
        ("lib/fabric/leat_driver.h", "struct leat_op *op); // one", "int op);"),
        ("lib/fabric/leat_driver.h", "return op->room", "return op->room + 1"),
        ("lib/fabric/leat_driver.h", "leat_peer_up(int peer)", "leat_peer_up(long peer)"),
        ("lib/base/leat_op.h", "int room;", "long room;"),
        ("lib/base/leat_op.h", "leat_fn)(struct leat_op *op)", "leat_fn)(void)"),
        ("lib/base/leat_op.h", "LEAT_WORD 4", "LEAT_WORD 5"),
        ("lib/fabric/meson.build", "'leat_driver.h',", "'leat_driver.h', 'leat_op.h',"),
    ):
        assert t.seen(path, old, new), f"{path}: {old!r} became {new!r}, and it was not seen"


@tree
def what_does_not_is_not(t):
    for path, old, new in (
        ("lib/fabric/leat_driver.h", "/* The contract. */", "/*\n * What it is.\n */"),
        ("lib/fabric/leat_driver.h", " // one", " /**< struct leat_y { int a; }; */"),
        ("lib/fabric/leat_driver.h", "	const char *name;", "	const char\n		*name ;"),
        ("lib/base/leat_op.h", "how much", "how little"),
        ("lib/base/leat_op.h", "LEAT_UNUSED 1", "LEAT_UNUSED 2"),
        ("lib/base/leat_op.h", "leat_op_public(int a)", "leat_op_public(long a)"),
        ("lib/base/leat_op.h", "leat_op_inline(void)", "leat_op_inline(int a)"),
    ):
        assert not t.seen(path, old, new), f"{path}: {old!r} became {new!r}: no change of the ABI"


@tree
def the_message_says_what_to_do(t):
    t.put("lib/base/leat_op.h", FILES["lib/base/leat_op.h"].replace("int room;", "long room;"))
    p = t.tool()
    assert p.returncode == 1, p
    assert p.stdout.startswith("lib/fabric/driver_abi:1: "), p.stdout
    assert "devtools/driver-abi --write" in p.stdout, p.stdout


@tree
def writing_adds_one_a_commit(t):
    op = FILES["lib/base/leat_op.h"]
    t.git("init", "-q")
    t.git("add", "-A")
    t.git("commit", "-qm", "eight")
    first = t.record()
    for kind in ("long", "short"):
        t.put("lib/base/leat_op.h", op.replace("int room;", kind + " room;"))
        assert t.tool("--write").returncode == 0
        assert t.record().startswith("9 ") and t.tool().returncode == 0, t.record()
    # Undone: the ABI is the committed one again.
    t.put("lib/base/leat_op.h", op)
    assert t.tool("--write").returncode == 0
    assert t.record() == first, t.record()
    # A record with the marks of a merge conflict: the new number follows that of HEAD.
    t.put("lib/base/leat_op.h", op.replace("int room;", "long room;"))
    t.put("lib/fabric/driver_abi", "<<<<<<< HEAD\n" + first)
    assert t.tool().returncode == 1
    assert t.tool("--write").returncode == 0
    assert t.record().startswith("9 ") and t.tool().returncode == 0, t.record()


main(
    [
        what_changes_the_abi_is_seen,
        what_does_not_is_not,
        the_message_says_what_to_do,
        writing_adds_one_a_commit,
    ]
)
