#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A man page has all that --help says: test_man.py PAGE PROGRAM [COMMAND]..."""

import os
import re
import shutil
import subprocess
import sys


def main():
    page, program, *commands = sys.argv[1:]
    with open(page, encoding="utf-8") as f:
        source = f.read()
    plain = re.sub(r"\\f[BIRP]|\\[,/&]", "", source).replace("\\-", "-")
    # The environment of the build: programs in Python that are built with a sanitizer then load no
    # library.
    env = os.environ | {"COLUMNS": "1000", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    missing = []
    for command in ["", *commands]:
        text = subprocess.run([program, *command.split(), "--help"], env=env, text=True,
                              stdout=subprocess.PIPE, check=True).stdout
        of_page = plain
        if command:
            found = re.search(rf"^\.SS {command}\n(.*?)(?=^\.S[SH] )", plain, re.M | re.S)
            of_page = found[1] if found else ""
        options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text, re.I))
        missing += [f"{program} {command}: {o}" for o in sorted(options)
                    if not re.search(rf"(?<![\w-]){o}(?![\w-])", of_page)]
        # Each option that has a line has a paragraph of its own.
        for line in re.findall(r"^  (-.*?)(?:  |$)", text, re.M):
            if f".TP\n{line.strip()}\n" not in of_page:
                missing.append(f"{program} {command}: a paragraph of {line}")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", '"EXIT STATUS"', '"SEE ALSO"'):
        if f"\n.SH {section}\n" not in plain and not (commands and section == "OPTIONS"):
            missing.append(f"the section {section}")
    for line in missing:
        print(f"not in the man page: {line}")
    warnings = ""
    if shutil.which("man"):
        warnings = subprocess.run(["man", "--warnings", "-l", page], text=True, check=True,
                                  env=os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
        print(warnings)
    return 1 if missing or warnings else 0


if __name__ == "__main__":
    sys.exit(main())
