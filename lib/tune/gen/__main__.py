# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-tune-gen, from the source tree (python3 lib/tune/gen) or as the installed archive."""

import sys

from leat_tune_gen.cli import main

sys.exit(main(sys.argv))
