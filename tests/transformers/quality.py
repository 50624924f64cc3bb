#!/usr/bin/env python3
"""A small Llama trained by Longshore and by transformers: the same weights, data, order and recipe.

usage: quality.py TRAIN WRITE_BATCHES [--steps 1000] [--tolerance 0.005] [--plot FILE.svg]

Both start from one folder of weights and see the batches that write_batches reads out of the
quickstart's text, in float32 and, where the processor multiplies it, in bfloat16 with float32
weights (transformers: torch.autocast, as its Trainer has it), with AdamW that decays matrices
alone, clipping, warm-up and cosine decay. Prints evaluation losses side by side, as a table of
Markdown, and fails where those at the end differ by more than the tolerance. --plot draws them.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"

import torch
import transformers
from safetensors.torch import load_file

import curves
from processor import multiplies_bfloat16

CONFIG = "quickstart.yml"
MODEL = ("base_emb_dim=128 base_num_decoder_layers=4 base_num_query_heads=4 base_num_kv_heads=2 head_dim=32 "
         "base_mlp_dim=352 max_target_length=128 per_device_batch_size=8 eval_steps=64 sample_tokens=0 backend=cpu "
         "peak_tflops_per_device=1").split()
RECIPE = {"learning_rate": 1e-3, "warmup_steps_fraction": 0.05, "cosine_learning_rate_final_fraction": 0.1,
          "adam_b1": 0.9, "adam_b2": 0.95, "adam_eps": 1e-8, "adam_weight_decay": 0.1,
          "gradient_clipping_threshold": 1.0}


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE).stdout


def initial_weights(train, work):
    """The weights that a run starts with: at a learning rate of 0 a step leaves them."""
    run(train, "--config", CONFIG, *MODEL, f"base_output_directory={work}", "run_name=before", "steps=1",
        "dataset_type=synthetic", "dataset_path=", "eval_dataset_path=", "learning_rate=0")
    return work / "before" / "model"


def longshore(train, keys, dtype, work):
    """Evaluation losses by the number of steps before them; and the learning rate of each step."""
    run(train, "--config", CONFIG, *keys, f"dtype={dtype}", f"base_output_directory={work}", f"run_name={dtype}",
        "enable_checkpointing=false")
    records = [json.loads(line) for line in (work / dtype / "metrics.jsonl").read_text().splitlines()]
    losses = {record["step"] + 1: record["validation_loss"] for record in records if "validation_loss" in record}
    return losses, [record["learning_rate"] for record in records if "loss" in record]


def learning_rate(step, steps):
    """Step `step`'s, from 0: linear warm-up, cosine decay."""
    peak, final = RECIPE["learning_rate"], RECIPE["cosine_learning_rate_final_fraction"]
    warmup = round(RECIPE["warmup_steps_fraction"] * steps)
    if step < warmup:
        return peak * (step + 1) / warmup
    cosine = 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
    return peak * (final + (1 - final) * cosine)


def loss_sum(model, dtype, tokens, targets):
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
        logits = model(input_ids=tokens.long(), use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.long().flatten(), ignore_index=-1,
                                             reduction="sum")


def evaluated(model, dtype, batches):
    with torch.no_grad():
        sums = [loss_sum(model, dtype, *batch).item()
                for batch in zip(batches["validation.tokens"], batches["validation.targets"])]
    return sum(sums) / (batches["validation.targets"] >= 0).sum().item()


def reference(folder, batches, dtype, steps, interval):
    """As longshore() has them, by transformers and torch."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": RECIPE["adam_weight_decay"]},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(RECIPE["adam_b1"], RECIPE["adam_b2"]), eps=RECIPE["adam_eps"])
    losses, rates = {}, []
    for step, (tokens, targets) in enumerate(zip(batches["train.tokens"], batches["train.targets"])):
        rates.append(learning_rate(step, steps))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.zero_grad()
        (loss_sum(model, dtype, tokens, targets) / (targets >= 0).sum()).backward()
        torch.nn.utils.clip_grad_norm_(parameters, RECIPE["gradient_clipping_threshold"])
        optimizer.step()
        if (step + 1) % interval == 0 or step + 1 == steps:
            losses[step + 1] = evaluated(model, dtype, batches)
    return losses, rates


def compare(train, folder, batches, keys, dtype, steps, interval, work):
    start = time.monotonic()
    ours, our_rates = longshore(train, keys, dtype, work)
    middle = time.monotonic()
    theirs, their_rates = reference(folder, batches, dtype, steps, interval)
    print(f"{dtype}: Longshore {middle - start:.0f} s, transformers {time.monotonic() - middle:.0f} s",
          file=sys.stderr, flush=True)
    assert ours.keys() == theirs.keys(), f"evaluated after {sorted(ours)} and {sorted(theirs)} steps"
    assert all(math.isclose(*pair, rel_tol=1e-6) for pair in zip(our_rates, their_rates, strict=True))
    return {step: (ours[step], theirs[step]) for step in sorted(ours)}


def table(results):
    lines = ["| steps |" + "".join(f" {dtype}: Longshore | transformers | difference |" for dtype in results),
             "|" + " --- |" * (1 + 3 * len(results))]
    for step in next(iter(results.values())):
        row = [f" {step} |"]
        for losses in results.values():
            ours, theirs = losses[step]
            row.append(f" {ours:.4f} | {theirs:.4f} | {ours - theirs:+.4f} |")
        lines.append("|" + "".join(row))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("write_batches")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tolerance", type=float, default=0.005)
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    if not pathlib.Path(".data/quickstart/train.tokens").exists():
        print("skipped: no text in .data/quickstart; scripts/quickstart_data makes it")
        sys.exit(77)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    steps = arguments.steps
    interval = max(10, steps // 10)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder = initial_weights(arguments.train, work)
        keys = [*MODEL, *(f"{key}={value}" for key, value in RECIPE.items()), f"steps={steps}",
                f"eval_interval={interval}", f"load_parameters_path={folder}"]
        run(arguments.write_batches, work / "batches.safetensors", CONFIG, *keys)
        batches = load_file(work / "batches.safetensors")
        dtypes = ("float32", "bfloat16") if multiplies_bfloat16() else ("float32",)
        results = {dtype: compare(arguments.train, folder, batches, keys, dtype, steps, interval, work)
                   for dtype in dtypes}
    print(table(results))
    if arguments.plot:
        arguments.plot.write_text(curves.svg(results, arguments.tolerance))
    for dtype, losses in results.items():
        ours, theirs = losses[steps]
        assert abs(ours - theirs) <= arguments.tolerance, f"{dtype}: {ours} and {theirs} after {steps} steps"


main()
