#!/usr/bin/env python3
"""Whether programs elsewhere find the installed library: the component `dev` in a folder that has moved
since, and the examples built against it as a project of their own.

usage: library_package_test.py BUILD_FOLDER TORCH_FOLDER
"""

import pathlib
import shutil
import subprocess
import sys
import unittest

import examples_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = ["custom_op", "train_by_hand"]  # of what both the op's and the trainer's headers are


def run(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Always the same, so that the compilers' cache knows what it has seen.
        cls.folder = BUILD / "library_package_test"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.prefix, first = cls.folder / "prefix", cls.folder / "first"
        installed = run("cmake", "--install", BUILD, "--component", "dev", "--prefix", first)
        assert installed.returncode == 0, installed.stdout
        first.rename(cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def configure(self, name, *options):
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        return run("cmake", "-S", self.prefix / "share/longshore/examples", "-B", self.folder / name, "-G", "Ninja",
                   "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Wall -Wextra", f"-DCMAKE_PREFIX_PATH={self.prefix}", *launcher, *options)

    def test_examples_build_and_run(self):
        configured = self.configure("build", f"-DLONGSHORE_TORCH_DIR={TORCH}")
        self.assertEqual(configured.returncode, 0, configured.stdout)
        built = run("cmake", "--build", self.folder / "build", "--target", *[f"example_{name}" for name in BUILT])
        self.assertEqual(built.returncode, 0, built.stdout)
        self.assertNotIn("warning:", built.stdout)
        self.assertFalse(examples_test.check(self.folder / "build", BUILT))

    def test_torch_is_found_as_its_own_package_is(self):
        # torch.utils.cmake_prefix_path
        found = self.configure("by_prefix", f"-DTorch_DIR={TORCH}/share/cmake/Torch")
        self.assertEqual(found.returncode, 0, found.stdout)

    def test_what_is_missing_is_said(self):
        without = self.configure("without")
        self.assertIn("expected LibTorch", " ".join(without.stdout.split()))
        self.assertNotEqual(without.returncode, 0)

    def test_another_torch_is_refused(self):
        header = self.folder / "torch/include/torch/headeronly/version.h"
        header.parent.mkdir(parents=True)
        header.write_text("".join(f"#define TORCH_VERSION_{part} 1\n" for part in ["MAJOR", "MINOR", "PATCH"]))
        other = self.configure("other", f"-DLONGSHORE_TORCH_DIR={self.folder}/torch")
        self.assertIn("is 1.1.1, expected 2.", " ".join(other.stdout.split()))
        self.assertNotEqual(other.returncode, 0)


if __name__ == "__main__":
    BUILD, TORCH = [pathlib.Path(path).resolve() for path in sys.argv[1:3]]
    unittest.main(argv=sys.argv[:1])
