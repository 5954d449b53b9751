# SPDX-License-Identifier: BSD-3-Clause
"""
Every mistake in a description is reported with its line and reason, and all of a file at once.

A case is a description in which each line with a mistake ends with "# <- words of the reason"; a
line with two mistakes has " & " between the words.
"""

import contextlib
import io
import os
import re
import tempfile

import gen
import tap

from leat_tune_gen import cli

TOP = """
component = "kv"
title = "Keys"
help = "A table of keys."
"""
SETTING = """
[[setting]]
name = "batch"
type = "integer"
unit = "ops"
range = [1, 64]
special = { automatic = 0 }
default = 8
when = "now"
help = "Calls at once."
"""
SECOND = SETTING.replace('"batch"', '"burst"').replace("default = 8", "default = 16")
GROUP = """
[[group]]
name = "pair"
settings = ["batch", "burst"]
rule = "batch <= burst"
help = "Both at once."
"""
REPORT = """
[[report]]
name = "calls"
kind = "counter"
unit = "calls"
help = "Calls."
"""
REAL = """
[[setting]]
name = "share"
type = "real"
range = [0.0, 1.0]
default = 0.5
when = "now"
help = "A share."
"""
ENUM = """
[[setting]]
name = "mode"
type = "enum"
values = ["one", "two"]
default = "one"
when = "now"
help = "A mode."
"""
STRING = """
[[setting]]
name = "label"
type = "string"
size = 8
default = "abc"
when = "now"
help = "A label."
"""
BOOL = """
[[setting]]
name = "enabled"
type = "bool"
default = true
when = "now"
help = "A switch."
"""
GOOD = TOP + SETTING + SECOND + REAL + ENUM + STRING + BOOL + GROUP + REPORT
PROTOCOL = """
protocol = "pp"
help = "Messages."

[[message]]
name = "first"
number = 1
direction = "feedback"
payload = "settings"
help = "A message."
fields = [
    { name = "what", type = "integer", help = "a number" },
    { name = "text", type = "string", size = 10, help = "a text" },
]

[[message]]
name = "second"
number = 2
direction = "telemetry"
help = "Another."
fields = [{ name = "ok", type = "bool", help = "yes" }]
"""


def check(text):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "d.toml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = cli.main(["leat-tune-gen", "--c-source", "-o", os.path.join(d, "out"), path])
        assert (code == 0) == os.path.exists(os.path.join(d, "out"))
        return code, said.getvalue(), path


def refused(text):
    """The reported mistakes must be exactly the marked ones."""
    wanted = []
    for number, line in enumerate(text.split("\n"), 1):
        _, mark, words = line.partition("# <- ")
        wanted += [(number, reason) for reason in words.split(" & ")] if mark else []
    assert wanted, "a case without a mistake"
    code, said, path = check(text)
    assert code == 1, f"taken, but should not be: {wanted}"
    lines = said.splitlines()
    for line in lines:
        match = re.fullmatch(re.escape(path) + r":(\d+): (.+)", line)
        assert match, line
        found = [w for w in wanted if w[0] == int(match[1]) and w[1] in match[2]]
        assert found, f"not expected: {line}; wanted {wanted}"
        wanted.remove(found[0])
    assert not wanted, f"not said: {wanted}; but {lines}"


def change(old, new, text=GOOD):
    """Replace old in the first line that has it; the text after "#" in new marks the mistake."""
    assert old in text, old
    return text.replace(old, new, 1)


def cases(*pairs, text=GOOD):
    for old, new in pairs:
        refused(change(old, new, text))


def good_ones_are_taken():
    for text in (GOOD, PROTOCOL, TOP + REPORT, TOP + BOOL):
        code, said, _ = check(text)
        assert code == 0, said


def syntax():
    cases(('help = "A table', 'help = # <- not TOML\n# '),
          ('title = "Keys"', 'title = "Keys" "x" # <- not TOML'),
          ('title = "Keys"', 'title = "Keys"\ntitle = "K" # <- not TOML'))
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "d.toml")
        with open(path, "wb") as f:
            f.write(b"component = \"\xff\"\n")
        result = gen.run(path)
        assert result.returncode == 1 and f"{path}:1: not UTF-8" in result.stderr, result.stderr
        missing = gen.run(os.path.join(d, "none.toml"))
        assert missing.returncode == 1 and "none.toml: No such file" in missing.stderr


