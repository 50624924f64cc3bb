#!/usr/bin/env python3
"""What nvcc made of our custom kernels: registers, bytes on the stack, instructions, and how wide they load and store.

usage: kernel_code.py BUILD [--arch sm_90] [--kernel WORD]

BUILD is a build with CUDA. Of each kernel whose name has WORD, one line. A kernel has code for whole vectors and for
what is left over, and for every element type: loads of 16 bytes beside many narrow ones are no fault by themselves;
no wide store at all is one, and so is a stack. Wants cuobjdump and nvdisasm on PATH:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
    PATH=$PATH:$(echo /tmp/venv/lib/python3*/site-packages/nvidia/cu13/bin) tests/bench/kernel_code.py build-cuda
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys

WIDTHS = {"128": 16, "64": 8}
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]+)")
RESOURCES = re.compile(r"Function (\S+?):\n.*?REG:(\d+) STACK:(\d+)", re.S)


def said_by(*command, text=None):
    return subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, check=True).stdout


def code_of(path, arch):
    """Instructions by kernel, counted by name."""
    counts = {}
    for line in said_by("cuobjdump", "-sass", "-arch", arch, path).splitlines():
        if match := re.search(r"Function : (\S+)", line):
            of_kernel = counts.setdefault(match[1], collections.Counter())
        elif match := INSTRUCTION.search(line):
            of_kernel[match[1]] += 1
    return counts


def wide(counts, name):
    """How many of the instructions of that name move 16 and 8 bytes, and less."""
    widths = collections.Counter()
    for instruction, count in counts.items():
        first, *others = instruction.split(".")
        if first == name:
            widths[next((WIDTHS[part] for part in others if part in WIDTHS), 4)] += count
    return f"{widths[16]:4} {widths[8]:4} {widths[4]:4}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--kernel", default="")
    arguments = parser.parse_args()
    if missing := [tool for tool in ("cuobjdump", "nvdisasm") if not shutil.which(tool)]:
        sys.exit(f"kernel_code: found no {missing[0]} on PATH; see --help")
    objects = sorted(arguments.build.glob("longshore/models/CMakeFiles/*/ops/*.cu.o"))
    if not objects:
        sys.exit(f"kernel_code: found no kernels in {arguments.build}, expected a build with CUDA")
    print(f"{'regs':>4} {'stack':>5} {'instr':>6}   loads of 16, 8, less   stores of 16, 8, less")
    for path in objects:
        usage = said_by("cuobjdump", "-res-usage", "-arch", arguments.arch, path)
        resources = {name: (registers, stack) for name, registers, stack in RESOURCES.findall(usage)}
        code = code_of(path, arguments.arch)
        names = dict(zip(code, said_by("c++filt", "-p", text="\n".join(code)).splitlines()))
        for mangled, counts in code.items():
            name = re.sub(r"^run_block<(.*?) ?>$", r"\1", names[mangled].replace("longshore::models::", ""))
            if arguments.kernel not in name:
                continue
            registers, stack = resources.get(mangled, ("?", "?"))
            print(f"{registers:>4} {stack:>5} {counts.total():6}   {wide(counts, 'LDG')}         {wide(counts, 'STG')}"
                  f"   {path.name.removesuffix('.o')}: {name}")


main()
