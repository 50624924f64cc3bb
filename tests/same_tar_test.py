#!/usr/bin/env python3
"""Checks that scripts/common.sh's same_tar gives the same bytes for the same files, whoever made them and when."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
COMMON = pathlib.Path(__file__).resolve().parent.parent / "scripts/common.sh"


def packed(folder):
    return subprocess.run(["bash", "-c", 'source "$0" && same_tar "$1" a 1700000000 -J', COMMON, folder], check=True,
                          stdout=subprocess.PIPE).stdout


class SameTar(unittest.TestCase):
    def make(self, folder, names, mode, time, text="text"):
        (folder / "a").mkdir(parents=True)
        for name in names:
            file = folder / "a" / name
            file.write_text(f"{name} {text}")
            file.chmod(mode)
            os.utime(file, (time, time))
        os.utime(folder / "a", (time, time))
        return packed(folder)

    def test_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory(prefix="longshore-") as temporary:
            folder = pathlib.Path(temporary)
            first = self.make(folder / "1", ["x", "y", "Z"], 0o755, 1_600_000_000)
            self.assertEqual(first, self.make(folder / "2", ["Z", "y", "x"], 0o700, 1_650_000_000))
            self.assertNotEqual(first, self.make(folder / "3", ["x", "y", "Z"], 0o644, 1_600_000_000))
            self.assertNotEqual(first, self.make(folder / "4", ["x", "y", "Z"], 0o755, 1_600_000_000, "other"))


unittest.main()