def keys():
    cases(('help = "A table of keys."',
           'help = "A table."\ncolour = "red" # <- unknown key \'colour\''),
          ('unit = "ops"', "units = \"ops\" # <- unknown key 'units'"),
          ('title = "Keys"', 'title = 1 # <- must be a string'),
          ('kind = "counter"', 'kind = "counter"\nrange = [1, 2] # <- unknown key'),
          ('when = "now"\nhelp = "A switch."', "when = \"now\"\nrange = [0, 1] # <- not for bool"
           '\nhelp = "A switch."'),
          ('size = 8', 'size = 8\nunit = "bytes" # <- not for string'),
          ('default = 0.5', 'default = 0.5\nvalues = ["x"] # <- not for real'),
          ('unit = "calls"', 'unit = "calls"\nvalues = ["x"] # <- not for integer'),
          ('unit = "calls"', 'unit = "calls"\nsize = 5 # <- not for integer'),
          ('default = true', 'default = true\nlog = 1 # <- not for bool'),
          ('range = [1, 64]', 'range = [1, 64]\nlog = 1 # <- must be true or false'))
    refused(TOP + "setting = 3 # <- must be written [[setting]]\n"
            .replace("setting = 3 #", "[setting] #"))
    refused("title = \"K\" # <- key 'component' is missing\nhelp = \"K.\"\n" + REPORT)
    refused('component = "kv" # <- neither settings nor reports\ntitle = "K"\nhelp = "K."\n')


def missing():
    for block, table in ((SETTING, "setting"), (REAL, "setting"), (ENUM, "setting"),
                         (STRING, "setting"), (BOOL, "setting"), (REPORT, "report")):
        for line in block.strip().split("\n")[1:]:
            key = line.split(" = ")[0]
            if key in ("unit", "special"):
                continue
            text = TOP + block.replace(line + "\n", "").replace(
                f"[[{table}]]", f"[[{table}]] # <- key '{key}' is missing")
            refused(text)
    for key in ("name", "settings", "help"):
        line = next(x for x in GROUP.split("\n") if x.startswith(key))
        refused(TOP + SETTING + SECOND + GROUP.replace(line + "\n", "").replace(
            "[[group]]", f"[[group]] # <- key '{key}' is missing"))


def names_of_things():
    cases(('component = "kv"', 'component = "Kv" # <- lower case'),
          ('component = "kv"', 'component = "' + "k" * 32 + '" # <- at most 31'),
          ('component = "kv"', 'component = "leat" # <- own structures'),
          ('component = "kv"', 'component = "class" # <- word of C'),
          ('name = "share"', 'name = "9share" # <- lower case'),
          ('name = "share"', 'name = "" # <- lower case'),
          ('name = "share"', 'name = "while" # <- word of C'),
          ('name = "share"', 'name = "lambda" # <- word of Python'),
          ('name = "share"', 'name = "linux" # <- word of C'),
          ('name = "share"', 'name = "pack" # <- function of the class'),
          ('name = "share"', 'name = "nb_settings" # <- nb_settings'),
          ('name = "calls"', 'name = "a-b" # <- lower case'),
          ('name = "pair"', 'name = "if" # <- word of C'),
          ('unit = "calls"', 'unit = "calls per s" # <- lower case'),
          ('default = 0.5', 'default = 0.5\naliases = ["X"] # <- alias'),
          ('default = 0.5', 'default = 0.5\naliases = [1] # <- alias'))
    # twice
    cases(('name = "share"', 'name = "batch" # <- already in line 7'),
          ('default = 0.5', 'default = 0.5\naliases = ["batch"] # <- already in line 7'),
          ('default = 0.5', 'default = 0.5\naliases = ["old", "old"] # <- already in line 31'),
          ('help = "Calls."', 'help = "Calls."\n' + REPORT.replace(
              'name = "calls"', 'name = "calls" # <- already in line')),
          ('help = "Both at once."', 'help = "Both at once."\n' + GROUP.replace(
              'name = "pair"', 'name = "pair" # <- another group').replace(
              'settings = ["batch", "burst"]',
              'settings = ["batch", "burst"] '
              '# <- in group \'pair\', too & in group \'pair\', too')))


def texts():
    cases(('help = "A share."', 'help = "A share" # <- full stop'),
          ('help = "A share."', 'help = "" # <- empty'),
          ('help = "A share."', 'help = " A share." # <- space around'),
          ('help = "A share."', 'help = "A\\tshare." # <- control character'),
          ('title = "Keys"', 'title = "" # <- empty'),
          ('help = "Both at once."', 'help = "Both" # <- full stop'),
          ('help = "Calls."', 'help = "Calls" # <- full stop'))


