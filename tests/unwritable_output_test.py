#!/usr/bin/env python3
"""Runs all programs where what they print cannot be written: none may end as if it had been.

Usage: unwritable_output_test.py PROGRAMS_FOLDER
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDENS = ROOT / "tests/goldens"
TOKENIZER = GOLDENS / "tokenizers/bytelevel_bpe_gpt2/tokenizer.json"
NAMES = ["train", "plan", "probe", "tokenize", "convert", "generate", "compare", "report"]
SMALL = ["--config", "quickstart.yml", "backend=cpu", "dataset_type=synthetic", "dataset_path=", "eval_dataset_path=",
         "tokenizer_path=", "base_emb_dim=16", "base_num_decoder_layers=2", "base_num_query_heads=2",
         "base_num_kv_heads=1", "head_dim=8", "base_mlp_dim=16", "max_target_length=32", "per_device_batch_size=1",
         "dtype=float32", "steps=2", "peak_tflops_per_device=1", "sample_tokens=0"]


def model(folder):
    """A folder with a model and a tokenizer of as many tokens."""
    folder.mkdir()
    config = json.loads((GOLDENS / "models/llama32_tied/config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    for name in ["model.safetensors", "generation_config.json"]:
        source = GOLDENS / "models/llama32_tied" / name
        if source.exists():
            (folder / name).symlink_to(source)
    (folder / "tokenizer.json").symlink_to(TOKENIZER)
    return folder


class UnwritableOutput(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="longshore-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.model = model(self.folder / "model")
        self.text = self.folder / "a.txt"
        self.text.write_text("A ship.\n\nA tree.\n")
        self.inputs = self.folder / "inputs.safetensors"
        header = b'{"input_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}}'
        self.inputs.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2q", 3, 4))
        self.count = 0

    def commands(self):
        """Commands that print something and end with 0 where that can be written."""
        self.count += 1
        new = self.folder / str(self.count)
        new.mkdir()
        return [
            ["train", *SMALL, f"base_output_directory={new}", "run_name=a"],
            ["report", new / "a", "--html", new / "a.html"],
            ["plan", *SMALL],
            ["plan", *SMALL, "--hardware", "rtx4090", "--json", "-"],
            ["compare", *SMALL, "--policies", "none", "--steps", "1", "--rounds", "1"],
            ["compare", *SMALL, "--policies", "none", "--steps", "1", "--rounds", "1", "--json", "-"],
            ["probe", "--model", self.model, "--inputs", self.inputs, "--out", new / "out", "backend=cpu"],
            ["tokenize", "--tokenizer", TOKENIZER, "--out", new / "a.tokens", self.text],
            ["tokenize", "--tokenizer", TOKENIZER, "--stdin-json"],
            ["convert", "--from", self.model, "--to", new / "to", "--dtype", "bfloat16"],
            ["generate", "--model", self.model, "--prompt", "a", "--max-tokens", "2", "backend=cpu"],
            *([name, option] for name in NAMES for option in ["--help", "--version"]),
        ]

    def run_with(self, command, before, **streams):
        program, *arguments = map(str, command)
        return subprocess.run([PROGRAMS / program, *arguments], preexec_fn=before, text=True, cwd=ROOT, timeout=120,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}, input='"a"\n', stderr=subprocess.PIPE,
                              **streams)

    def check(self, why, before=None, output=None):
        for command in self.commands():
            done = self.run_with(command, before, stdout=output)
            with self.subTest(command=" ".join(map(str, command))):
                message = f"{command[0]}: standard output: cannot be written: {why}"
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(message, done.stderr.split("\n"))

    def test_that_can_be_written_ends_with_0(self):
        for command in self.commands():
            done = self.run_with(command, None, stdout=subprocess.PIPE)
            with self.subTest(command=" ".join(map(str, command))):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout)

    def test_closed(self):
        self.check("Bad file descriptor", before=lambda: os.close(1))
        self.assertTrue((self.folder / "1/a/summary.json").exists())  # a run still is done and saved

    def test_on_a_full_disk(self):
        with open("/dev/full", "w") as full:
            self.check("No space left on device", output=full)
        self.assertTrue((self.folder / "1/a/summary.json").exists())

    def test_empty_values_of_options_are_not_taken_for_options_not_given(self):
        options = {"plan": ["--config", "--policies", "--hardware", "--price-per-hour", "--trace", "--json"],
                   "compare": ["--sweep", "--json", "--html", "--hardware", "--policies"], "train": ["--config"],
                   "probe": ["--out"], "convert": ["--to"], "generate": ["--chat-template"],
                   "tokenize": ["--tokenizer"], "report": ["--html"]}
        for command in self.commands():
            for option in options[command[0]] if command[1] not in ["--help", "--version"] else []:
                given = [*map(str, command)]
                if option in given:
                    given[given.index(option) + 1] = ""
                else:
                    given[1:1] = [option, ""]
                done = self.run_with(given, None, stdout=subprocess.PIPE)
                with self.subTest(command=" ".join(given)):
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(option, done.stderr)

    def test_standard_input_that_is_closed_is_no_empty_one(self):
        done = self.run_with(["tokenize", "--tokenizer", TOKENIZER, "--stdin-json"], lambda: os.close(0),
                             stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: cannot read: Bad file descriptor", done.stderr)


if __name__ == "__main__":
    unittest.main()
