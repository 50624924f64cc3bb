#!/usr/bin/env python3
"""Completes command lines in bash, by what `completions` and `man` have made.

Usage: completion_test.py PROGRAMS_FOLDER SHARE_FOLDER
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS, SHARE = (pathlib.Path(argument).resolve() for argument in (sys.argv.pop(1), sys.argv.pop(1)))
NAMES = ["train", "plan", "compare", "report", "probe", "convert", "generate", "tokenize"]
# Outside a completion, compopt fails.
START = "compopt() { options+=\" $*\"; }\n"


def completed(lines, program=None, folder=ROOT):
    """What bash offers at the end of each line, of which the program is the first word, here PROGRAM's path."""
    script = [START]
    for line in lines:
        name, _, rest = line.partition(" ")
        command = f"{program or PROGRAMS / name} {rest}"
        script += [f"source {SHARE}/bash-completion/completions/{name}", "options=",
                   f"COMP_LINE={shlex.quote(command)} COMP_POINT=${{#COMP_LINE}}",
                   f"COMP_WORDS=({shlex.join(command.split(' '))})", "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))",
                   "_longshore" if name == "longshore" else f"_longshore_{name}",
                   "printf '%s\\n' \"${COMPREPLY[@]}\" \"options:$options\""]
    done = subprocess.run(["bash", "-c", "\n".join(script)], capture_output=True, text=True, cwd=folder, check=True)
    assert not done.stderr, done.stderr
    replies = re.split(r"^options:.*\n", done.stdout, flags=re.M)[:-1]
    return [[word for word in reply.split("\n") if word] for reply in replies]


def help_of(name):
    return subprocess.run([PROGRAMS / name, "--help"], capture_output=True, text=True, check=True).stdout