def ranges():
    cases(('range = [1, 64]', 'range = [1] # <- [least, greatest]'),
          ('range = [1, 64]', 'range = [1, 64.5] # <- integers of 64 bits'),
          ('range = [1, 64]', 'range = [1, 9223372036854775808] # <- integers of 64 bits'),
          ('range = [1, 64]', 'range = [1, true] # <- integers of 64 bits'),
          ('range = [1, 64]', 'range = [64, 1] # <- empty'),
          ('range = [1, 64]', 'range = [8, 8] # <- empty, or of one value'),
          ('range = [1, 64]', 'range = 5 # <- must be an array'),
          ('range = [0.0, 1.0]', 'range = [0.0, inf] # <- finite'),
          ('range = [0.0, 1.0]', 'range = [0.0, nan] # <- finite'),
          ('automatic = 0', 'automatic = 5 } # <- inside the range\n#'),
          ('automatic = 0', 'automatic = 1 } # <- inside the range\n#'),
          ('automatic = 0', 'automatic = 64 } # <- inside the range\n#'),
          ('automatic = 0', 'automatic = 0.5 } # <- integers of 64 bits\n#'),
          ('automatic = 0', 'automatic = "x" } # <- integers of 64 bits\n#'),
          ('automatic = 0', 'Auto = 0 } # <- lower case\n#'),
          ('automatic = 0', 'automatic = 0, off = 0 } # <- is there twice\n#'))
    cases(('range = [1, 64]', 'range = [0, 64]\nlog = true # <- begins above 0'),
          ('range = [0.0, 1.0]', 'range = [0.0, 1.0]\nlog = true # <- begins above 0'),
          ('range = [1, 64]', 'range = [1, 64]\nquantum = 0 # <- not above 0'),
          ('range = [1, 64]', 'range = [1, 64]\nquantum = 0.5 # <- not above 0, or not of'),
          ('range = [1, 64]', 'range = [1, 64]\nquantum = 64 # <- more than the range'),
          ('range = [1, 64]', 'range = [1, 64]\nvalues_hint = [1, 65] # <- 65 is outside'),
          ('range = [1, 64]', 'range = [1, 64]\nvalues_hint = ["a"] # <- not of the integers'),
          text=GOOD.replace("special = { automatic = 0 }\n", ""))


def defaults():
    cases(('default = 8', 'default = 65 # <- outside the range [1, 64]'),
          ('default = 8', 'default = -1 # <- outside the range'),
          ('default = 8', 'default = 8.0 # <- neither a number of its type'),
          ('default = 8', 'default = "x" # <- neither a number of its type'),
          ('default = 8', 'default = true # <- neither a number of its type'),
          ('default = 0.5', 'default = 1.5 # <- outside the range'),
          ('default = 0.5', 'default = nan # <- neither a number'),
          ('default = "one"', 'default = "three" # <- not among the values: one, two'),
          ('default = "one"', 'default = 0 # <- not among the values'),
          ('default = "abc"', 'default = "12345678" # <- has 8 bytes, and size is 8'),
          ('default = "abc"', 'default = "äöüß" # <- has 8 bytes'),
          ('default = "abc"', 'default = "a\\u0000" # <- control character'),
          ('default = "abc"', 'default = "a\\nb" # <- control character'),
          ('default = "abc"', 'default = 1 # <- not a string'),
          ('default = true', 'default = 1 # <- neither true nor false'),
          ('default = true', 'default = "true" # <- neither true nor false'),
          ('when = "now"', 'when = "later" # <- there are now, next, start'),
          ('type = "real"', 'type = "float" # <- there are bool'))
    special = change("default = 8", 'default = "automatic"')
    assert check(special)[0] == 0
    cases(("default = 8", 'default = "off" # <- nor the name of a special value'))
    # one mistake, not two
    cases(("automatic = 0 }", "automatic = 5 } # <- inside the range"), text=special)


def enums_and_strings():
    cases(('values = ["one", "two"]', 'values = ["one", "two", "one"] # <- is there twice'),
          ('values = ["one", "two"]', 'values = ["one", "a-b", "a_b"] # <- is there twice'),
          ('values = ["one", "two"]', 'values = ["one", "T W"] # <- lower case'),
          ('values = ["one", "two"]', 'values = ["one", 2] # <- lower case'),
          ('values = ["one", "two"]', 'values = [] # <- from 1 to 256'),
          ('values = ["one", "two"]', 'values = "one" # <- must be an array'),
          ('size = 8', 'size = 1 # <- from 2 to 4096'),
          ('size = 8', 'size = 4097 # <- from 2 to 4096'),
          ('size = 8', 'size = "8" # <- must be an integer'))
    # different names that would be the same in C
    twice = BOOL.replace('"enabled"', '"mode_one"')
    refused(TOP + twice + ENUM.replace("[[setting]]", "[[setting]] # <- KV_TUNE_MODE_ONE"))
    refused(TOP + ENUM.replace('"mode"', '"setting"').replace(
        "[[setting]]", "[[setting]] # <- can't be called 'setting'"))
    other = """
[[report]]{}
name = "mode"
kind = "gauge"
type = "enum"
values = ["{}", "two"]
help = "The mode that is effective."
"""
    refused(TOP + ENUM + other.format(" # <- other values than", "three"))
    assert check(TOP + ENUM + other.format("", "one"))[0] == 0


