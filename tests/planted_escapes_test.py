#!/usr/bin/env python3
"""Plants what a terminal obeys into everything that the programs read, and reads what they print.

Usage: planted_escapes_test.py PROGRAMS_FOLDER
"""

import atexit
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
GOLDENS = ROOT / "tests/goldens"
NAMES = ["train", "plan", "probe", "tokenize", "convert", "generate", "compare", "report"]

# A title, a colour, a C1 control, an override of direction, a separator, no width; and a line of its
# own, as a program of ours prints it.
PLANTED = "\x1b]0;pwn\x07\x1b[31m\x7f\u009b5m\u202e\u2028\u200b\ntrain: INJECTED\r"
LONG = PLANTED + 1_000_000 * "n"
LONGEST_ARGUMENT = PLANTED + 120_000 * "n"
SHOWN = re.compile(r"\\(x1b|u001b)\]0;pwn\\(x07|u0007)")  # how messages give it, or JSON in them

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
LONGEST_LINE = 4000  # what messages keep to; below them is a net that cuts at 8000

SHAPE = ["base_emb_dim=16", "base_num_decoder_layers=2", "base_num_query_heads=2", "base_num_kv_heads=1", "head_dim=8",
         "base_mlp_dim=16"]
SHORT = ["backend=cpu", "max_target_length=32", "per_device_batch_size=1", "dtype=float32", "steps=2",
         "peak_tflops_per_device=1", "sample_tokens=0"]
SMALL = SHAPE + SHORT
DATA = {"dataset_type": "synthetic", "dataset_path": [], "eval_dataset_path": "", "tokenizer_path": ""}
WITHOUT_SHAPE = ["--config", "quickstart.yml", *SHORT, *(f"{key}={value or ''}" for key, value in DATA.items())]
SYNTHETIC = WITHOUT_SHAPE + SHAPE


def fault_of(output):
    """What of the output is not fit for a terminal; None if all is."""
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        return f"no UTF-8: {error}"
    if found := FORBIDDEN.search(text):
        return f"{found[0]!r} in {text[max(0, found.start() - 200):found.end() + 20]!r}"
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            return f"a line of {len(line)} characters: {line[:300]!r} ... {line[-200:]!r}"
        if line.startswith("train: INJECTED"):
            return f"a line break of others in {text[:1000]!r}"
    return None


