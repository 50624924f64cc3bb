#!/usr/bin/env python3
"""Whether the examples print what examples/NAME.txt shows of each.

usage: examples_test.py FOLDER [NAME...]    the folder that they were built in; by default all examples

Numbers may be off by a fifth: what oneDNN takes for its products depends on the processor.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
NEAR, SMALLEST = 0.2, 2e-3


def differences(shown, printed):
    """The first line that is not as shown, if any."""
    shown_lines, printed_lines = shown.splitlines(), printed.splitlines()
    if len(shown_lines) != len(printed_lines):
        return f"prints {len(printed_lines)} lines, expected {len(shown_lines)}:\n{printed}"
    for number, (a, b) in enumerate(zip(shown_lines, printed_lines), 1):
        words = [" ".join(NUMBER.sub("#", line).split()) for line in (a, b)]
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (a, b)]
        near = all(abs(x - y) <= max(SMALLEST, NEAR * abs(x)) for x, y in zip(*numbers))
        if words[0] != words[1] or not near:
            return f"line {number} is\n{b}\nexpected\n{a}"
    return ""


def check(folder, names):
    failed = False
    for name in names:
        run = subprocess.run([folder / name], capture_output=True, text=True, timeout=120)
        found = differences((ROOT / f"examples/{name}.txt").read_text(), run.stdout)
        if run.returncode or run.stderr:
            found = f"exit code {run.returncode}\n{run.stderr}"
        print(f"{name}: {found or 'as shown'}", flush=True)
        failed |= bool(found)
    return failed


if __name__ == "__main__":
    all_names = sorted(path.stem for path in (ROOT / "examples").glob("*.cpp"))
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or all_names))
