# SPDX-License-Identifier: BSD-3-Clause
"""Read the measurements of this user's leat processes, and change their settings.

    import leat_tune

    for process in leat_tune.processes():
        for o in process.snapshot().objects:
            print(process.pid, o.path, o.settings, o.report)

    [process] = [p for p in leat_tune.processes() if p.program == "leat-perf"]
    with process.session() as session:
        answer = session.set("reactor.lcore0", {"spin_us": 100}, lease=30)
        print(answer.effective)

Reading costs the process nothing, and works even when the process hangs. The process checks every
change of a setting. A setting changed under a lease returns to its former value when the lease
ends, at the latest when the session ends. Processes describe their settings and measurements
themselves (Object.schema), so this package needs no knowledge of any component. Errors are raised
as TuneError, a subclass of OSError. See also doc/guide/tune-agents.md.
"""

import pkgutil

# In a source tree _protocol.py is generated into the build directory: PYTHONPATH must have both.
__path__ = pkgutil.extend_path(__path__, __name__)

from ._block import Change
from ._dir import default_dir
from ._errors import Corrupt, DirError, Gone, Refused, TimedOut, TuneError, Unknown, nearest
from ._histogram import BUCKETS, Histogram, bucket_begin, bucket_of
from ._process import Process, processes, scan, sweep
from ._schema import Field, Group, Report, Schema, Setting
from ._session import SESSION, Answer, Sample, Session
from ._snapshot import Lease, Object, Snapshot

__all__ = [
    "BUCKETS",
    "SESSION",
    "Answer",
    "Change",
    "Corrupt",
    "DirError",
    "Field",
    "Gone",
    "Group",
    "Histogram",
    "Lease",
    "Object",
    "Process",
    "Refused",
    "Report",
    "Sample",
    "Schema",
    "Session",
    "Setting",
    "Snapshot",
    "TimedOut",
    "TuneError",
    "Unknown",
    "bucket_begin",
    "bucket_of",
    "default_dir",
    "nearest",
    "processes",
    "scan",
    "sweep",
]
