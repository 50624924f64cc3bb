#!/usr/bin/env python3
"""What convert writes, transformers loads as the same model.

usage: same_model.py CONVERT GOLDENS [CASE...]

For each case of GOLDENS/models: convert keeps every bit, in many files; it rounds to bfloat16 and
float16 as torch does, and back; and the config.json that Longshore writes for the case's decoder
(GOLDENS/hf_config, held to what the code writes by a C++ test) stands for the case's own. Logits
are compared bit by bit. Runs with transformers 4 as with 5; 4 reads the cases' older spelling.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file

IS_4 = transformers.__version__.startswith("4.")


def source_of(case, folder):
    """A case's config, as this transformers spells it, and weights."""
    folder.mkdir()
    for file in case.glob("model*"):
        shutil.copy(file, folder)
    shutil.copy(case / ("config_v4.json" if IS_4 else "config.json"), folder / "config.json")
    return folder


def load(folder, dtype="auto"):
    name = "torch_dtype" if IS_4 else "dtype"
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True, **{name: dtype})
    for kind, found in report.items():
        assert not found, f"{folder}: {kind}: {found}"
    return model.eval()


def logits(model, golden):
    names = ("attention_mask", "position_ids")
    inputs = {name: golden[name] for name in names if name in golden}
    with torch.no_grad():
        return model(input_ids=golden["input_ids"], use_cache=False, **inputs).logits


def expect_equal(found, expected, what):
    """Two models or their logits, to the last bit."""
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
        assert torch.equal(found, expected), f"{what}: differs by {(found - expected).abs().max()}"
        return
    found, expected = found.state_dict(), expected.state_dict()
    assert found.keys() == expected.keys(), what
    for name in expected:
        expect_equal(found[name], expected[name], f"{what}: {name}")


def test(case, convert, configs, work):
    def converted(folder, name, *options):
        command = [convert, "--from", folder, "--to", work / name, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return work / name

    golden = load_file(case / "golden.safetensors")
    source = source_of(case, work / "source")
    original = load(source)
    expected = logits(original, golden)

    sharded = converted(source, "sharded", "--max-shard-size", "20KB")
    assert len(list(sharded.glob("model-*.safetensors"))) > 2
    same = load(sharded)
    expect_equal(same, original, "kept")
    expect_equal(logits(same, golden), expected, "kept: logits")

    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        narrow = load(converted(sharded, name, "--dtype", name))
        rounded = load(source, dtype)
        expect_equal(narrow, rounded, name)
        expect_equal(logits(narrow, golden), logits(rounded, golden), f"{name}: logits")
        wide = load(converted(work / name, f"{name}-float32", "--dtype", "float32"))
        expect_equal(wide, rounded.float(), f"{name} and back")

    (source / "config.json").write_text((configs / f"{case.name}.json").read_text())
    written = load(source)
    expect_equal(logits(written, golden), expected, "written config.json: logits")


def main():
    convert, goldens = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    names = sys.argv[3:] or sorted(path.name for path in (goldens / "models").iterdir())
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            test(goldens / "models" / name, convert, goldens / "hf_config", pathlib.Path(work))
        print(f"transformers {transformers.__version__}: {name}: equal", flush=True)


main()
