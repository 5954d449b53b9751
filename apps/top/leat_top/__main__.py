# SPDX-License-Identifier: BSD-3-Clause
"""python3 -m leat_top: from the source tree."""

import sys

from .main import main

sys.exit(main())
