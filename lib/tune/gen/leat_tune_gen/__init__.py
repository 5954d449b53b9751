# SPDX-License-Identifier: BSD-3-Clause
"""Generate C tables, Python modules and documents from descriptions of settings.

    source.py     reads a file, and finds the line of a mistake
    model.py      the model of a description: components, settings, reports, groups
    component.py  checks the description of a component, and builds its model
    protocol.py   checks the description of a protocol's messages, and builds its model
    layout.py     offsets in C structures and in messages, hashes
    emit_*.py     one kind of output each, from a checked model
"""
