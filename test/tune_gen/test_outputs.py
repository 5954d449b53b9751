# SPDX-License-Identifier: BSD-3-Clause
"""
The output of leat-tune-gen for the guide's example, byte by byte; and its command line.

    test_outputs.py PROGRAM     the archive that is installed
    test_outputs.py --write     after an intended change: writes golden/, to be reviewed
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gen
import tap
import test_hash

from leat_tune_gen import cli, component, layout
from leat_tune_gen.source import Source

KV = os.path.join(gen.HERE, "kv.toml")
GUIDE = os.path.join(gen.TOP, "doc/guide/tune-description.md")
OUTPUTS = ("c-header", "c-source", "python", "json", "markdown", "man", "completion", "metrics",
           "mlos")
program = None


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def expected(kind):
    return os.path.join(gen.HERE, "golden", kind + ".txt")


def made(*args):
    """Return the output for these arguments, or for the example."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["leat-tune-gen", f"--{args[0]}", *(args[1:] or [KV])]) == 0
    return out.getvalue()


def golden():
    for kind in OUTPUTS:
        assert made(kind) == read(expected(kind)), f"--{kind} is not as in {expected(kind)}"


def program_that_is_installed_does_the_same():
    with tempfile.TemporaryDirectory() as d:
        for kind in OUTPUTS:
            out = os.path.join(d, kind)
            subprocess.run([program, f"--{kind}", "--output", out, KV], check=True, cwd=d)
            assert read(out) == read(expected(kind)), kind


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", read(GUIDE), re.M | re.S)


def guide_has_the_example():
    assert blocks("toml") == [read(KV)]


def guide_has_python_that_runs():
    gen.module("kv", KV)
    code, = blocks("python")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, GUIDE, "exec"), {})
    assert "# " + said.getvalue() in code, said.getvalue()


def guide_says_how_the_hash_comes_about():
    shown = re.search(r"^leat-tune-1\n(.*?)^```$", read(GUIDE), re.M | re.S)[1].splitlines()
    c = component.load(Source.read(KV))
    lines = [f"component {c.name}"] + [layout._line("setting", s) for s in c.settings] + [
        layout._line("report", r) for r in c.reports]
    assert all(line in lines for line in shown if line != "..."), shown


def guide_shows_mistakes_as_they_are():
    wrong = read(KV).replace("automatic = 0", "automatic = 8")
    wrong = wrong.replace("percent < high", "percent > high")
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "kv.toml"), "w", encoding="utf-8") as f:
            f.write(wrong)
        said = gen.run(os.path.join(d, "kv.toml")).stderr
        assert said.replace(d + "/", "") in read(GUIDE), said


def several_components():
    both = [KV, gen.EVERY]
    assert [c["component"] for c in json.loads(made("json", *both))] == ["kv", "every"]
    assert {m["component"] for m in json.loads(made("metrics", *both))} == {"kv", "every"}
    assert "kv.batch automatic" in made("completion", *both).splitlines()
    assert "HASHES" in made("python", *both)
    for kind in ("markdown", "man", "mlos"):
        assert "every" in made(kind, *both)
    for kind in ("c-header", "c-source"):
        result = gen.run(f"--{kind}", *both)
        assert result.returncode == 2 and "takes one description" in result.stderr


def metrics_are_those_of_openmetrics():
    every = json.loads(made("metrics", gen.EVERY, KV))
    names = [m["family"] for m in every]
    assert len(set(names)) == len(names)
    for m in every:
        assert re.fullmatch(r"leat_[a-z0-9_]+", m["metric"]), m
        assert m["type"] in ("counter", "gauge", "histogram", "info", "stateset"), m
        assert m["metric"].endswith("_total") == (m["type"] == "counter"), m
        assert "unit" not in m or m["family"].endswith("_" + m["unit"]), m
        assert m.get("unit") not in ("ns", "us", "ms", "percent"), m
    by = {m["field"]: m for m in every}
    busy = by["busy_ns"]
    assert (busy["metric"], busy["factor"]) == ("leat_every_busy_seconds_total", 1e-9)
    assert by["turns"]["metric"] == "leat_every_turns_total"


def mlos_has_what_it_reads():
    groups = json.loads(made("mlos", gen.EVERY))
    assert groups.pop("$schema").endswith("/schemas/tunables/tunable-params-schema.json")
    params = {}
    for group in groups.values():
        assert set(group) == {"description", "cost", "params"} and group["params"], group
        assert not params.keys() & group["params"].keys()
        params |= group["params"]
    described = json.loads(made("json", gen.EVERY))["settings"]
    assert set(params) == {f"every.{s['name']}" for s in described if s["type"] != "string"}
    for p in params.values():
        assert set(p) <= {"description", "meta", "type", "default", "values", "range", "special",
                          "log",
                          "quantization_bins"}, p
        if p["type"] == "categorical":
            assert p["default"] in p["values"] and "range" not in p, p
            continue
        low, high = p["range"]
        assert low <= p["default"] <= high or p["default"] in p["special"], p
        assert all(not low <= v <= high for v in p.get("special", [])), p
        assert p["type"] == "float" or isinstance(p["default"], int), p
    assert set(groups["every.bounds"]["params"]) == {"every.low_ns", "every.high_ns"}
    assert params["every.window"]["quantization_bins"] == 512
    assert [groups[f"every-{w}"]["cost"] for w in ("now", "next", "start")] == [1, 2, 10]


