# SPDX-License-Identifier: BSD-3-Clause
"""Emit the tables of a component in C, for leat_tune_schema.h."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .emit_json import compact
from .model import Component, Field, Number, Report, Setting
from .names import upper

C_TYPES = {"I64": "int64_t", "U64": "uint64_t", "U32": "uint32_t"}
COMPARES = {"<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "==": "EQ", "!=": "NE"}


def string(text: str) -> str:
    """Return a string literal. Escapes '?' as well, since two of them may begin a trigraph."""
    out = ""
    for byte in text.encode():
        ch = chr(byte)
        if ch in '"\\?':
            out += "\\" + ch
        elif 32 <= byte < 127:
            out += ch
        else:
            out += f"\\{byte:03o}"
    return f'"{out}"'


def long_string(text: str, indent: str = "\t") -> str:
    """Return a long string as string literals of 80 bytes, one per line."""
    data = [text[i:i + 80] for i in range(0, len(text), 80)] or [""]
    return "\n".join(indent + string(part) for part in data)


def integer(value: int) -> str:
    if value == -(1 << 63):
        return "INT64_MIN"
    return f"INT64_C({value})"


def real(value: float) -> str:
    return repr(float(value))


def comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def _c_field(c: Component, f: Field) -> str:
    if f.type == "bool":
        declaration = f"bool {f.name};"
    elif f.type == "integer":
        declaration = f"{C_TYPES[f.c_kind]} {f.name};"
    elif f.type == "real":
        declaration = f"double {f.name};"
    elif f.type == "enum":
        declaration = f"uint32_t {f.name};"
    elif f.type == "string":
        declaration = f"char {f.name}[{f.size}];"
    else:
        declaration = f"struct leat_tune_histogram {f.name};"
    notes = [f"enum {c.name}_tune_{f.name}"] if f.type == "enum" else [f.unit] if f.unit else []
    if isinstance(f, Setting):
        if f.min is not None:
            notes.append(f"{f.min} to {f.max}")
        notes += [f"{value}: {name}" for name, value in f.special.items()]
    about = comment(f.help) + (f" ({'; '.join(notes)})" if notes else "")
    return f"\t/** {about} */\n\t{declaration}\n"


def _enums(c: Component) -> Iterable[str]:
    seen = set()
    for f in [*c.settings, *c.reports]:
        if f.type != "enum" or f.name in seen:
            continue
        seen.add(f.name)
        prefix = upper(c.name, "tune", f.name)
        yield f"/** Values of {f.name}. */\nenum {c.name}_tune_{f.name} {{\n" + "".join(
            f"\t{upper(prefix, v)}{' = 0' if i == 0 else ''},\n"
            for i, v in enumerate(f.values)) + "};\n"


def header(c: Component) -> str:
    """Return NAME_tune.h."""
    guard = upper(c.name, "tune_h")
    out = ["/* Made by leat-tune-gen of the description of "
           f"{c.name}: change that. */\n\n#ifndef {guard}\n#define {guard}\n\n"
           "#include <leat_tune_schema.h>\n\n"
           "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"]
    if c.settings:
        out.append(
            f"/** Settings by number: the bits of a mask. */\nenum {c.name}_tune_setting {{\n"
            + "".join(
                f"\t{upper(c.name, 'tune', s.name)}{' = 0' if i == 0 else ''},\n"
                for i, s in enumerate(c.settings)
            )
            + f"\t{upper(c.name)}_TUNE_NB_SETTINGS\n}};\n"
        )
    out += _enums(c)
    for what, fields in (("settings", c.settings), ("report", c.reports)):
        if fields:
            out.append(f"/** {comment(c.title)}: {what}. */\nstruct {c.name}_tune_{what} {{\n"
                       + "".join(_c_field(c, f) for f in fields) + "};\n")
    if c.one_cache_line:
        out.append(f"#ifdef __cplusplus\nstatic_assert\n#else\n_Static_assert\n#endif\n"
                   f"\t(sizeof(struct {c.name}_tune_settings) <= LEAT_CACHE_LINE, "
                   "\"one_cache_line\");\n")
    out.append(f"extern const struct leat_tune_schema {c.name}_tune_schema;\n")
    out.append(f"#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n")
    return "\n".join(out)


def _strings(name: str, values: Sequence[str]) -> str:
    return (f"static const char *const {name}[] = {{\n"
            + "".join(f"\t{string(v)},\n" for v in values) + "};\n")


def _special(f: Setting) -> str:
    def one(name: str, value: Number) -> str:
        if f.type == "integer":
            return f"\t{{ .name = {string(name)}, .value = {integer(int(value))} }},\n"
        return f"\t{{ .name = {string(name)}, .real = {real(value)} }},\n"

    return (f"static const struct leat_tune_special specials_{f.name}[] = {{\n"
            + "".join(one(n, v) for n, v in f.special.items()) + "};\n")


def _table_row(c: Component, what: str, f: Field) -> str:
    struct = f"struct {c.name}_tune_{what}"
    row = [f".name = {string(f.name)}", f".type = LEAT_TUNE_{f.type.upper()}"]
    if f.type == "integer":
        row.append(f".kind = LEAT_TUNE_{f.c_kind}")
    row += [f".c_offset = offsetof({struct}, {f.name})",
            f".c_size = sizeof((({struct} *)0)->{f.name})",
            f".offset = {f.offset}", f".size = {f.bytes}"]
    if f.unit:
        row.append(f".unit = {string(f.unit)}")
    if isinstance(f, Setting):
        row.append(f".when = LEAT_TUNE_{f.when.upper()}")
        if f.type == "integer" and f.min is not None and f.max is not None:
            row += [f".min = {integer(int(f.min))}", f".max = {integer(int(f.max))}"]
        elif f.type == "real" and f.min is not None and f.max is not None:
            row += [f".rmin = {real(f.min)}", f".rmax = {real(f.max)}"]
        if f.special:
            row += [f".specials = specials_{f.name}", f".nb_specials = {len(f.special)}"]
        if f.aliases:
            row += [f".aliases = aliases_{f.name}", f".nb_aliases = {len(f.aliases)}"]
        if f.group:
            row.append(f".group = {f.group}")
    if f.type == "enum":
        row += [f".names = names_{what}_{f.name}", f".nb_names = {len(f.values)}"]
    return "\t{\n" + "".join(f"\t\t{part},\n" for part in row) + "\t},\n"


def _groups(c: Component) -> str:
    out = "static const struct leat_tune_group groups[] = {\n"
    for g in c.groups:
        mask = sum(1 << i for i in g.settings)
        out += f"\t{{\n\t\t.name = {string(g.name)},\n\t\t.mask = UINT64_C({mask:#x}),\n"
        if g.rule:
            out += (f"\t\t.rule = {string(g.rule.text)},\n"
                    f"\t\t.compare = LEAT_TUNE_{COMPARES[g.rule.compare]},\n"
                    f"\t\t.left = {g.rule.left},\n\t\t.right = {g.rule.right},\n")
        out += "\t},\n"
    return out + "};\n"


def _default(c: Component, s: Setting) -> str:
    if s.type == "bool":
        value = "true" if s.default else "false"
    elif s.type == "enum":
        value = upper(c.name, "tune", s.name, str(s.default))
    elif s.type == "string":
        value = string(str(s.default))
    elif s.type == "real":
        value = real(float(s.default))
    else:
        value = integer(int(s.default)) if s.c_kind == "I64" else f"UINT32_C({s.default})"
    return f"\t.{s.name} = {value},\n"


def source(c: Component, header_name: str) -> str:
    """Return NAME_tune.c."""
    out = ["/* Made by leat-tune-gen of the description of "
           f"{c.name}: change that. */\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
           f"#include {string(header_name)}\n"]
    tables: list[tuple[str, Sequence[Setting | Report]]] = [("settings", c.settings),
                                                            ("report", c.reports)]
    for what, fields in tables:
        for f in fields:
            if f.type == "enum":
                out.append(_strings(f"names_{what}_{f.name}", f.values))
            if isinstance(f, Setting) and f.special:
                out.append(_special(f))
            if isinstance(f, Setting) and f.aliases:
                out.append(_strings(f"aliases_{f.name}", f.aliases))
        if fields:
            out.append(f"static const struct leat_tune_field {what}[] = {{\n"
                       + "".join(_table_row(c, what, f) for f in fields) + "};\n")
    if c.groups:
        out.append(_groups(c))
    if c.settings:
        out.append(f"static const struct {c.name}_tune_settings defaults = {{\n"
                   + "".join(_default(c, s) for s in c.settings) + "};\n")
    out.append(
        "/* C compilers must support no more than 4095 characters; all that are used do. */\n"
        "#pragma GCC diagnostic push\n"
        '#pragma GCC diagnostic ignored "-Woverlength-strings"\n'
        f"static const char json[] =\n{long_string(compact(c))};\n"
        "#pragma GCC diagnostic pop\n"
    )
    row = [f".name = {string(c.name)}", f".hash = UINT64_C({c.hash:#018x})", ".json = json",
           ".json_len = sizeof(json) - 1"]
    if c.settings:
        row += [
            f".nb_settings = {len(c.settings)}",
            ".settings = settings",
            ".defaults = &defaults",
            f".settings_c_size = sizeof(struct {c.name}_tune_settings)",
            f".settings_size = {c.settings_size}",
        ]
    if c.reports:
        row += [f".nb_reports = {len(c.reports)}", ".reports = report",
                f".reports_c_size = sizeof(struct {c.name}_tune_report)",
                f".reports_size = {c.reports_size}"]
    if c.groups:
        row += [f".nb_groups = {len(c.groups)}", ".groups = groups"]
    out.append(f"const struct leat_tune_schema {c.name}_tune_schema = {{\n"
               + "".join(f"\t{part},\n" for part in row) + "};\n")
    out.append("__attribute__((constructor)) static void\n"
               f"{c.name}_tune_register(void)\n{{\n"
               f"\tleat_tune_schema_register(&{c.name}_tune_schema);\n}}\n")
    return "\n".join(out)
