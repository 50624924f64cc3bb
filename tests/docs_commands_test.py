#!/usr/bin/env python3
"""Runs the commands of README.md and docs/, and compares what they print with what the pages show.

usage: docs_commands_test.py PROGRAMS_FOLDER [PAGE...] [--long]    --long: only those marked as long

A comment right before a block of commands says what becomes of it; CONTRIBUTING.md has the words. What
a page shows of a command is its standard output and error together: "..." alone on a line stands for any
lines, within a line for any text of it; the working copy is /home/me/longshore, as in the pages.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"<!-- (run|needs)(?:: (.+))? -->$")
RUN_WORDS, NEEDED = {"long", "numbers vary"}, {"gpu", "download", "time", "yours"}
COMMAND = re.compile(r"(\$ |([A-Z_]+=\S+ +)*((build|build-cuda|scripts|tests|\.deps|\.ci|\.)/\S+|python3|pip|cmake|"
                     r"ctest|llama-cli|mpirun|srun|torchrun|hf|apt-get|git|cat|head|time|curl|source|export)( |$))")
WHY_CPU = re.compile(r"(backend:? cpu \(\d+ threads?\)), since [^\n]*")
SHOWN_ROOT = "/home/me/longshore"
LIMIT = 1800  # seconds that a block may take


class Block:
    def __init__(self, page, line, mark, text):
        self.page, self.line, self.mark, self.lines = page, line, mark, text
        self.words = set(mark[2].split(", ")) if mark and mark[2] else set()

    def name(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self):
        """Pairs of a command and the lines that are shown of it."""
        has_prompts = self.lines[0].startswith("$ ")
        found, rest = [], list(self.lines)
        while rest:
            line = rest.pop(0)
            if has_prompts and not line.startswith("$ "):
                found[-1][1].append(line)
                continue
            command = [line[2:] if has_prompts else line]
            here = re.search(r"<<'(\w+)'", line)
            while rest and (command[-1].endswith("\\") or (here and command[-1] != here[1])):
                command.append(rest.pop(0))
            if command != [""]:
                found.append(("\n".join(command), []))
        return [(command, [WHY_CPU.sub(r"\1", line) for line in shown]) for command, shown in found]


def blocks(page):
    """The indented blocks of a page, with the marks before them."""
    lines = page.read_text().split("\n")
    found, mark, text, start = [], None, [], 0
    for number, line in enumerate([*lines, "end"], 1):
        if line.startswith("    ") and (text or not lines[number - 2].strip() or MARK.match(lines[number - 2])):
            start = start or number
            text.append(line[4:])
        elif not line.strip() and text:
            text.append("")
        elif text:
            while not text[-1]:
                text.pop()
            found.append(Block(page, start, mark, text))
            mark, text, start = MARK.match(line), [], 0
        elif line.strip():
            mark = MARK.match(line)
    return found


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]


def pattern(shown, numbers_vary):
    """A regular expression for the text of the lines."""
    def of_line(line):
        parts = []
        for part in re.split(r"(\.\.\.|\d+(?:\.\d+)?(?:e[+-]?\d+)?)", line):
            if part == "...":
                parts.append(r"[^\n]*")
            elif numbers_vary and re.match(r"\d", part):
                parts.append(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
            elif numbers_vary:  # columns of them are as wide as they are
                parts.append(re.sub(r"(\\ )+", r" +", re.escape(part)))
            else:
                parts.append(re.escape(part))
        return "".join(parts) + "\n"
    return "".join(r"(?:[^\n]*\n)*" if line.strip() == "..." else of_line(line) for line in shown)


class WorkingCopy:
    """A folder in which the commands of a page do what they do in a checkout, and change nothing there."""

    def __init__(self, programs):
        # Beside the programs, since hard links stay on one file system.
        self.temporary = tempfile.TemporaryDirectory(prefix="docs_commands-", dir=programs.parent)
        self.root = pathlib.Path(self.temporary.name).resolve()
        self.tmp = self.root / "tmp"
        for folder in ["build/bin", "tmp", "runs"]:
            (self.root / folder).mkdir(parents=True)
        # Programs look for configs/ beside their own folder, so they are here themselves.
        for program in programs.iterdir():
            if program.is_file() and not program.name.startswith("bench_"):
                os.link(program.resolve(), self.root / "build/bin" / program.name)
        for name in ["configs", "longshore", "scripts", "tests"]:
            (self.root / name).symlink_to(ROOT / name)
        (self.root / "build/tests").symlink_to(programs.parent / "tests")
        shutil.copytree(ROOT / "docs", self.root / "docs")
        shutil.copy(ROOT / "README.md", self.root)
        (self.root / ".data").mkdir()
        for data in (ROOT / ".data").glob("*"):
            (self.root / ".data" / data.name).symlink_to(data)

    def run(self, block):
        """What each command printed, and its exit code."""
        script = ["cd " + str(self.root)]
        commands = block.commands()
        for number, (command, _) in enumerate(commands):
            command = command.replace("/tmp/", f"{self.tmp}/")
            script.append(f"{{ {command}\n}} >{self.tmp}/{number}.out 2>&1 </dev/null")
            script.append(f"echo $? >{self.tmp}/{number}.code")
        # The pages' numbers are those of two threads of a processor.
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run(["bash", "-c", "\n".join(script)], timeout=LIMIT, env=environment)
        found = []
        for number in range(len(commands)):
            text = (self.tmp / f"{number}.out").read_text()
            text = text.replace(f"{self.tmp}/", "/tmp/").replace(str(self.root), SHOWN_ROOT)
            # Said only when it takes long; and why it is the processor depends on the build.
            text = re.sub(r"^plan: (working out|trying many plans).*\n", "", text, flags=re.M)
            text = re.sub(r" +$", "", text, flags=re.M)
            found.append((WHY_CPU.sub(r"\1", text), int((self.tmp / f"{number}.code").read_text())))
        return found


class Marks(unittest.TestCase):
    def test_every_block_of_commands_has_one(self):
        count = 0
        for page in pages():
            for block in blocks(page):
                with self.subTest(block=block.name()):
                    if COMMAND.match(block.lines[0]):
                        self.assertTrue(block.mark, f"no <!-- run --> or <!-- needs: ... --> before {block.lines[0]!r}")
                        count += 1
                    elif block.mark:
                        self.fail(f"{block.mark[0]} before what begins with no command: {block.lines[0]!r}")
                    if block.mark:
                        self.assertLessEqual(block.words, RUN_WORDS if block.mark[1] == "run" else NEEDED)
                        self.assertTrue(block.words or block.mark[1] == "run", "needs nothing")
        self.assertGreater(count, 50)

    def test_patterns(self):
        def matches(shown, printed, numbers_vary=False):
            return re.fullmatch(pattern(shown.split("\n"), numbers_vary), printed) is not None
        self.assertTrue(matches("a 1.5 s\n...\nb", "a 1.5 s\nb\n"))
        self.assertTrue(matches("a 1.5 s\n...\nb", "a 1.5 s\nc\nd\nb\n"))
        self.assertTrue(matches("(a...), b", "(a, c), b\n"))
        self.assertFalse(matches("a 1.5 s", "a 1.6 s\n"))
        self.assertFalse(matches("a", "a\nb\n"))
        self.assertTrue(matches("a  1.5 s", "a 22 s\n", numbers_vary=True))
        self.assertFalse(matches("a 1.5 s", "a few s\n", numbers_vary=True))


class Commands(unittest.TestCase):
    def check(self, block, command, shown, printed, code):
        program = re.sub(r".*/", "", command.replace("$ ", "").split(" ")[0])
        fails = shown and any(line.startswith(program + ": ") for line in shown)
        if not fails:
            self.assertEqual(code, 0, f"{command}\nprinted\n{printed}")
        else:
            self.assertNotEqual(code, 0, command)
        if shown and not re.fullmatch(pattern(shown, "numbers vary" in block.words), printed):
            self.fail(f"{command}\nis shown to print\n" + "\n".join(shown) + f"\nand printed\n{printed}")

    def test_do_what_the_pages_show(self):
        if not (ROOT / ".data/quickstart/train.tokens").exists():
            self.skipTest("the quickstart's text is not there: scripts/quickstart_data")
        count = 0
        for page in pages():
            chosen = [block for block in blocks(page) if block.mark and block.mark[1] == "run" and
                      ("long" in block.words) == OPTIONS.long]
            if not chosen or (OPTIONS.pages and page.name not in OPTIONS.pages):
                continue
            copy = WorkingCopy(OPTIONS.programs)
            self.addCleanup(copy.temporary.cleanup)
            for block in chosen:
                before = os.times()
                printed = copy.run(block)
                took = sum(os.times()[2:4]) - sum(before[2:4])
                print(f"{took:6.1f} s of processors  {block.name()}", flush=True)
                for (command, shown), (text, code) in zip(block.commands(), printed):
                    count += 1
                    with self.subTest(block=block.name(), command=command):
                        self.check(block, command, shown, text, code)
        self.assertGreater(count, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--long", action="store_true")
    parser.add_argument("pages", nargs="*")
    OPTIONS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
