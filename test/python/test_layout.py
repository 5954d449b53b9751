# SPDX-License-Identifier: BSD-3-Clause
"""Check that the module matches leat_channel.h: test_layout.py LAYOUT HEADER"""

import ctypes
import re
import subprocess
import sys
import unittest

from leat_channel import _abi

LAYOUT, HEADER = sys.argv[1:3]
STRUCTS = {
    "conf": _abi.Conf,
    "opts": _abi.Opts,
    "frame": _abi.CFrame,
    "sent": _abi.CSent,
    "who": _abi.CWho,
    "info": _abi.CInfo,
}
# Functions that the module does not use: those for channels in the caller's memory, since Python
# has no memory whose address is fixed; and recv, since the module's recv() is a peek, a copy and a
# consume, without a buffer that might be too small.
NOT_HERE = {"bytes", "format", "attach", "attach_fd", "set_eventfds", "guard", "recv", "recv_frame",
            "send_burst", "dispatch"}
ENUMS = {
    "NOTIFY_": _abi.Notify,
    "": _abi.OnDeath,
    "FULL_": _abi.Full,
    "WAIT_": _abi.WaitHow,
    "INVALID_": _abi.Invalid,
    "ARM_": _abi.ArmFor,
}


class Layout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out = subprocess.run([LAYOUT], stdout=subprocess.PIPE, check=True, text=True).stdout
        cls.said = {k: tuple(map(int, v)) for k, *v in (x.split() for x in out.splitlines())}
        with open(HEADER, encoding="utf-8") as file:
            # without comments
            cls.header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)

    def test_structures(self):
        for name, struct in STRUCTS.items():
            self.assertEqual(self.said[f"sizeof({name})"], (ctypes.sizeof(struct),), name)
            for field, _ in struct._fields_:
                here = getattr(struct, field)
                self.assertEqual(self.said[f"{name}.{field}"], (here.offset, here.size),
                                 f"{name}.{field}")
            fields = {k for k in self.said if k.startswith(name + ".")}
            self.assertEqual(fields, {f"{name}.{f}" for f, _ in struct._fields_})

    def test_no_structure_is_missing(self):
        self.assertEqual(set(re.findall(r"^struct leat_channel_(\w+) \{", self.header, re.M)),
                         set(STRUCTS))

    def test_no_field_is_missing(self):
        for name in STRUCTS:
            body = re.search(r"^struct leat_channel_%s \{(.*?)^\};" % name, self.header,
                             re.M | re.S)
            fields = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", body.group(1))
            self.assertEqual(fields, [f for f, _ in STRUCTS[name]._fields_])

    def test_constants(self):
        for name in ("PARTICIPANTS_MAX", "SIZE_MIN", "SIZE_MAX", "HEADER", "DELIVERIES", "FOREVER",
                     "DROPPED"):
            self.assertEqual(self.said["LEAT_CHANNEL_" + name], (getattr(_abi, name),), name)

    def test_enumerations(self):
        for prefix, enum in ENUMS.items():
            for member in enum:
                name = f"LEAT_CHANNEL_{prefix}{member.name}"
                self.assertEqual(self.said[name], (member.value,), name)
        for i, name in enumerate(_abi.COUNTERS):
            self.assertEqual(self.said["LEAT_CHANNEL_" + name.upper()], (i,), name)
        self.assertEqual(self.said["LEAT_CHANNEL_COUNTERS"], (len(_abi.COUNTERS),))

    def test_no_enumerator_is_missing(self):
        bodies = re.findall(r"^enum leat_channel_\w+ \{(.*?)^\};", self.header, re.M | re.S)
        names = re.findall(r"\b(LEAT_CHANNEL_\w+)", "".join(bodies))
        self.assertLessEqual(set(names), set(self.said))
        self.assertEqual(len(bodies), len(ENUMS) + 1)
        known = sum(map(len, ENUMS.values())) + len(_abi.COUNTERS) + 1
        self.assertEqual(len(names), known)

    def test_functions(self):
        names = set(re.findall(r"^LEAT_CHANNEL_API\s.*?leat_channel_(\w+)\(", self.header,
                               re.M | re.S))
        self.assertEqual(names - NOT_HERE, set(_abi._FUNCTIONS))
        _abi.library()  # the library exports them


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