def safetensors(tensors, metadata=None):
    """tensors: (name, dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def changed(file, **values):
    """The JSON object of a file with other values; with `planted=` one more key."""
    content = json.loads(pathlib.Path(file).read_text())
    content.update(values)
    return json.dumps(content)


class Folder:
    def __init__(self, name=""):
        self.parent = pathlib.Path(tempfile.mkdtemp(prefix="longshore-"))
        self.path = self.parent / name if name else self.parent
        self.path.mkdir(exist_ok=True)
        atexit.register(shutil.rmtree, self.parent, True)

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


def model(name="", **files):
    """A folder with a model of 307 tokens and a tokenizer, of which files are others; None: absent."""
    folder = Folder(name)
    golden = GOLDENS / "models/llama32_tied"
    tokenizer = GOLDENS / "tokenizers/bytelevel_bpe_gpt2/tokenizer.json"
    for file in [golden / "config.json", golden / "model.safetensors", tokenizer]:
        shutil.copy(file, folder.path)
    for name, content in files.items():
        name = {"index": "model.safetensors.index.json", "weights": "model.safetensors"}.get(name, name + ".json")
        if content is None:
            (folder.path / name).unlink()
        else:
            folder.write(name, content)
    return folder.path


class PlantedEscapes(unittest.TestCase):
    def setUp(self):
        self.cases = []

    def case(self, program, *arguments, shows=True, environment=None, code=None, folder=None):
        """Of what `program` is to print; `shows`, if what is planted is to be in it, as an escape."""
        self.cases.append((program, arguments, shows, environment or {}, code, folder))

    def run_case(self, case):
        program, arguments, shows, environment, code, folder = case
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        encoded = {os.fsencode(k): v.encode() for k, v in variables.items()}
        command = [str(PROGRAMS / program).encode(), *(str(a).encode() for a in arguments)]
        done = subprocess.run(command, env=encoded, cwd=folder or ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        fault = fault_of(done.stdout)
        if fault is None and done.returncode not in ([0, 1, 2] if code is None else [code]):
            fault = f"exit code {done.returncode}: {done.stdout[-600:]!r}"
        if fault is None and shows and not SHOWN.search(done.stdout.decode()):
            fault = f"what is planted is not shown: {done.stdout[:600]!r}"
        named = " ".join(str(a)[:200] for a in arguments)
        return fault and f"{program} {named!r} {str(environment)[:200]}\n    {fault}"

    def tearDown(self):
        with ThreadPoolExecutor(2) as pool:
            faults = [fault for fault in pool.map(self.run_case, self.cases) if fault]
        self.assertTrue(self.cases)
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def on_model(self, folder, shows=True, programs=("train", "generate", "convert", "probe")):
        """Runs what reads a model's folder."""
        target = Folder().path
        inputs = target / "inputs.safetensors"
        inputs.write_bytes(safetensors([("input_ids", "I64", [1, 2], struct.pack("<2q", 3, 4))]))
        commands = {
            "train": [*WITHOUT_SHAPE, f"load_parameters_path={folder}", "model_name=",
                      f"base_output_directory={target}"],
            "generate": ["--model", folder, "--prompt", "a", "--max-tokens", "1", "backend=cpu"],
            "convert": ["--from", folder, "--to", target / "to", "--dtype", "float32"],
            "probe": ["--model", folder, "--inputs", inputs, "--out", target / "out", "backend=cpu"],
        }
        for program in programs:
            self.case(program, *commands[program], shows=shows)

    def test_keys_and_values_of_a_models_config(self):
        config = GOLDENS / "models/llama32_tied/config.json"
        long = LONG[:900_000]  # so that the file is not too large
        folder = model(config=changed(config, **{long: 1}))
        self.on_model(folder)
        self.case("train", *WITHOUT_SHAPE, f"load_parameters_path={folder}", "model_name=",
                  "allow_unknown_config_keys=true", f"base_output_directory={Folder().path}", "run_name=a", code=0)
        for values in [{"model_type": long}, {"vocab_size": long}, {"rope_parameters": {"rope_type": long}}]:
            self.on_model(model(config=changed(config, **values)), programs=["probe"])

    def test_tensor_names_metadata_and_the_files_of_an_index(self):
        self.on_model(model(weights=safetensors([(LONG, "F32", [1], bytes(4))], {LONG: LONG})))
        self.on_model(model(weights=safetensors([(LONG, LONG, [1], bytes(4))])), programs=["probe"])
        self.on_model(model(weights=struct.pack("<Q", 40) + PLANTED.encode()[:40]), programs=["probe"], shows=False)
        for index in [{"weight_map": {"a": LONG + ".safetensors"}}, {"weight_map": {LONG: 1}},
                      {"weight_map": {"a": PLANTED + ".safetensors"}}]:
            self.on_model(model(weights=None, index=json.dumps(index)), programs=["convert"])

    def test_an_adapter(self):
        folder = model()
        golden = GOLDENS / "models/lora_llama/adapter_config.json"
        content = json.loads(golden.read_text()) if golden.exists() else {}
        content = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4,
                   "target_modules": ["q_proj"], **content}
        target = Folder().path
        long = LONG[:900_000]  # so that the file is not too large
        for index, values in enumerate([{long: True}, {"target_modules": "(" + long}, {"rank_pattern": {"(" + long: 2}},
                                        {"alpha_pattern": {"(" + long: 3}}, {"bias": long}, {}]):
            adapter = Folder()
            adapter.write("adapter_config.json", json.dumps({**content, **values}))
            adapter.write("adapter_model.safetensors", safetensors([(LONG, "F32", [1], bytes(4))], {LONG: LONG}))
            self.case("convert", "--from", folder, "--adapter", adapter.path, "--to", target / str(index))
        self.case("generate", "--model", folder, "--adapter", adapter.path, "--prompt", "a", "backend=cpu")
        self.case("train", *WITHOUT_SHAPE, "model_name=", f"load_parameters_path={folder}", "run_name=a",
                  f"load_adapter_path={adapter.path}", f"base_output_directory={target}")

    def test_a_tokenizer_and_the_files_beside_it(self):
        golden = GOLDENS / "tokenizers/bytelevel_bpe_gpt2/tokenizer.json"
        content = json.loads(golden.read_text())
        token = dict(content["added_tokens"][0], content=LONG, id=299)
        model_of = lambda **values: {"model": {**content["model"], **values}}  # noqa: E731
        split = {"type": "Split", "pattern": {"Regex": "(" + LONG}, "behavior": "Isolated", "invert": False}
        byte_level = {**content["pre_tokenizer"], "use_regex": False}
        variants = [
            {"added_tokens": [token]}, {"added_tokens": [{**token, "id": LONG}]}, {"version": LONG},
            {"normalizer": {"type": LONG}}, {"decoder": {"type": LONG}},
            {"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": LONG, "type_id": 0}}],
                                "pair": [], "special_tokens": {LONG: {"id": LONG, "ids": [LONG], "tokens": [LONG]}}}},
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}}, model_of(type=LONG),
            model_of(vocab={LONG: LONG}), model_of(merges=[LONG]), model_of(merges=[[LONG, LONG]]),
        ]
        unshown = [{LONG: 1}, {"pre_tokenizer": {"type": LONG}}, model_of(vocab={LONG: 1}), model_of(**{LONG: LONG}),
                   model_of(unk_token=LONG)]
        for values in variants + unshown:
            folder = Folder()
            folder.write("tokenizer.json", json.dumps({**content, **values}))
            self.case("tokenize", "--tokenizer", folder.path, "--stdin-json", shows=values not in unshown)
        for file, values in [("tokenizer_config", {"eos_token": LONG, LONG: LONG}),
                             ("generation_config", {"eos_token_id": LONG})]:
            folder = model(**{file: json.dumps({**values, "chat_template": LONG})})
            self.case("generate", "--model", folder, "--prompt", "a", "--max-tokens", "1", "backend=cpu")
            self.case("convert", "--from", folder, "--to", Folder().path / "to", "--dtype", "float32", shows=False)
        damaged = (GOLDENS / "tokenizers/sp_bpe/tokenizer.model").read_bytes()
        for bytes_ in [LONG.encode(), damaged[:3000] + PLANTED.encode() + damaged[3000:]]:
            folder = Folder()
            file = folder.write("tokenizer.model", bytes_)
            self.case("tokenize", "--tokenizer", file, "--stdin-json", shows=False)

    def test_examples(self):
        tokenizer = GOLDENS / "tokenizers/bytelevel_bpe_qwen"
        shown = [{LONG: 1}, {"messages": [{"role": LONG, "content": ""}]},
                 {"messages": [{"role": "user", LONG: 1}]}]
        unshown = [{"text": 1, LONG: 2}, LONG, {"prompt": LONG, "completion": {LONG: LONG}}, {"text": [LONG]}]
        for line in shown + unshown:
            folder = Folder()
            file = folder.write("a.jsonl", json.dumps(line) + "\n")
            self.case("tokenize", "--tokenizer", tokenizer, "--out", folder.path / "out", "--chat-template", "chatml",
                      file, shows=line in shown)
        self.case("train", "--config", "quickstart.yml", *SMALL, "vocab_size=409", "dataset_type=documents",
                  "eval_dataset_path=", f"dataset_path={Folder().write('a.jsonl', json.dumps(shown[0]))}",
                  f"tokenizer_path={tokenizer}", "chat_template=chatml", f"base_output_directory={folder.path}")
        folder = Folder()
        self.case("tokenize", "--tokenizer", tokenizer, "--out", folder.path / "out",
                  folder.write("a.jsonl", f'{{"text": "{PLANTED}"}}'), shows=False)

    def test_chat_templates(self):
        line = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
        tokenizer = (GOLDENS / "tokenizers/bytelevel_bpe_qwen/tokenizer.json").read_text()
        planted = json.dumps(PLANTED)
        for template in (f"{{{{ raise_exception({planted}) }}}}", f"{{{{ x.{PLANTED} }}}}", f"{{{{ 'a' | {PLANTED} }}}}",
                         f"{{{{ {planted} + 1 }}}}"):
            folder = Folder()
            folder.write("tokenizer.json", tokenizer)
            folder.write("chat_template.jinja", template)
            self.case("tokenize", "--tokenizer", folder.path, "--out", folder.path / "out",
                      folder.write("a.jsonl", line), shows=False)

    def test_keys_and_values_of_a_config(self):
        planted = json.dumps(PLANTED)
        printed = subprocess.run([PROGRAMS / "train", "--help"], text=True, stdout=subprocess.PIPE, check=True).stdout
        keys = re.findall(r"^  (\w+) = ", printed, re.M)
        self.assertGreater(len(keys), 50)
        folder = Folder()
        small = "".join(setting.replace("=", ": ") + "\n" for setting in SMALL)
        shown = [f"a: b\n{planted}: [{planted}]\n{planted}: c\n", f"base_config: {planted}\n",
                 f"a: &{'n' * 3000} b\n{planted}: !<{'n' * 3000}> b\n",
                 f"{small}vocab_size: 9\ndataset_type: documents\ndataset_path: [{planted}]\n"]
        for start in range(0, len(keys), 40):  # that many faults are listed
            shown.append("".join(f"{key}: {planted}\n" for key in keys[start:start + 40] if key != "model_name"))
        unshown = [f"? {json.dumps(LONG[:900_000])}\n: 3\n", f"{small}{planted}: 'b"]
        for index, text in enumerate(shown + unshown):
            file = folder.write(f"{index}.yml", text)
            self.case("train", "--config", file, shows=text in shown and index != 2)
            if index == 0:
                self.case("plan", "--config", file)
                self.case("compare", "--config", file, "--policies", "none")
        for values in [{"run_name": PLANTED}, {"base_output_directory": f"{folder.path}/{PLANTED}", "run_name": "a"},
                       {"hardware": PLANTED, "remat_policy": "auto"}, {"remat_policy": PLANTED},
                       {"load_full_state_path": PLANTED}, {"trainable_parameters_mask": ["(" + PLANTED]}]:
            config = {**DATA, "base_config": f"{ROOT}/configs/quickstart.yml",
                      "base_output_directory": str(folder.path), **values}
            text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
            self.case("train", "--config", folder.write(f"{'-'.join(values)}.yml", text), *SMALL, folder=folder.path)
        for index, text in enumerate([f"{planted}: 3\n", f"target: {planted}\n"]):
            self.case("plan", "--config", "quickstart.yml", "--hardware", folder.write(f"profile{index}.yml", text))

    def test_arguments(self):
        for program in NAMES:
            self.case(program, "--" + LONGEST_ARGUMENT, LONGEST_ARGUMENT)
        for program, *arguments in [
                ("generate", "--prompt", "a", "--model", PLANTED), ("generate", "--max-tokens", LONGEST_ARGUMENT),
                ("convert", "--dtype", PLANTED), ("tokenize", "--tokenizer", LONGEST_ARGUMENT), ("tokenize", PLANTED),
                ("train", "--config", PLANTED)]:
            self.case(program, *arguments)
        for argument in [f"{LONGEST_ARGUMENT}=1", f"steps={LONGEST_ARGUMENT}"]:
            self.case("train", "--config", "quickstart.yml", argument, shows="steps" not in argument)
        plan = ["--config", "quickstart.yml", *SMALL, "--hardware", "rtx4090"]
        for option, value in [("--policies", PLANTED), ("--largest", LONGEST_ARGUMENT),
                              ("--price-per-hour", PLANTED + "=3"), ("--json", PLANTED + "/a")]:
            self.case("plan", *plan, option, value)
        for option, value in [("--sweep", LONGEST_ARGUMENT), ("--html", PLANTED + "/a")]:
            self.case("compare", "--config", "quickstart.yml", *SMALL, "--policies", "none", option, value)
        self.case("compare", *SYNTHETIC, "--policies", "none", "--steps", "1", "--rounds", "1",
                  "--sweep", "sample_prompt=\u202e]0;,b", shows=False, code=0)

    def test_the_environment(self):
        mine = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        for name in ["RANK", "WORLD_SIZE", "MASTER_PORT"]:
            self.case("train", *SYNTHETIC, environment={**mine, name: LONGEST_ARGUMENT})
        self.case("train", *SYNTHETIC, environment={**mine, "MASTER_ADDR": PLANTED}, shows=False)
        self.case("generate", "--model", ROOT, "--prompt", "a", environment={"SLURM_PROCID": PLANTED,
                                                                             "SLURM_STEP_NUM_TASKS": "2"})
        self.case("plan", "--config", "quickstart.yml", environment={"OMP_NUM_THREADS": LONGEST_ARGUMENT})
        others = ["CUDA_VISIBLE_DEVICES", "OMP_THREAD_LIMIT", "LOCAL_WORLD_SIZE", "TMPDIR", "HOME", "LANG", "TERM",
                  "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_SCHEDULE", "OMP_PROC_BIND"]
        self.case("plan", "--config", "quickstart.yml", *SMALL, shows=False, environment=dict.fromkeys(others, PLANTED))

    def test_folders_and_files(self):
        folder = model(PLANTED)
        target = Folder(PLANTED).path
        inputs = target / (PLANTED + ".safetensors")
        inputs.write_bytes(safetensors([("input_ids", "I64", [1, 2], struct.pack("<2q", 3, 4))]))
        text = target / (PLANTED + ".txt")
        text.write_text("a b c d e f g h i j k l m n o p q r s t u v w x y z\n\n" * 20)
        self.case("convert", "--from", folder, "--to", target / "to", "--dtype", "float32", code=0)
        self.case("generate", "--model", folder, "--prompt", "a", "--max-tokens", "1", "backend=cpu", code=0)
        self.case("generate", "--model", target, "--prompt", "a", "backend=cpu")
        self.case("probe", "--model", folder, "--inputs", inputs, "--out", target / "out", "backend=cpu", code=0)
        self.case("tokenize", "--tokenizer", folder, "--out", target / "a.tokens", text, code=0)
        self.case("tokenize", "--tokenizer", target, "--stdin-json")
        self.case("tokenize", "--tokenizer", folder, "--out", target, text)
        hardware = target / (PLANTED + "2.yml")
        shutil.copy(ROOT / "configs/hardware/rtx4090.yml", hardware)
        quickstart = f"base_config: {ROOT}/configs/quickstart.yml\n"
        config = target / (PLANTED + ".yml")
        config.write_text(f"{quickstart}hardware: {json.dumps(str(hardware))}\n")
        self.case("plan", "--config", config, *SMALL, code=0)
        config = target / (PLANTED + "3.yml")
        for key, value in [("dataset_path", [str(text)]), ("eval_dataset_path", str(text)), ("run_name", "b"),
                           ("tokenizer_path", str(folder)), ("base_output_directory", str(target))]:
            quickstart += f"{key}: {json.dumps(value)}\n"
        config.write_text(quickstart)
        self.case("train", "--config", config, *SMALL, "dataset_type=documents", code=0)


