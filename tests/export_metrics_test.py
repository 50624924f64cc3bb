#!/usr/bin/env python3
"""What scripts/export_metrics makes of small files: tables, and messages. tests/transformers/tools.py has the rest."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = """\
{"step":0,"time":1764557000.123,"seconds":0.5,"loss":2.5,"grad_norm":null}
{"step":0,"time":1764557001.0,"validation_loss":2.25,"validation_losses":{"a, b":2.0}}
{"step":1,"time":1764557002.5,"seconds":0.5,"loss":2.25,"grad_norm":1.0,"checkpoint_stall_seconds":0.125,"saving":true}
"""
TABLE = """\
step,time,seconds,loss,grad_norm,validation_loss,"validation_losses/a, b",checkpoint_stall_seconds,saving
0,1764557000.123,0.5,2.5,nan,2.25,2.0,,
1,1764557002.5,0.5,2.25,1.0,,,0.125,1
"""


class ExportMetricsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.metrics = self.folder / "metrics.jsonl"
        self.metrics.write_text(RECORDS)

    def run_script(self, *arguments, **options):
        # Without packages of the user's.
        return subprocess.run([sys.executable, "-I", ROOT / "scripts/export_metrics", *arguments], text=True,
                              stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE, **options})

    def refusal(self, *arguments, code=1, **options):
        result = self.run_script(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr

    def test_a_table_has_a_row_for_each_step(self):
        for run in (self.folder, self.metrics):
            self.assertEqual(self.run_script("csv", run).stdout, TABLE)
        self.run_script("csv", self.folder, self.folder / "a.csv")
        self.assertEqual((self.folder / "a.csv").read_text(), TABLE)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"metrics.jsonl", "a.csv"})

    def test_a_line_that_is_being_written_is_left_out(self):
        self.metrics.write_text(RECORDS + '{"step":2,"lo')
        self.assertEqual(self.run_script("csv", self.folder).stdout, TABLE)

    def test_files_of_before_records_had_a_time_are_read(self):
        self.metrics.write_text('{"step":0,"loss":2.5}\n')
        self.assertEqual(self.run_script("csv", self.folder).stdout, "step,loss\n0,2.5\n")

    def test_other_files_are_refused(self):
        for line in ("x", "[]", "{}", '{"step":0,"loss":"2"}', '{"step":{},"loss":2}', '{"step":[0]}', "\xff", "\x1b[31m",
                     "[" * 100_000, '{"step":0,"a\\ud800":1}', '{"step":0,"\\u001b":1}'):
            self.metrics.write_text(RECORDS + line + "\n", encoding="latin-1")
            message = self.refusal("csv", self.folder)
            self.assertIn("metrics.jsonl:", message)
            self.assertIn("expected a record with a step and numbers", message)
            self.assertTrue(message.rstrip("\n").isprintable(), message)
        self.metrics.write_text("")
        self.assertIn("found no record of a step", self.refusal("csv", self.folder))
        self.assertIn("No such file", self.refusal("csv", self.folder / "none"))
        self.metrics.unlink()
        os.mkfifo(self.metrics)
        self.assertIn("found no regular file", self.refusal("csv", self.folder, timeout=20))

    def test_what_is_read_is_not_overwritten(self):
        self.assertIn("expected another file", self.refusal("csv", self.folder, self.metrics))
        self.assertEqual(self.metrics.read_text(), RECORDS)

    def test_what_cannot_be_written_is_said_and_nothing_is_left(self):
        with open("/dev/full", "w") as full:
            self.assertIn("No space left", self.refusal("csv", self.folder, stdout=full))
        self.assertIn("No such file", self.refusal("csv", self.folder, self.folder / "none" / "a.csv"))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["metrics.jsonl"])

    def test_arguments_are_checked(self):
        for arguments in ((), ("tsv", self.folder), ("csv",), ("wandb", self.folder), ("csv", "a", "b", "c")):
            self.assertIn("usage: ", self.refusal(*arguments, code=2))


unittest.main()