class Completion(unittest.TestCase):
    def test_offers_every_option_and_every_key(self):
        for name in NAMES:
            text = help_of(name)
            options, keys = completed([f"{name} -", f"{name} "])
            with self.subTest(program=name):
                named = set(re.findall(r"^ +(?:-h,)?(--[\w-]+)", text, re.M))
                self.assertGreaterEqual(len(named), 3)
                self.assertLessEqual(named, set(options))
                self.assertLessEqual({key + "=" for key in re.findall(r"^  (\w+) = ", text, re.M)}, set(keys))
        self.assertGreater(len(completed(["train "])[0]), 200)
        self.assertEqual(set(completed(["convert use_", "convert allow_"])[0]), {"use_multimodal="})

    def test_names_of_files_are_offered_whole_and_never_run(self):
        with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
            tree = pathlib.Path(folder)
            (tree / "configs/models").mkdir(parents=True)
            (tree / "build/bin").mkdir(parents=True)
            shutil.copy(PROGRAMS / "report", tree / "build/bin/train")
            for name in ("configs/$(touch ran).yml", "configs/`touch ran`.yml", "my model.yml", "*.yml"):
                (tree / name).touch()
            offered = completed(["train --config ", "train --config my"], "build/bin/train", tree)
            self.assertLessEqual({"$(touch ran).yml", "`touch ran`.yml", "my model.yml", "*.yml"}, set(offered[0]))
            self.assertEqual(offered[1], ["my model.yml"])
            self.assertEqual(list(tree.rglob("ran")), [])

    def test_offers_the_values_of_enumerations(self):
        words = re.findall(r"^  (\w+) = .*\[((?:[a-z]\w*, )*[a-z]\w* or [a-z]\w*)\]$", help_of("train"), re.M)
        self.assertGreater(len(words), 40)
        offered = completed([f"train {key}=" for key, _ in words])
        for (key, values), found in zip(words, offered):
            self.assertEqual(found, re.split(r", | or ", values), key)

    def test_offers_names_of_files_and_tables(self):
        recipes = sorted(path.name for path in ROOT.glob("configs/*.yml"))
        models = sorted(path.stem for path in ROOT.glob("configs/models/*.yml"))
        profiles = sorted(path.stem for path in ROOT.glob("configs/hardware/*.yml"))
        cases = {
            "train --config ": recipes,
            "train --config llama3_8b_": [name for name in recipes if name.startswith("llama3_8b_")],
            "train --config=quick": ["quickstart.yml"], "train --config quickstart.yml model_name=": models,
            "plan --hardware ": [*profiles, "all"], "plan hardware=h100": ["h100", "h100_a3"],
            "train remat_policy=qkv": ["qkv_proj_offloaded"], "train remat_policy=al": [],
            "train remat_policy=au": ["auto"],
            "compare --policies full,min": ["full,minimal", "full,minimal_with_context", "full,minimal_offloaded"],
            "compare --policies full,al": ["full,all"], "compare --sweep per_device": ["per_device_batch_size="],
            "train context=": ["remat", "device", "offload"], "train steps=": [], "train no_such_key=": [],
            "train lora_targets=q_proj,v": ["q_proj,v_proj"], "train opt_type=l": ["lion"],
            "plan --largest ": ["per_device_batch_size", "max_target_length"],
            "train chat_template=ll": ["llama2", "llama3"], "generate --chat-template ch": ["chatml"],
            "convert --dtype b": ["bfloat16"], "tokenize --teach": ["--teacher"], "train --con": ["--config"],
        }
        with tempfile.TemporaryDirectory(prefix="longshore-") as empty:
            for (line, expected), found in zip(cases.items(), completed(cases, folder=empty)):
                with self.subTest(line=line):
                    self.assertEqual(found, expected)

    def test_offers_files_and_folders(self):
        lines = ["train load_parameters_path=config", "probe --model tests/gold", "train --config READ",
                 "train chat_template=READ"]
        self.assertEqual(completed(lines), [["configs"], ["tests/goldens"], ["README.md"], ["README.md"]])
        # Nor where a value is a number or a text.
        self.assertEqual(completed(["plan --price-per-hour READ", "plan --tokens READ", "generate --prompt READ",
                                    "tokenize --train-on READ"]), [[], [], [], []])

    def test_leaves_other_programs_of_these_names_alone(self):
        with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
            other = pathlib.Path(folder) / "convert"
            other.write_text("#!/bin/sh\n")
            other.chmod(0o755)
            self.assertEqual(completed(["convert --d", "convert use"], program=other), [[], []])

    def test_finds_configs_where_they_are_installed(self):
        with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
            prefix = pathlib.Path(folder)
            (prefix / "bin").mkdir()
            (prefix / "share/longshore").mkdir(parents=True)
            (prefix / "share/longshore/configs").symlink_to(ROOT / "configs")
            (prefix / "bin/train").write_text("")
            offered = completed(["train --config quick"], program=prefix / "bin/train", folder=prefix)
            self.assertEqual(offered, [["quickstart.yml"]])

    def test_longshore_offers_programs_and_what_they_take(self):
        lines = ["plan --hardware ", "train remat_policy=", "convert --dtype b", "train --config quick", "plan -"]
        expected = completed(lines)
        self.assertTrue(all(expected))
        self.assertEqual(completed([f"longshore {line}" for line in lines]), expected)
        offered = completed(["longshore ", "longshore t", "longshore quickstart-data ", "longshore no_such "])
        self.assertEqual(offered, [[*NAMES, "quickstart-data", "export-metrics", "--help", "--version"],
                                   ["train", "tokenize"], [], []])
        launcher = (ROOT / "packaging/longshore").read_text()
        self.assertIn(f"names='{' '.join(offered[0][:-2])}'", launcher)

    def test_finds_configs_where_pip_has_them(self):
        with tempfile.TemporaryDirectory(prefix="longshore-") as folder:
            prefix = pathlib.Path(folder)
            package = prefix / "lib/python3.11/site-packages/longshore/share/longshore"
            package.mkdir(parents=True)
            (package / "configs").symlink_to(ROOT / "configs")
            (prefix / "bin").mkdir()
            (prefix / "bin/longshore").write_text("")
            offered = completed(["longshore train --config quick"], program=prefix / "bin/longshore", folder=prefix)
            self.assertEqual(offered, [["quickstart.yml"]])

    def test_zsh_reads_its_files(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        for name in [*NAMES, "longshore"]:
            subprocess.run(["zsh", "-n", SHARE / f"zsh/site-functions/_{name}"], check=True)

    def test_zsh_runs_what_longshore_completes(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        # Only within a completion are there compadd and _arguments.
        script = f"""compadd() {{ print -r -- "offered $*"; }}
            compdef() {{ }}
            _arguments() {{ print -r -- "$CURRENT $words"; }}
            source {SHARE}/zsh/site-functions/_longshore
            words=(longshore '') CURRENT=2; _longshore
            words=({PROGRAMS}/longshore plan --hard '') CURRENT=4; _longshore"""
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True)
        lines = done.stdout.split("\n")
        self.assertEqual(lines[0], f"offered -- {' '.join(NAMES)} quickstart-data export-metrics --help --version",
                         done.stderr)
        self.assertEqual(lines[1], f"3 {PROGRAMS}/longshore --hard ", done.stderr)


class ManPages(unittest.TestCase):
    def test_have_every_option_and_key(self):
        for name in NAMES:
            page = (SHARE / f"man/man1/longshore-{name}.1").read_text().replace("\\-", "-").replace("\\&", "")
            self.assertTrue(page.startswith(f".TH LONGSHORE-{name.upper()} 1 "))
            for part in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"]:
                self.assertIn(f"\n.SH {part}\n", page)
            text = help_of(name)
            for option in re.findall(r"^ +(?:-h,)?(--[\w-]+)", text, re.M):
                self.assertIn(f"\\fB{option}\\fR", page)
            for key in re.findall(r"^  (\w+) = ", text, re.M):
                self.assertIn(f"\\fB{key}\\fR = ", page)


if __name__ == "__main__":
    unittest.main()
