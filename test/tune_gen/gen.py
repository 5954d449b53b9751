# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of leat-tune-gen: its modules, from the tree, and its output as modules."""

import os
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
GEN = os.path.join(TOP, "lib/tune/gen")
EVERY = os.path.join(TOP, "test/tune/every.toml")
PROTOCOL = os.path.join(TOP, "lib/tune/protocol.toml")
sys.path += [GEN, os.path.join(TOP, "test/devtools")]


def run(*args):
    """Run the program as a user does."""
    return subprocess.run([sys.executable, "-B", GEN, *args], capture_output=True, encoding="utf-8",
                          check=False)


def module(name, path):
    """Load the Python module that leat-tune-gen makes of a description."""
    made = run("--python", path)
    assert made.returncode == 0, made.stderr
    result = types.ModuleType(name)
    sys.modules[name] = result  # dataclasses look up their module there
    exec(compile(made.stdout, name, "exec"), result.__dict__)
    return result
