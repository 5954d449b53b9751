# SPDX-License-Identifier: BSD-3-Clause
"""Run leat-top from the source tree: python3 -m leat_top."""

import sys

from .main import main

sys.exit(main())
