# SPDX-License-Identifier: BSD-3-Clause
"""The programs that devtools/bench starts can be started: test_bench.py DEVTOOLS_BENCH BUILDDIR"""

import importlib.machinery
import importlib.util
import os
import sys

from tap import main

BENCH, BUILDDIR = sys.argv[1:3]


def load():
    # The script finds its modules in its own directory, as when it is started.
    sys.path.insert(0, os.path.dirname(os.path.abspath(BENCH)))
    loader = importlib.machinery.SourceFileLoader("bench", BENCH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    module.BUILD = BUILDDIR
    return module


def no_command_depends_on_the_directory_it_is_started_in():
    known = load().benchmarks()
    assert known, "there are no benchmarks in this build"
    relative = [
        (name, word)
        for name, cmd, _, _ in known
        for word in cmd
        if not os.path.isabs(word) and os.path.exists(os.path.join(BUILDDIR, word))
    ]
    assert not relative, f"relative to the build directory: {relative}"


main([no_command_depends_on_the_directory_it_is_started_in])
