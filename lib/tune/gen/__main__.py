# SPDX-License-Identifier: BSD-3-Clause
"""leat-tune-gen, from the source tree (python3 lib/tune/gen) and as the archive that is installed."""

import sys

from leat_tune_gen.cli import main

sys.exit(main(sys.argv))
