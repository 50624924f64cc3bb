#!/usr/bin/env python3
"""What a fine-tuning recipe trains, transformers loads, and it gives the logits that probe gives.

usage: trained_model.py TRAIN PROBE CONVERT

Recipes run on small models of their family. Logits agree within 3e-5 of the largest, in float32; of
an adapter, those of the weights that convert merges it into and those of peft with the adapter as it is.
It ends texts where they were taught to end.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from processor import multiplies_bfloat16

SMALL = ("base_emb_dim=64 base_num_decoder_layers=3 base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 "
         "base_mlp_dim=96 vocab_size=1024 max_target_length=64 per_device_batch_size=2 backend=cpu "
         "peak_tflops_per_device=1").split()
FLOAT32 = ["dtype=float32"]
BFLOAT16 = "dtype=bfloat16"
GEMMA = [*FLOAT32, "sliding_window_size=32", "query_pre_attn_scalar=16"]
RECIPES = [("llama3_8b_finetune", "llama3_8b", "bytelevel_bpe_llama3", FLOAT32),
           ("llama3_8b_lora", "llama3_8b", "bytelevel_bpe_llama3", FLOAT32),
           ("llama3_8b_24gb", "llama3_8b", "bytelevel_bpe_llama3", [BFLOAT16, "offload_layers=2"]),
           ("gemma2_9b_finetune", "gemma2_9b", "gemma_bpe", GEMMA),
           ("gemma2_9b_lora", "gemma2_9b", "gemma_bpe", GEMMA),
           ("gemma2_9b_attention", "gemma2_9b", "gemma_bpe", GEMMA),
           ("llama2_7b_continued", "llama2_7b", "llama2_bpe", FLOAT32),
           ("llama2_13b_continued", "llama2_13b", "llama2_bpe", FLOAT32)]
# The recipes for any folder, with a model of each family that has none of its own; what else makes it small.
FAMILIES = {"olmo2_1b": [], "olmo3_7b": ["sliding_window_size=32", "full_attention_period=2"],
            "smollm3_3b": ["nope_layer_interval=2"], "phi4_14b": [], "glm4_9b": [], "granite3.3_2b": [],
            "ministral3_3b": ["rope_original_max_position_embeddings=32"],
            "mixtral_8x7b": ["num_experts=4"],
            "qwen3_30b_a3b": ["num_experts=3", "num_experts_per_tok=2", "base_moe_mlp_dim=32"],
            "gpt_oss_20b": ["pad_token_id=-1", "num_experts=3", "num_experts_per_tok=2", "sliding_window_size=32",
                            "rope_original_max_position_embeddings=32"],
            "llama4_scout": ["pad_token_id=-1", "num_experts=2", "base_moe_mlp_dim=32", "interleave_moe_layer_step=2",
                             "sliding_window_size=32", "full_attention_period=3", "nope_layer_interval=3",
                             "temperature_tuning_floor_scale=8", "rope_original_max_position_embeddings=32"],
            "gemma4_26b_a4b": ["num_experts=3", "num_experts_per_tok=2", "base_moe_mlp_dim=32",
                               "sliding_window_size=32", "full_attention_period=2", "global_head_dim=32",
                               "global_num_kv_heads=1"],
            "gemma4_31b": ["sliding_window_size=32", "full_attention_period=2", "global_head_dim=32",
                           "global_num_kv_heads=1"],
            "gemma4_e2b": ["sliding_window_size=32", "full_attention_period=2", "global_head_dim=32",
                           "num_kv_shared_layers=1", "hidden_size_per_layer_input=8"]}
RECIPES += [(recipe, model, "bytelevel_bpe_llama3", [*FLOAT32, "gradient_accumulation_steps=1", "chat_template=llama3"])
            for model in FAMILIES for recipe in ("finetune", "lora")]
# Each expert's adapter by itself.
PER_EXPERT = [*FLOAT32, "gradient_accumulation_steps=1", "chat_template=llama3", "lora_per_expert=true"]
RECIPES += [("lora", model, "bytelevel_bpe_llama3", PER_EXPERT) for model in ("mixtral_8x7b", "qwen3_30b_a3b")]
ADAPTED = re.compile(r"_proj\.weight$|experts\.\d+\.w[123]\.weight$|experts\.(gate_up|down)_proj$")
FROZEN = {"attention": lambda name: "self_attn" not in name, "lora": lambda name: not ADAPTED.search(name),
          "finetune": lambda name: name.endswith("layer_scalar")}


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def conversations(path):
    with open(path, "w") as file:
        for i in range(40):
            messages = [{"role": "user", "content": f"Which ship carries {i}?"},
                        {"role": "assistant", "content": f"The ship {i * 37 % 101}."}]
            file.write(json.dumps({"messages": messages}) + "\n")


def text(path):
    path.write_text("".join(f"The ship {i} carries {i * 37 % 101} tons.\n\n" for i in range(200)))


def trained(train, work, recipe, model, tokenizer, keys):
    folder = f"base_output_directory={work}"
    run(train, "--config", "llama3_8b.yml", f"model_name={model}", *SMALL, *keys, *FAMILIES.get(model, []), folder,
        "run_name=before", "steps=1")
    data = work / ("text.txt" if "continued" in recipe else "chat.jsonl")
    (text if "continued" in recipe else conversations)(data)
    run(train, "--config", f"{recipe}.yml", *SMALL, *keys, folder, "run_name=after", "steps=2", "learning_rate=0.01",
        f"load_parameters_path={work}/before/model", f"dataset_path={data}",
        f"tokenizer_path=tests/goldens/tokenizers/{tokenizer}")
    return work / "after"


def expect_same_logits(loaded_folder, probe, probed, work, adapter=None):
    """Of transformers, with peft's adapter or none, and of probe, which is told `probed`; returns by how much they
    differ."""
    ids = torch.randint(0, 1024, (2, 48), generator=torch.Generator().manual_seed(1))
    save_file({"input_ids": ids}, work / "inputs.safetensors")
    run(probe, *probed, "--inputs", work / "inputs.safetensors", "--out", work / "out.safetensors", "backend=cpu")
    found = load_file(work / "out.safetensors")["logits"]
    loaded, report = transformers.AutoModelForCausalLM.from_pretrained(
        loaded_folder, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32, output_loading_info=True)
    for kind, names in report.items():
        assert not names, f"{loaded_folder}: {kind}: {names}"
    if adapter:
        loaded = peft.PeftModel.from_pretrained(loaded, adapter)
    with torch.no_grad():
        expected = loaded.eval()(input_ids=ids, use_cache=False).logits
    difference, limit = (found - expected).abs().max(), 3e-5 * expected.abs().max()
    assert difference <= limit, f"{loaded_folder}: differs by {difference}, allowed {limit}"
    return difference


def expect_ends_of_texts(train, work):
    """transformers ends a text where a model that began as random numbers was taught to."""
    tokenizer = pathlib.Path("tests/goldens/tokenizers/bytelevel_bpe_llama3")
    conversations(work / "chat.jsonl")
    run(train, "--config", "llama3_8b_finetune.yml", "model_name=llama3_8b", "load_parameters_path=", *SMALL, *FLOAT32,
        f"base_output_directory={work}", "run_name=new", "steps=1", f"dataset_path={work}/chat.jsonl",
        f"tokenizer_path={tokenizer}")
    ids = {token["content"]: token["id"] for token in json.loads((tokenizer / "tokenizer.json").read_text())["added_tokens"]}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(work / "new" / "model")
    bos, eos, turn = ids["<|begin_of_text|>"], ids["<|end_of_text|>"], ids["<|eot_id|>"]
    for found, expected in ((loaded.config.bos_token_id, bos), (loaded.config.eos_token_id, [eos, turn]),
                            (loaded.generation_config.eos_token_id, [eos, turn])):
        assert found == expected, f"found {found}, expected {expected}"


def main():
    train, probe, convert = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        expect_ends_of_texts(train, pathlib.Path(name))
    for recipe, model, tokenizer, keys in RECIPES:
        if BFLOAT16 in keys and not multiplies_bfloat16():
            print(f"{recipe}: left out, for this processor does not multiply bfloat16")
            continue
        with tempfile.TemporaryDirectory() as name:
            work = pathlib.Path(name)
            result = trained(train, work, recipe, model, tokenizer, keys)
            before, folder = work / "before" / "model", result / "model"
            probed = ["--model", folder]
            if recipe.endswith("lora"):
                folder, adapter = work / "merged", result / "adapter"
                run(convert, "--from", before, "--adapter", adapter, "--to", folder)
                probed = ["--model", before, "--adapter", adapter]
                expect_same_logits(before, probe, probed, work, adapter)
            difference = expect_same_logits(folder, probe, probed, work)
            old, new = (load_file(path / "model.safetensors") for path in (before, folder))
            changed = {name for name in new if not torch.equal(new[name].float(), old[name])}
            is_frozen = FROZEN.get(recipe.split("_")[-1], lambda name: False)
            expected = {name for name in new if not is_frozen(name)}
            assert changed == expected, f"{recipe}, {model}: changed {sorted(changed ^ expected)}"
            print(f"{recipe}, {model}: logits differ by {difference:.2g}, {len(changed)} tensors of {len(new)} were trained")


main()
