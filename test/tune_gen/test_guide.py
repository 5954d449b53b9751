# SPDX-License-Identifier: BSD-3-Clause
"""
doc/guide/settings.md must be up to date with the descriptions in the tree.

    test_guide.py --write       writes it
"""

import glob
import os
import sys

import gen
import tap

GUIDE = os.path.join(gen.TOP, "doc/guide/settings.md")


def descriptions():
    found = [path for part in ("lib", "apps")
             for path in sorted(glob.glob(f"{gen.TOP}/{part}/*/*.toml"))]
    return [path for path in found if path != gen.PROTOCOL]


def made():
    result = gen.run("--markdown", "--page", "leat - settings and measurements", *descriptions())
    assert result.returncode == 0, result.stderr
    return result.stdout


def guide_is_up_to_date():
    with open(GUIDE, encoding="utf-8") as f:
        assert f.read() == made(), "run: python3 test/tune_gen/test_guide.py --write"


def every_component_is_in_it():
    assert len(descriptions()) > 5
    text = made()
    for path in descriptions():
        name = os.path.basename(path).removesuffix(".toml")
        assert f": `{name}`\n" in text, f"{path}: a component is called as its file"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(GUIDE, "w", encoding="utf-8") as f_:
            f_.write(made())
        sys.exit(0)
    tap.main([guide_is_up_to_date, every_component_is_in_it])
