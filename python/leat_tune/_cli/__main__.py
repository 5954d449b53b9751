# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-tune from a source tree: python3 -m leat_tune._cli."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
