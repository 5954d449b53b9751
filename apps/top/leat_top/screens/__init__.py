# SPDX-License-Identifier: BSD-3-Clause
"""Screens: what is drawn between the tabs and the line of keys."""
