# SPDX-License-Identifier: BSD-3-Clause
"""leat-top: a view of the leat processes of this user."""
