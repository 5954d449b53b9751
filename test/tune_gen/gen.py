# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of leat-tune-gen share: its modules, from the tree, and what it makes, as modules."""

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
    """The program, as a user calls it."""
    return subprocess.run([sys.executable, "-B", GEN, *args], capture_output=True, encoding="utf-8",
                          check=False)


def module(name, path):
    """The Python module that is made of a description."""
    made = run("--python", path)
    assert made.returncode == 0, made.stderr
    result = types.ModuleType(name)
    sys.modules[name] = result  # dataclasses look their module up
    exec(compile(made.stdout, name, "exec"), result.__dict__)
    return result
