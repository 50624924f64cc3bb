#!/usr/bin/env python3
"""Checks what cmake/write_commit.cmake says of a tree, and when it writes."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "cmake/write_commit.cmake"


class BuildCommit(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        self.addCleanup(temporary.cleanup)
        self.tree = pathlib.Path(temporary.name).resolve() / "tree"
        self.output = self.tree.parent / "commit.cpp"
        (self.tree / "longshore/base").mkdir(parents=True)
        (self.tree / "cmake").mkdir()
        (self.tree / "longshore/base/a.cpp").write_text("int a;\n")
        shutil.copy(ROOT / ".gitattributes", self.tree)
        (self.tree / "cmake/archived_commit.txt").write_text("$Format:%H$\n")

    def git(self, *arguments):
        # Whatever the machine's own settings are.
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        for who in ("AUTHOR", "COMMITTER"):
            environment.update({f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@localhost"})
        return subprocess.run(["git", "-C", self.tree, *arguments], env=environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "one")
        return self.git("rev-parse", "HEAD")[:12]

    def found(self, tree=None):
        subprocess.run(["cmake", f"-DSOURCE={tree or self.tree}", f"-DOUTPUT={self.output}",
                        f"-DDEPFILE={self.output}.d", "-P", SCRIPT], check=True)
        return self.output.read_text().split('return "')[1].split('"')[0]

    def depends(self):
        return (self.output.parent / "commit.cpp.d").read_text().replace("\\\n", "").split(":", 1)[1].split()

    def test_says_the_commit_and_whether_there_are_changes(self):
        self.git("init", "--quiet")
        first = self.commit()
        self.assertEqual(self.found(), first)
        source = self.tree / "longshore/base/a.cpp"
        source.write_text("int b;\n")
        self.assertEqual(self.found(), first + "+changes")
        second = self.commit()
        self.assertNotEqual(second, first)
        self.assertEqual(self.found(), second)
        (self.tree / "notes.txt").write_text("of mine\n")  # which no build reads
        self.assertEqual(self.found(), second)
        (self.tree / "longshore/base/b.cpp").write_text("int c;\n")
        self.assertEqual(self.found(), second + "+changes")

    def test_writes_only_what_is_new_and_names_what_it_depends_on(self):
        self.git("init", "--quiet")
        self.commit()
        self.found()
        before = self.output.stat().st_mtime_ns
        self.found()
        self.assertEqual(self.output.stat().st_mtime_ns, before)
        depends = self.depends()
        for path in (self.tree / "longshore/base/a.cpp", self.tree / "longshore/base", self.tree / ".git/HEAD",
                     self.tree / ".git/logs/HEAD", self.tree / "cmake/archived_commit.txt"):
            self.assertIn(str(path), depends)

    def test_an_archive_says_its_commit(self):
        self.git("init", "--quiet")
        commit = self.commit()
        archive = self.tree.parent / "archive"
        archive.mkdir()
        packed = self.tree.parent / "a.tar"
        self.git("archive", "--output", packed, "HEAD")
        subprocess.run(["tar", "-xf", packed, "-C", archive], check=True)
        self.assertEqual(self.found(archive), commit)

    def test_what_is_neither_is_unknown(self):
        self.assertEqual(self.found(), "unknown")
        (self.tree / "cmake/archived_commit.txt").unlink()
        self.assertEqual(self.found(), "unknown")

    def test_another_project_around_it_does_not_count(self):
        subprocess.run(["git", "-C", self.tree.parent, "init", "--quiet"], check=True)
        self.assertEqual(self.found(), "unknown")


unittest.main()
