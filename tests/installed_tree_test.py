#!/usr/bin/env python3
"""Installs what is built into a folder, moves it, and runs programs there: nothing may lead back to where it was built.

Usage: installed_tree_test.py BUILD
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import docs_links_test
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = ["train", "plan", "compare", "report", "probe", "convert", "generate", "tokenize", "teach"]


def run(*command, **options):
    # Without what this machine tells the loader.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, **options)


def elf_files(folder):
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Beside the build: LibTorch is half a gigabyte.
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="installed-", dir=BUILD))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        first = cls.folder / "first"
        result = run("cmake", "--install", BUILD, "--prefix", first, "--strip")
        assert result.returncode == 0, result.stdout
        cls.tree = cls.folder / "moved to" / "here"
        cls.tree.parent.mkdir()
        first.rename(cls.tree)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()

    def run_program(self, name, *arguments):
        result = run(self.tree / "bin" / name, *arguments, cwd=self.elsewhere)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_programs_say_their_version(self):
        for name in [*PROGRAMS, "longshore"]:
            text = self.run_program(name, "--version")
            self.assertRegex(text, r"^longshore 0\.[0-9.]+\ncommit ([0-9a-f]{12}(\+changes)?|unknown)\nLibTorch ")

    def test_arguments_beside_help_are_not_looked_at(self):
        for name in PROGRAMS:
            shown = self.run_program(name, "--help")
            for arguments in (["--help", "extra"], ["extra", "-h"], ["--config", "no_such_file", "--help"]):
                self.assertEqual(self.run_program(name, *arguments), shown, name)
            self.assertRegex(self.run_program(name, "extra", "--version"), r"^longshore 0\.")
            result = run(self.tree / "bin" / name, "extra", "--", "--help", cwd=self.elsewhere)
            self.assertNotIn("Usage:", result.stdout)

    def test_longshore_names_the_program_that_was_meant(self):
        for word, meant in [("trian", "; nearest: train"), ("tokenise", "; nearest: tokenize"),
                            ("gen", "; nearest: generate"), ("zzzzz", ""), ("\x1b[31m\nplna", "")]:
            result = run(self.tree / "bin/longshore", word)
            self.assertEqual(result.returncode, 2)
            shown = re.sub(r"[^\w.-]", "?", word)
            self.assertEqual(result.stdout,
                             f'longshore: found "{shown}", expected one of: train, plan, compare, report, probe, '
                             f"convert, generate, tokenize, quickstart-data, export-metrics{meant}\n"
                             "Run with --help for more information.\n")

    def test_metrics_are_exported(self):
        metrics = self.elsewhere / "metrics.jsonl"
        metrics.write_text('{"step": 1, "loss": 2.5}\n')
        self.assertEqual(self.run_program("longshore", "export-metrics", "csv", metrics), "step,loss\n1,2.5\n")

    def test_shells_and_man_know_the_programs(self):
        share = self.tree / "share"
        for name in PROGRAMS:
            if name != "teach":  # which tokenize goes on as
                self.assertIn(f"LONGSHORE\\-{name.upper()} 1",
                              (share / f"man/man1/longshore-{name}.1").read_text())
                self.assertTrue((share / f"bash-completion/completions/{name}").exists())
                self.assertTrue((share / f"zsh/site-functions/_{name}").exists())
        self.assertIn("export\\-metrics", (share / "man/man1/longshore.1").read_text())
        self.assertTrue((share / "zsh/site-functions/_longshore").exists())
        line = f"{self.tree}/bin/longshore train --config quick"
        script = (f"source '{share}/bash-completion/completions/longshore'; compopt() {{ :; }}; "
                  f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_CWORD=3 "
                  f"COMP_WORDS=('{self.tree}/bin/longshore' train --config quick); "
                  "_longshore; echo \"${COMPREPLY[@]}\"")
        self.assertEqual(run("bash", "-c", script, cwd=self.elsewhere).stdout, "quickstart.yml\n")

    def test_links_of_the_documentation_lead_somewhere(self):
        folder = self.tree / "share/doc/longshore"
        pages = [*folder.glob("*.md"), *folder.glob("docs/*.md")]
        self.assertGreater(len(pages), 30)
        for page in pages:
            for link in docs_links_test.links(page.read_text()):
                path = link.partition("#")[0]
                if path and not docs_links_test.EXTERNAL.match(link):
                    target = (page.parent / path).resolve()
                    self.assertTrue(target.is_relative_to(folder.resolve()), f"{page.name}: {link}")
                    self.assertTrue(target.exists(), f"{page.name}: {link}")

    def test_programs_load_what_was_installed(self):
        for name in PROGRAMS:
            for library, path in re.findall(r"^\s*(\S+) => (\S.*) \(0x", run("ldd", self.tree / "bin" / name).stdout,
                                            re.M):
                of_the_machine = re.match(r"lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.so", library)
                expected = "/" if of_the_machine else str(self.tree)
                self.assertTrue(os.path.realpath(path).startswith(expected), f"{name} loads {library} from {path}")
            self.assertNotIn("not found", run("ldd", self.tree / "bin" / name).stdout)

    def test_a_shipped_config_is_planned(self):
        text = self.run_program("plan", "--config", "llama2_7b.yml", "--hardware", "h100")
        self.assertIn("share/longshore/configs/llama2_7b.yml", text)

    def test_runs_go_to_the_current_folder(self):
        self.run_program(
            "longshore", "train", "--config", "quickstart.yml", "backend=cpu", "dataset_type=synthetic",
            "dataset_path=", "eval_dataset_path=", "tokenizer_path=", "base_emb_dim=16", "base_num_decoder_layers=1",
            "base_num_query_heads=2", "base_num_kv_heads=1", "head_dim=8", "base_mlp_dim=16", "max_target_length=16",
            "per_device_batch_size=1", "steps=1", "peak_tflops_per_device=1", "sample_tokens=0", "run_name=a")
        self.assertTrue((self.elsewhere / "runs/a/summary.json").exists())
        manifest = next((self.elsewhere / "runs/a/checkpoints").glob("*/manifest.json")).read_text()
        self.assertRegex(manifest, r'"product_version": *"0\.[0-9.]+, commit [0-9a-f]')

    def test_missing_data_of_the_quickstart_is_explained(self):
        result = run(self.tree / "bin/train", "--config", "quickstart.yml", cwd=self.elsewhere)
        self.assertEqual(result.returncode, 2)
        self.assertIn("longshore quickstart-data", result.stdout)

    def test_search_paths_are_relative(self):
        for file in elf_files(self.tree):
            for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "-d", file).stdout):
                for folder in path.split(":"):
                    self.assertTrue(folder.startswith("$ORIGIN"), f"{file.name}: {path}")

    def test_programs_and_libraries_are_hardened(self):
        ours = [*(self.tree / "bin" / name for name in PROGRAMS), *(self.tree / "lib").glob("liblongshore_*")]
        for file in ours:
            text = run("readelf", "--wide", "-h", "-l", "-d", "--dyn-syms", file).stdout
            self.assertRegex(text, r"Type: +DYN", file.name)
            self.assertIn("GNU_RELRO", text, file.name)
            self.assertRegex(text, r"FLAGS.*\b(BIND_NOW|NOW)\b", file.name)
            self.assertRegex(text, r"GNU_STACK +(0x[0-9a-f]+ +){5}RW ", file.name)
            self.assertIn("__stack_chk_fail", text, file.name)
            if file.parent.name == "bin":
                self.assertRegex(text, r"__(mem|str|read|[a-z]*printf)[a-z]*_chk", file.name)

    def test_no_file_names_where_it_was_built(self):
        ours = [path for path in self.tree.rglob("*") if path.is_file()
                and (path.parent.name != "lib" or path.name.startswith("liblongshore"))]
        self.assertGreater(len(ours), 50)
        for file in ours:
            content = file.read_bytes()
            for place in (ROOT, BUILD, self.folder):
                self.assertFalse(str(place).encode() in content, f"{file} names {place}")

    def test_licences_come_with_all_libraries(self):
        texts = [path.parent.name for path in (self.tree / "share/doc/longshore/licences").rglob("*") if path.is_file()]
        self.assertIn("sentencepiece", texts)
        if pathlib.Path("/etc/debian_version").exists():
            for package in ("dnnl", "yaml-cpp", "fmt", "icu", "pcre2", "zstd"):
                self.assertTrue(any(package in name for name in texts), f"{package}: {texts}")


unittest.main()