def groups():
    cases(('settings = ["batch", "burst"]',
           'settings = ["batch", "bursts"] # <- no setting \'bursts\''),
          ('settings = ["batch", "burst"]', 'settings = ["batch", "batch"] # <- is there twice'),
          ('settings = ["batch", "burst"]', 'settings = ["batch"] # <- two settings or more'),
          ('settings = ["batch", "burst"]', 'settings = [] # <- two settings or more'),
          ('settings = ["batch", "burst"]', 'settings = [1, 2] # <- no setting 1 & no setting 2'),
          ('rule = "batch <= burst"', 'rule = "batch =< burst" # <- is not NAME OP NAME'),
          ('rule = "batch <= burst"',
           'rule = "batch <= 16" # <- \'16\' is no setting of the group'),
          ('rule = "batch <= burst"', 'rule = "batch <= burst + 1" # <- is not NAME OP NAME'),
          ('rule = "batch <= burst"', 'rule = "" # <- is not NAME OP NAME'),
          ('rule = "batch <= burst"', 'rule = "batch <= share" # <- no setting of the group'),
          ('rule = "batch <= burst"', 'rule = "batch <= batch" # <- with itself'),
          ('rule = "batch <= burst"',
           'rule = "batch > burst" # <- does not hold for the defaults, 8 and'),
          ('rule = "batch <= burst"', 'rule = "batch == burst" # <- does not hold'))
    refused(TOP + SETTING + SECOND.replace('"now"', '"start"') + GROUP.replace(
        '"burst"]', '"burst"] # <- only at start'))
    refused(TOP + SETTING + SECOND.replace('"ops"', '"calls"') + GROUP.replace(
        '= burst"', '= burst" # <- the units are'))
    refused(TOP + SETTING + ENUM + GROUP.replace("burst", "mode").replace(
        '= mode"', '= mode" # <- both must be integers'))
    # a default that is a special value breaks no rule
    assert check(TOP + SETTING + SECOND.replace("default = 16", "default = 0") + GROUP)[0] == 0


def reports():
    cases(('kind = "counter"', 'kind = "meter" # <- there are counter, gauge'),
          ('kind = "counter"', 'kind = "counter"\ntype = "real" # <- a counter has type integer'),
          ('kind = "counter"\nunit = "calls"',
           'kind = "histogram"\ntype = "integer" # <- has type histogram'),
          ('unit = "calls"', 'unit = "calls"\naggregate = "mean" # <- has aggregate sum'),
          ('kind = "counter"\nunit = "calls"',
           'kind = "histogram"\nunit = "us" # <- has nanoseconds'),
          ('kind = "counter"\nunit = "calls"',
           'kind = "text"\nsize = 8\nunit = "calls" # <- string has no unit'),
          ('kind = "counter"\nunit = "calls"',
           'kind = "gauge"\ntype = "bool"\naggregate = "sum" # <- bool has aggregate last'))
    gauge = REPORT.replace("counter", "gauge").replace('unit = "calls"\n', "")
    refused(TOP + gauge.replace('"calls"', '"calls_total"').replace(
        "[[report]]", "[[report]] # <- leat_kv_calls_total ends as no gauge may"))
    refused(TOP + REPORT.replace('"calls"\nkind', '"busy_ns"\nkind').replace('"calls"', '"ns"')
            + REPORT.replace('"calls"\nkind', '"busy_us"\nkind').replace('"calls"', '"us"').replace(
                "[[report]]",
                "[[report]] # <- metric leat_kv_busy_seconds is that of 'busy_ns', too"))


