#!/usr/bin/env python3
"""What convert writes, transformers loads as the same model.

usage: same_model.py CONVERT GOLDENS [CASE...]

For each case of GOLDENS/models that has a config.json in GOLDENS/hf_config: convert keeps every bit,
in many files; it rounds to bfloat16 and float16 as torch does, and back; and the config.json that
Longshore writes for the case's decoder (that in GOLDENS/hf_config, held to what the code writes by
a C++ test) stands for the case's own. Logits are compared bit by bit.

For each case that has an adapter: with the adapter merged into its weights by convert, the model
gives the logits that peft gave with base and adapter, within the golden's tolerance (1e-5 of the
largest), and without it those of the base model.

Runs with transformers 4 as with 5; 4 reads the older spelling of config.json.
"""

import json
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


def config_of(case):
    """The text of a case's config, as this transformers spells it."""
    if not IS_4:
        return (case / "config.json").read_text()
    older = case / "config_v4.json"
    if older.exists():
        return older.read_text()
    config = json.loads((case / "config.json").read_text())
    text = config.get("text_config", config)
    rope = text["rope_parameters"]
    if "sliding_attention" in rope:
        text["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    text["rope_theta"] = rope.pop("rope_theta")
    text["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if text["model_type"] == "qwen3_moe":
        text["num_experts"] = text["num_local_experts"]
    return json.dumps(config)


def reads_images(folder):
    return "vision_config" in json.loads((folder / "config.json").read_text())


def is_known(case):
    """To this transformers."""
    config = case / "config.json"
    return not config.exists() or json.loads(config.read_text())["model_type"] in transformers.CONFIG_MAPPING


def is_quantized(case):
    """Whether its logits are of a base that was quantized as it was loaded."""
    golden = case / "golden.json"
    return golden.exists() and "quantisation" in json.loads(golden.read_text())


def source_of(case, folder):
    """A case's config and weights."""
    folder.mkdir()
    for file in case.glob("model*"):
        shutil.copy(file, folder)
    (folder / "config.json").write_text(config_of(case))
    return folder


def load(folder, dtype="auto"):
    name = "torch_dtype" if IS_4 else "dtype"
    auto = (transformers.AutoModelForImageTextToText if reads_images(folder)
            else transformers.AutoModelForCausalLM)
    # Products of all experts at once need widths that these models have not.
    experts = {} if IS_4 else {"experts_implementation": "eager"}
    model, report = auto.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True, **experts, **{name: dtype})
    for kind, found in report.items():
        assert not found, f"{folder}: {kind}: {found}"
    return model.eval()


def logits(model, golden):
    names = ("attention_mask", "position_ids", "token_type_ids", "pixel_values")
    inputs = {name: golden[name] for name in names if name in golden}
    if "pixel_values" in inputs:
        inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
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


def expect_near(found, golden, name, tolerances):
    """Within abs + rel * the largest, as golden.json has it for the forward pass."""
    limit = tolerances[name]["abs"] + tolerances[name]["rel"] * golden[name].abs().max()
    difference = (found - golden[name]).abs().max()
    assert difference <= limit, f"{name}: differs by {difference}, allowed {limit}"


def converter(convert, work):
    def converted(folder, name, *options):
        whole = ["use_multimodal=true"] if reads_images(folder) else []
        command = [convert, "--from", folder, "--to", work / name, *options, *whole]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return work / name
    return converted


def test_merging(case, convert, work):
    golden = load_file(case / "golden.safetensors")
    tolerances = json.loads((case / "golden.json").read_text())["tolerances"]
    source = source_of(case, work / "source")
    merged = converter(convert, work)(source, "merged", "--adapter", case / "adapter")
    expect_near(logits(load(source), golden), golden, "base_logits", tolerances)
    expect_near(logits(load(merged), golden), golden, "logits", tolerances)
    return "merged as peft has it"


def test_converting(case, convert, configs, work):
    converted = converter(convert, work)
    golden = load_file(case / "golden.safetensors")
    source = source_of(case, work / "source")
    if IS_4 and reads_images(source):  # 4 does not know the names that the case's tensors have
        source = converted(source, "named")
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
        for weight in rounded.parameters():  # transformers leaves some of gpt-oss's in float32
            weight.data = weight.data.to(dtype).to(weight.dtype)
        expect_equal(narrow, rounded, name)
        expect_equal(logits(narrow, golden), logits(rounded, golden), f"{name}: logits")
        wide = load(converted(work / name, f"{name}-float32", "--dtype", "float32"))
        expect_equal(wide, rounded.float(), f"{name} and back")

    (source / "config.json").write_text((configs / f"{case.name}.json").read_text())
    written = load(source)
    expect_equal(logits(written, golden), expected, "written config.json: logits")
    return "equal"


def main():
    convert, goldens = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    configs = goldens / "hf_config"
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[3:] or sorted(path.name for path in (goldens / "models").iterdir()):
        case = goldens / "models" / name
        if is_quantized(case) or not is_known(case):
            continue
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            if (case / "adapter").exists():
                if "base_logits" not in json.loads((case / "golden.json").read_text())["tolerances"]:
                    continue  # of preferences, which have other results
                result = test_merging(case, convert, work)
            elif (configs / f"{name}.json").exists():
                result = test_converting(case, convert, configs, work)
            else:
                continue
        print(f"transformers {transformers.__version__}: {name}: {result}", flush=True)


main()
