# SPDX-License-Identifier: BSD-3-Clause
"""Screens, which are drawn between the tabs and the line of keys."""