def sizes():
    many = "".join(BOOL.replace("enabled", f"b{i}") for i in range(64))
    assert check(TOP + many)[0] == 0
    refused(TOP + many + BOOL.replace("[[setting]]", "[[setting]] # <- 65 settings"))
    calls = "".join(REPORT.replace('"calls"\nkind', f'"c{i}"\nkind') for i in range(64))
    refused(TOP + calls + REPORT.replace("[[report]]", "[[report]] # <- 65 reports"))
    texts_ = "".join(STRING.replace("label", f"s{i}").replace("size = 8", "size = 4096")
                     for i in range(4))
    assert check(TOP + texts_)[0] == 0
    refused(TOP + texts_ + BOOL.replace("[[setting]]", "[[setting]] # <- 16392 bytes"))
    line = TOP.replace("title", "one_cache_line = true\ntitle")
    eight = "".join(REAL.replace("share", f"r{i}") for i in range(8))
    assert check(line + eight)[0] == 0
    refused(line.replace("= true", "= true # <- 72 bytes in C") + eight + BOOL)


def all_at_once():
    refused(TOP.replace('"Keys"', '"" # <- empty')
            + SETTING.replace("default = 8", "default = 0.5 # <- "
            "neither a number").replace('"now"', '"soon" # <- there are now')
            + SECOND.replace("[1, 64]", "[9, 3] # <- empty")
            + ENUM.replace('"A mode."', '"A" # <- full')
            + GROUP.replace('"pair"', '"for" # <- word of C')
            + REPORT.replace('"counter"', '"count" # <- there are counter'))
    # in several files
    with tempfile.TemporaryDirectory() as d:
        paths = [os.path.join(d, n) for n in ("a.toml", "b.toml", "c.toml")]
        for path, text in zip(paths, (GOOD.replace("[1, 64]", "[3, 1]"), GOOD, GOOD)):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        said = gen.run("--json", *paths).stderr.splitlines()
        assert len(said) == 3, said  # one line for each file
        assert said[0].startswith(paths[0] + ":") and said[2].startswith(paths[2] + ":2:"), said


def lines_behind_texts_of_several_lines():
    """A table header inside a string is no table header."""
    refused(TOP.replace('"A table of keys."', '"""\\\n[[setting]]\\\n  name = 3."""')
            + SETTING.replace("default = 8", "default = 0x100 # <- outside"))
    refused(TOP.replace("\n", "\r\n")
            + SETTING.replace("default = 8", "default = 100 # <- outside"))


def messages():
    cases(('protocol = "pp"', 'protocol = "P" # <- lower case'),
          ('name = "second"', 'name = "first" # <- another message'),
          ('number = 2', 'number = 1 # <- that of message \'first\', too'),
          ('number = 2', 'number = 0 # <- from 1 to'),
          ('number = 2', 'number = 4294967296 # <- from 1 to'),
          ('direction = "telemetry"', 'direction = "up" # <- there are feedback'),
          ('payload = "settings"', 'payload = "all" # <- there are settings'),
          ('help = "Another."', 'help = "Another" # <- full stop'),
          ('name = "second"', 'name = "Second" # <- lower case'),
          ('fields = [{ name = "ok", type = "bool", help = "yes" }]',
           'fields = [] # <- from 1 to 64'),
          text=PROTOCOL)
    field = '    { name = "what", type = "integer", help = "a number" },'
    for new, reason in (
            ('{ name = "what", type = "uint", help = "n" }', "there are bool, integer"),
            ('{ name = "what", type = "enum", help = "n" }', "there are bool, integer"),
            ('{ name = "what", type = "integer" }', "key 'help' is missing"),
            ('{ name = "what", type = "integer", size = 4, help = "n" }', "not for integer"),
            ('{ name = "what", type = "string", help = "n" }', "key 'size' is missing"),
            ('{ name = "payload", type = "bool", help = "n" }', "word of what is made"),
            ('{ name = "for", type = "bool", help = "n" }', "word of C"),
            ('{ name = "what", type = "bool", help = "" }', "empty"),
            ('{ name = "what", type = "bool", unit = "s", help = "n" }', "unknown key 'unit'")):
        refused(change(field, f"    {new}, # <- {reason}", PROTOCOL))
    refused(change('    { name = "text",', '    { name = "what",', PROTOCOL).replace(
        'help = "a text" },', 'help = "a text" }, # <- is there twice'))
    long = "\n".join(f'    {{ name = "t{i}", type = "string", size = 4096, help = "x" }},'
                     for i in range(5))
    refused(PROTOCOL + f'\n[[message]] # <- has 20480 bytes\nname = "much"\nnumber = 9\n'
            f'direction = "feedback"\nhelp = "Long."\nfields = [\n{long}\n]\n')


if __name__ == "__main__":
    tap.main([good_ones_are_taken, syntax, keys, missing, names_of_things, texts, ranges, defaults,
              enums_and_strings, groups, reports, sizes, all_at_once,
              lines_behind_texts_of_several_lines, messages])
