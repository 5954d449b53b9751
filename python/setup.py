# SPDX-License-Identifier: BSD-3-Clause
"""Generate leat_tune/_protocol.py when pip builds the packages, as meson.build does."""

import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_TUNE = Path(__file__).resolve().parent.parent / "lib" / "tune"


class _BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not (_TUNE / "gen").is_dir():
            raise SystemExit(f"{_TUNE / 'gen'} is missing: build from a source tree of leat")
        if sys.version_info < (3, 11):
            python = "python3"  # the generator needs 3.11, the packages do not
        else:
            python = sys.executable
        subprocess.run(
            [python, "-B", _TUNE / "gen", "--python", "-o",
             Path(self.build_lib) / "leat_tune" / "_protocol.py", _TUNE / "protocol.toml"],
            check=True,
        )


# Keep the source tree clean.
with tempfile.TemporaryDirectory() as scratch:
    setup(
        cmdclass={"build_py": _BuildPy},
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
