#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Doxygen's input filter: filter.py FILE, the text on standard output.

Headers: Doxygen 1.9 makes links to members of unions without a name, but not the targets of these
links. So the first and last lines of such unions are removed; their members stay.

Markdown: the guides are written for readers of the repository. Doxygen names sections and files in
its own way, so
  - each heading gets the label that the guides' links use (#the-search), prefixed with the file's
    name, because Doxygen's labels must be unique in the whole site;
  - a link to a section becomes a reference to that label;
  - a link to something that is not in the site (an example, CHANGELOG.md) becomes its path;
  - a code span that Doxygen would garble is written in another way: Doxygen takes a single quote
    for the end of a span with single backticks, shows the backslash before a | in a table, and
    takes the % off a word.
"""

import os
import re
import sys

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
# Backticks, text without an empty line, and as many backticks.
CODE = re.compile(r"(?<!`)(`+)(?!`)((?:[^\n]|\n(?!\s*\n))+?)(?<!`)\1(?!`)")
SPECIAL = re.compile(r"[\\@&$#<>%\"*_-]")
UNION = re.compile(r"^([ \t]*)union \{\n(.*?)^\1\};$", re.M | re.S)
FENCE = re.compile(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$)", re.M | re.S)


def slug(heading):
    """The label of a heading, as renderers of Markdown make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Labels:
    """The labels of a file's headings, in their order: the second of two equal ones ends in -1."""

    def __init__(self):
        self.seen = {}

    def next(self, heading):
        fragment = slug(heading)
        count = self.seen.get(fragment, 0)
        self.seen[fragment] = count + 1
        return f"{fragment}-{count}" if count else fragment


def label(path, fragment=None):
    name = os.path.splitext(os.path.basename(path))[0]
    return f"guide-{name}" + (f"-{fragment}" if fragment else "")


def code(match):
    """Write a code span so that Doxygen shows it as renderers of Markdown do."""
    marks, text = match.groups()
    in_table = match.string.startswith("|", match.string.rfind("\n", 0, match.start()) + 1)
    if (in_table and r"\|" in text) or re.search(r"%\w", text):
        parts = text.split(r"\|") if in_table else [text]
        return "<code>" + r"\|".join(SPECIAL.sub(r"\\\g<0>", part) for part in parts) + "</code>"
    return f"``{text}``" if "'" in text and marks == "`" else match.group(0)


class Markdown:
    def __init__(self, path):
        self.path = path
        self.directory = os.path.dirname(os.path.abspath(path))
        self.top = os.path.dirname(os.path.dirname(self.directory))
        self.labels = Labels()

    def in_site(self, target):
        """Is that Markdown file a page of the site?"""
        parts = os.path.relpath(target, self.top).split(os.sep)
        return (len(parts) == 3 and parts[:2] in (["doc", "guide"], ["doc", "drivers"])
                and target.endswith(".md") and os.path.isfile(target))

    def link(self, match):
        text, target = match.groups()
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        path, _, fragment = target.partition("#")
        full = os.path.normpath(os.path.join(self.directory, path)) if path else self.path
        if not path or self.in_site(full):
            title = " ".join(text.split()).replace("`", "").replace('"', "'")
            return f'@ref {label(full, fragment)} "{title}"'
        return f"{text} (`{os.path.relpath(full, self.top)}`)"

    def heading(self, marks, text):
        first = not self.labels.seen and marks == "#"
        fragment = self.labels.next(text)
        return f"{marks} {text} {{#{label(self.path, None if first else fragment)}}}"

    def text(self, text):
        """Convert text outside of code blocks: links may go over the end of a line."""
        lines = []
        for line in text.split("\n"):
            found = HEADING.match(line)
            lines.append(self.heading(*found.groups()) if found else line)
        text = IMAGE.sub(lambda m: f"![{m.group(1)}]({os.path.basename(m.group(2))})",
                         "\n".join(lines))
        return CODE.sub(code, LINK.sub(self.link, text))

    def run(self, text):
        """Convert a file: cut the text at the lines that begin and end a block of code."""
        parts = FENCE.split(text)
        return "".join(part if number % 2 else self.text(part)
                       for number, part in enumerate(parts))


def header(text):
    """Take out the first and last line of each union without a name; lines keep their numbers."""
    return UNION.sub(lambda m: "\n" + m.group(2) + m.group(1), text)


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as source:
        text = source.read()
    sys.stdout.write(Markdown(path).run(text) if path.endswith(".md") else header(text))


if __name__ == "__main__":
    main()
