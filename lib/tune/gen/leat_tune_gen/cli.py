# SPDX-License-Identifier: BSD-3-Clause
"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from . import (component, emit_c, emit_c_protocol, emit_docs, emit_json, emit_metrics, emit_mlos,
               emit_python, protocol)
from .model import Component, Protocol
from .source import Mistakes, Source

EPILOG = """
A description is a TOML file of settings and reports of a component, or of the messages of a
protocol (only --c-header, --c-source and --python). All mistakes of a file are reported as
FILE:LINE: reason. Its format is described in the guide, "Descriptions of settings".

exit status: 0; 1: a description has mistakes, or a file can't be read or written; 2: wrong usage
"""

Emit = Callable[[list[Component], argparse.Namespace], str]

# By option: help, whether it takes several components at once, its function.
OUTPUTS: dict[str, tuple[str, bool, Emit]] = {
    "c-header": ("structures and enums, NAME_tune.h or NAME_protocol.h", False,
                 lambda c, _: emit_c.header(c[0])),
    "c-source": ("tables, or functions, that go with the header", False,
                 lambda c, args: emit_c.source(c[0], args.include or f"{c[0].name}_tune.h")),
    "python": ("a Python module: dataclasses with pack() and unpack()", True,
               lambda c, _: emit_python.components(c)),
    "json": ("the schema, as a process shows it to agents", True, lambda c, _: emit_json.emit(c)),
    "markdown": ("tables of settings and measurements", True,
                 lambda c, args: emit_docs.markdown(c, args.page)),
    "man": ("the same, as a part of a man page", True,
            lambda c, args: emit_docs.man(c, args.page)),
    "completion": ("a setting a line, with the names that its value may have", True,
                   lambda c, _: emit_docs.completion(c)),
    "metrics": ("names, types and units of metrics, JSON", True,
                lambda c, _: emit_metrics.emit(c)),
    "mlos": ("tunable groups for mlos_bench, JSON", True, lambda c, _: emit_mlos.emit(c)),
}


def _of_protocol(p: Protocol, args: argparse.Namespace) -> str | None:
    if args.output_kind == "c-header":
        return emit_c_protocol.header(p)
    if args.output_kind == "c-source":
        return emit_c_protocol.source(p, args.include or f"{p.name}_protocol.h")
    if args.output_kind == "python":
        return emit_python.protocol(p)
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leat-tune-gen", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Make tables, modules and documents of descriptions of settings.",
        allow_abbrev=False)
    parser.add_argument("file", nargs="+", metavar="FILE", help="a description")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; default: stdout")
    parser.add_argument("--include", metavar="NAME",
                        help="what --c-source includes, if the header has another name")
    parser.add_argument("--page", metavar="'NAME - ABOUT'",
                        help="--markdown and --man make a whole document, NAME-settings")
    outputs = parser.add_argument_group("outputs, one of them").add_mutually_exclusive_group()
    outputs.add_argument("--check", dest="output_kind", action="store_const", const="check",
                         default="check", help="only check the descriptions (default)")
    for name, (about, _, _) in OUTPUTS.items():
        outputs.add_argument(f"--{name}", dest="output_kind", action="store_const", const=name,
                             help=about)
    return parser


def _load(paths: list[str]) -> tuple[list[Component], list[Protocol]]:
    components: list[Component] = []
    protocols: list[Protocol] = []
    mistakes: list[str] = []
    for path in paths:
        try:
            source = Source.read(path)
            if "protocol" in source.values:
                protocols.append(protocol.load(source))
            else:
                components.append(component.load(source))
                if components[-1].name in [c.name for c in components[:-1]]:
                    line = source.where().keys["component"]
                    mistakes.append(
                        f"{path}:{line}: component {components[-1].name!r} is described "
                        "in another of these files, too"
                    )
        except Mistakes as e:
            mistakes += e.lines
    if mistakes:
        raise Mistakes(mistakes)
    return components, protocols


def _write(path: str | None, text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main(argv: list[str]) -> int:
    parser = _parser()
    args = parser.parse_args(argv[1:])
    if args.page is not None and " - " not in args.page:
        parser.error("--page is 'NAME - ABOUT'")
    try:
        components, protocols = _load(args.file)
        if args.output_kind == "check":
            return 0
        _, several, emit = OUTPUTS[args.output_kind]
        if protocols and (components or len(protocols) > 1):
            parser.error("a protocol is the only file of a run")
        if not several and len(args.file) > 1:
            parser.error(f"--{args.output_kind} takes one description")
        text = _of_protocol(protocols[0], args) if protocols else emit(components, args)
        if text is None:
            parser.error(f"--{args.output_kind} is not for a protocol")
        _write(args.output, text)
    except Mistakes as e:
        print(e, file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        print(f"leat-tune-gen: {e.filename or 'stdout'}: {e.strerror}", file=sys.stderr)
        return 1
    return 0
