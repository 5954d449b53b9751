# SPDX-License-Identifier: BSD-3-Clause
"""Measurements for Prometheus.

    schema --_names--> families            what there is, its names and units
    blocks --_collect--> samples of them   what is measured
    families --_text--> OpenMetrics 1.0, or the older text format
    _server                                both over HTTP

doc/guide/tune-export.md describes the result.
"""

from ._collect import Collector
from ._names import Family, families, metric_list, own_families
from ._server import Limits, Server, loopback
from ._text import OPENMETRICS, PROMETHEUS, choose, render

__all__ = [
    "OPENMETRICS",
    "PROMETHEUS",
    "Collector",
    "Family",
    "Limits",
    "Server",
    "choose",
    "families",
    "loopback",
    "metric_list",
    "own_families",
    "render",
]
