# SPDX-License-Identifier: BSD-3-Clause
"""Metrics for Prometheus: leat-tune export.

    _names     schemas   ->  families: the metrics, with names and units
    _collect   blocks    ->  samples of the families
    _text      families  ->  OpenMetrics 1.0, or the older text format
    _server    serves both formats over HTTP

doc/guide/tune-export.md describes the metrics.
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