def compiles_without_a_warning():
    """The output for random descriptions compiles with every compiler found, not only the one that
    builds leat."""
    flags = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, check=True,
                           encoding="utf-8").stdout.replace("-I", "-isystem").split()
    flags += ["-I" + os.path.join(gen.TOP, d) for d in ("lib/tune", "lib/base")]
    flags += ["-Wall", "-Wextra", "-Wpedantic", "-Wmissing-prototypes", "-Wno-variadic-macros",
              "-Werror",
              "-fsyntax-only"]
    with tempfile.TemporaryDirectory() as d:
        headers = ""
        for i in range(12):
            path = os.path.join(d, f"c{i}.toml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(test_hash.write(test_hash.random_description() | {"component": f"c{i}"}))
            for kind in ("h", "c"):
                with open(os.path.join(d, f"c{i}_tune.{kind}"), "w", encoding="utf-8") as f:
                    f.write(made("c-header" if kind == "h" else "c-source", path))
            headers += f'#include "c{i}_tune.h"\n'
        sources = [f"c{i}_tune.c" for i in range(12)]
        with open(os.path.join(d, "all.cc"), "w", encoding="utf-8") as f:
            f.write(headers)
        found = [c for c in ("gcc", "clang", "g++", "clang++") if shutil.which(c)]
        assert found, "no compiler"
        for compiler in found:
            files = ["all.cc"] if "++" in compiler else sources
            own = [x for x in flags if "++" not in compiler or x != "-Wmissing-prototypes"]
            result = subprocess.run([compiler, *own, *files], cwd=d, capture_output=True,
                                    check=False,
                                    encoding="utf-8")
            assert result.returncode == 0, result.stderr


def documents_escape():
    markdown, man = made("markdown", gen.EVERY), made("man", gen.EVERY)
    assert "\\*/ help." in markdown and "low\\_ns \\<= high\\_ns" in markdown
    assert all(line.count("|") == line.count("\\|") + 6 for line in markdown.splitlines()
               if "|" in line)
    assert man.isascii() and "sleep\\-long" in man and "\\[u00FC]" in man


def pages():
    """With --page the output is a whole document, also for descriptions of other programs."""
    page = gen.run("--man", "--page", "kv - tables in memory", KV).stdout
    assert page.startswith('.TH "KV\\-SETTINGS" 7 ""'), page
    assert ".SH NAME\nkv\\-settings \\- tables in memory\n" in page and page.endswith(
        made("man")), page
    document = gen.run("--markdown", "--page", "kv - tables in memory", KV).stdout
    assert document.startswith("# Tables in memory\n") and document.endswith(made("markdown"))
    wrong = gen.run("--man", "--page", "kv", KV)
    assert wrong.returncode == 2 and "NAME - ABOUT" in wrong.stderr


def command_line():
    for args, words in (([], "FILE"), (["--json", "--man", KV], "not allowed"),
                        (["--jso", KV], "unrecognized"), (["--nothing", KV], "unrecognized"),
                        (["--json", gen.PROTOCOL], "not for a protocol"),
                        (["--python", gen.PROTOCOL, KV], "only file of a run")):
        result = gen.run(*args)
        assert result.returncode == 2 and words in result.stderr, (args, result.stderr)
    result = gen.run("--help")
    assert result.returncode == 0 and all(f"--{kind}" in result.stdout for kind in OUTPUTS)
    result = gen.run("--json", "-o", "/nowhere/x", KV)
    assert result.returncode == 1 and "/nowhere/x" in result.stderr, result.stderr
    assert gen.run("--check", KV, gen.EVERY, gen.PROTOCOL).returncode == 0
    assert '#include "other.h"' in made("c-source", "--include", "other.h", KV)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        for kind_ in OUTPUTS:
            with open(expected(kind_), "w", encoding="utf-8") as f_:
                f_.write(made(kind_))
        sys.exit(0)
    program = os.path.abspath(sys.argv[1])
    tap.main([golden, program_that_is_installed_does_the_same, guide_has_the_example,
              guide_has_python_that_runs, guide_says_how_the_hash_comes_about,
              guide_shows_mistakes_as_they_are, several_components,
              metrics_are_those_of_openmetrics, mlos_has_what_it_reads, compiles_without_a_warning,
              documents_escape, pages,
              command_line])
