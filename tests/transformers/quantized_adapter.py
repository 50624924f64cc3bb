#!/usr/bin/env python3
"""An adapter on a quantized base is the same in Longshore as in peft with bitsandbytes.

usage: quantized_adapter.py TRAIN PROBE CONVERT WRITE_BATCHES

Small models with random weights, in a folder of float32 or bfloat16, computed in float32, on a base in NF4,
in NF4 with double quantization, and in int8:
- An adapter that train has made, peft loads onto the base that transformers and bitsandbytes quantize. Its logits
  are those of probe, and those of the weights that convert --run merges it into.
- An adapter that peft has trained on that base has the same logits in probe, and trains on in both: losses of the
  steps are the same, and the logits after them.
quantized_base.py says what of bitsandbytes is compared. Prints by how much they differ, of the largest logit.
"""

import pathlib
import sys
import tempfile

import side_by_side  # first, for what it sets in the environment
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import quantized_base
from side_by_side import RECIPE, keys_of, run

VOCABULARY, RANK, STEPS = 512, 8, 3
SHAPE = ("base_emb_dim=128 base_num_decoder_layers=2 base_num_query_heads=4 base_num_kv_heads=2 head_dim=32 "
         f"base_mlp_dim=192 vocab_size={VOCABULARY}").split()
RUN = ("max_target_length=64 per_device_batch_size=2 backend=cpu peak_tflops_per_device=1 dtype=float32 "
       "dataset_type=synthetic").split()
ADAPTED = ["gradient_accumulation_steps=1", "dataset_path=", f"lora_rank={RANK}", f"lora_alpha={2 * RANK}"]
# Families, what else makes their models small, and what their folders are in.
MODELS = [("llama3_8b", [], "bfloat16"), ("qwen3_0.6b", [], "float32"),
          ("gemma2_2b", ["sliding_window_size=32", "query_pre_attn_scalar=32"], "float32")]
LOGITS, LOSSES = 5e-6, 1e-6  # how far they may be apart, of the largest
TRAINED_LOGITS = 1e-4        # AdamW makes whole steps of the smallest gradients


def base(train, convert, work, model, keys, dtype):
    """A folder with new weights."""
    run(train, "--config", "llama3_8b.yml", f"model_name={model}", *SHAPE, *RUN, *keys, f"base_output_directory={work}",
        "run_name=new", "steps=1", "learning_rate=0")
    folder = work / "base"
    run(convert, "--from", work / "new" / "model", "--to", folder, "--dtype", dtype)
    weights = load_file(folder / "model.safetensors")
    weights = {name: quantized_base.off_ties(weight) if name.endswith("_proj.weight") else weight
               for name, weight in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


class Case:
    """A base, how it is quantized, and the two that compute with it."""

    def __init__(self, programs, work, folder, kind):
        self.train, self.probe, self.convert, self.write_batches = programs
        self.work, self.folder, self.kind = work, folder, kind
        self.keys = quantized_base.KEYS[kind]
        self.ids = torch.randint(0, VOCABULARY, (2, 48), generator=torch.Generator().manual_seed(1))
        save_file({"input_ids": self.ids}, work / "inputs.safetensors")

    def trained(self, name, *keys):
        """The run's directory."""
        run(self.train, "--config", "lora.yml", *RUN, *ADAPTED, *self.keys, f"load_parameters_path={self.folder}",
            f"base_output_directory={self.work}", f"run_name={self.kind}, {name}", f"steps={STEPS}", *keys)
        return self.work / f"{self.kind}, {name}"

    def batches(self, steps):
        return side_by_side.written_batches(
            self.write_batches, [*RUN, *ADAPTED, f"load_parameters_path={self.folder}", f"steps={steps}"], self.work,
            config="lora.yml")

    def our_logits(self, adapter, keys=None):
        out = self.work / "out.safetensors"
        run(self.probe, "--model", self.folder, "--adapter", adapter, "--inputs", self.work / "inputs.safetensors",
            "--out", out, "backend=cpu", *(self.keys if keys is None else keys))
        return load_file(out)["logits"]

    def logits(self, model):
        with torch.no_grad():
            return model(input_ids=self.ids, use_cache=False).logits

    def peft_model(self, adapter):
        model, changed = quantized_base.load(self.folder, self.kind)
        return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).train(), changed


def difference(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def expect(what, found, limit):
    assert found <= limit, f"{what}: differs by {found:.2g} of the largest, allowed {limit}"


def test_our_adapter(case):
    """By how much logits differ, and how many codes of scales are others than bitsandbytes'."""
    trained = case.trained("ours", "learning_rate=0.01")
    model, changed = case.peft_model(trained / "adapter")
    ours, theirs = case.our_logits(trained / "adapter"), case.logits(model)
    with model.disable_adapter():
        without = difference(case.logits(model), theirs)
    unquantized = difference(case.our_logits(trained / "adapter", keys=[]), theirs)
    apart = difference(ours, theirs)
    assert min(without, unquantized) > 500 * LOGITS, "adapter or quantization changes too little to be seen"
    expect("logits with train's adapter", apart, LOGITS)
    merged = case.work / f"{case.kind}, merged"
    run(case.convert, "--run", trained, "--to", merged, "--dtype", "float32")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(merged, attn_implementation="eager")
    expect("logits of merged weights", difference(case.logits(loaded), theirs), LOGITS)
    return apart, changed


def test_their_adapter(case):
    """By how much logits differ, losses of further steps, and logits after these."""
    batches = case.batches(2 * STEPS)
    tokens, targets = batches["train.tokens"], batches["train.targets"]
    torch.manual_seed(1)
    model = peft.get_peft_model(quantized_base.load(case.folder, case.kind)[0],
                                peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")).train()
    for _ in side_by_side.trained_steps(model, RECIPE, "float32", tokens[STEPS:], targets[STEPS:]):
        pass
    adapter = case.work / f"{case.kind}, theirs"
    model.save_pretrained(adapter)
    apart = difference(case.our_logits(adapter), case.logits(model))
    expect("logits with peft's adapter", apart, LOGITS)

    trained = case.trained("continued", *keys_of(RECIPE), f"load_adapter_path={adapter}")
    ours = [record["loss"] for record in side_by_side.records(trained) if "loss" in record]
    theirs = [loss for loss, _ in side_by_side.trained_steps(model, RECIPE, "float32", tokens[:STEPS], targets[:STEPS])]
    losses = difference(torch.tensor(ours, dtype=torch.float64), torch.tensor(theirs, dtype=torch.float64))
    expect("losses of further steps", losses, LOSSES)
    after = difference(case.our_logits(trained / "adapter"), case.logits(model))
    expect("logits after them", after, TRAINED_LOGITS)
    return apart, losses, after


def main():
    quantized_base.require_bitsandbytes()
    programs = sys.argv[1:]
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for model, keys, dtype in MODELS:
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            folder = base(programs[0], programs[2], work, model, keys, dtype)
            for kind in quantized_base.KEYS:
                case = Case(programs, work, folder, kind)
                ours, changed = test_our_adapter(case)
                theirs, losses, after = test_their_adapter(case)
                print(f"{model}, {dtype}, {kind}: logits with train's adapter differ by {ours:.1g}, with peft's by "
                      f"{theirs:.1g}; {STEPS} further steps: losses by {losses:.1g}, logits by {after:.1g}"
                      + (f"; codes of {changed} scales set to the nearest" if changed else ""), flush=True)


main()