class PlantedInRuns(unittest.TestCase):
    """What follows another command."""

    def run_program(self, program, *arguments, code=0):
        done = subprocess.run([str(PROGRAMS / program).encode(), *(str(a).encode() for a in arguments)], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout[-2000:])
        self.assertIsNone(fault_of(done.stdout))
        return done.stdout.decode()

    def test_a_run_of_another(self):
        output = Folder().path
        command = [*(word for word in SYNTHETIC if word != "steps=2"), "vocab_size=320", "run_name=a",
                   f"base_output_directory={output}"]
        self.run_program("train", *command, "steps=2")
        run = output / "a"
        for file in ["summary.json", "metrics.jsonl"]:
            (run / file).write_text(json.dumps({LONG: LONG}) + "\n")
        self.run_program("train", *command, "steps=3")
        manifest = sorted(run.glob("checkpoints/*/manifest.json"))[-1]
        whole = json.loads(manifest.read_text())
        foreign = {key: dict.fromkeys(value, LONG) if isinstance(value, dict) else value
                   for key, value in whole.items()}
        for text in [json.dumps(foreign), json.dumps({**whole, "product_version": LONG}), LONG,
                     json.dumps(whole).replace(".safetensors", "\\u001b\\n.safetensors")]:
            manifest.write_text(text)
            self.run_program("train", *command, "steps=4", code=1)

    def test_generated_tokens(self):
        """Raw in a pipe, as the model wrote them; on a terminal as escapes."""
        folder = model()
        command = [PROGRAMS / "generate", "--model", folder, "--prompt", "a", "--max-tokens", "200",
                   "--temperature", "1000", "--seed", "3", "backend=cpu", "dtype=float32"]
        piped = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=120)
        self.assertRegex(piped.stdout.decode(), "[\x01-\x08\x0b-\x1f]")
        self.assertIsNone(fault_of(piped.stderr))
        master, terminal = pty.openpty()
        process = subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE)
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(master, 65536):
                shown += part
        except OSError:  # as the other end is closed
            pass
        os.close(master)
        self.assertEqual(process.wait(), 0, process.stderr.read())
        process.stderr.close()
        shown = shown.replace(b"\r\n", b"\n")
        self.assertIsNone(fault_of(shown))
        self.assertRegex(shown.decode(), r"\\x[01]")


if __name__ == "__main__":
    unittest.main()
