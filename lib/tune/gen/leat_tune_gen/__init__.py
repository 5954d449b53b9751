# SPDX-License-Identifier: BSD-3-Clause
"""
Makes tables for C, modules for Python and documents of the descriptions of settings.

    source.py     reads a file; finds the line of a mistake
    model.py      what a description says: components, settings, reports, groups
    component.py  checks a description and makes a model of it
    protocol.py   the same for messages of a protocol
    layout.py     positions in C structures and in messages, hashes
    emit_*.py     one kind of output each, from a model that is right
"""
