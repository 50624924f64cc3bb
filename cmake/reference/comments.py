#!/usr/bin/env python3
"""Prints a header as Doxygen reads it: comments of `//` before a declaration, or behind one, are its
documentation, and the first of a file is the file's.

usage: comments.py HEADER
"""

import re
import sys

# A comment behind code, outside of strings.
BEHIND = re.compile(r"^((?:[^\"'/]|/(?!/)|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')*\S(?:[^\"'/]|/(?!/))*?)\s*// (.*)$")


def plain(text):
    """Words that Doxygen would take for commands, tags or links."""
    return re.sub(r"([\\@<>#%&$])", r"\\\1", text)


def converted(lines):
    before, at_start = [], True  # the comment so far that ends in the line above
    behind = None  # the column of the comment that the line above has behind its code
    for line in [*lines, ""]:
        comment = re.match(r"^( *)//(?: (.*))?$", line)
        if comment:
            if behind is not None and len(comment[1]) >= behind - 1:
                yield f"{comment[1]}///< {plain(comment[2] or '')}"
                continue
            behind = None
            before.append((comment[1], comment[2] or ""))
            continue
        is_documentation = at_start or (line.strip() and not re.match(r" *[})#]", line))
        is_section = before and before[0][1].startswith("---")
        for number, (indent, text) in enumerate(before):
            if not is_documentation or is_section:
                yield f"{indent}//"
            elif at_start and number == 0:
                yield f"/// @file\n/// {plain(text)}"
            else:
                yield f"{indent}/// {plain(text)}"
        if before or line.strip():
            at_start = False
        before = []
        match = None if line.lstrip().startswith("#") else BEHIND.match(line)
        behind = len(match[1]) + 1 if match else None
        yield f"{match[1]}  ///< {plain(match[2])}" if match else line


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(converted(header.read().split("\n"))))
