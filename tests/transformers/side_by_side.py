"""Longshore and torch train on the same batches by the same recipe; their evaluation losses side by side."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"

import torch
import transformers
from safetensors.torch import load_file

CONFIG = "quickstart.yml"
MODEL = ("base_emb_dim=128 base_num_decoder_layers=4 base_num_query_heads=4 base_num_kv_heads=2 head_dim=32 "
         "max_target_length=128 per_device_batch_size=8 eval_steps=64 sample_tokens=0 backend=cpu "
         "peak_tflops_per_device=1").split()
RECIPE = {"learning_rate": 1e-3, "warmup_steps_fraction": 0.05, "cosine_learning_rate_final_fraction": 0.1,
          "adam_b1": 0.9, "adam_b2": 0.95, "adam_eps": 1e-8, "adam_weight_decay": 0.1,
          "gradient_clipping_threshold": 1.0}


def keys_of(recipe):
    return [f"{key}={value}" for key, value in recipe.items()]


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE).stdout


def parser(description):
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("train")
    result.add_argument("write_batches")
    result.add_argument("--steps", type=int, default=1000)
    result.add_argument("--tolerance", type=float, default=0.005)
    return result


def set_up():
    if not pathlib.Path(".data/quickstart/train.tokens").exists():
        print("skipped: no text in .data/quickstart; scripts/quickstart_data makes it")
        sys.exit(77)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def written_batches(write_batches, keys, work, config=CONFIG):
    """What a run with these keys trains on and is evaluated on."""
    run(write_batches, work / "batches.safetensors", config, *keys)
    return load_file(work / "batches.safetensors")


def records(folder):
    """A run's metrics, of each step and of each evaluation."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def longshore(train, keys, dtype, work):
    """Evaluation losses by the number of steps before them; and the learning rate of each step."""
    run(train, "--config", CONFIG, *keys, f"dtype={dtype}", f"base_output_directory={work}", f"run_name={dtype}",
        "enable_checkpointing=false")
    found = records(work / dtype)
    losses = {record["step"] + 1: record["validation_loss"] for record in found if "validation_loss" in record}
    return losses, [record["learning_rate"] for record in found if "loss" in record]


def learning_rate(recipe, step, steps):
    """Step `step`'s, from 0: linear warm-up, cosine decay."""
    peak, final = recipe["learning_rate"], recipe["cosine_learning_rate_final_fraction"]
    warmup = round(recipe["warmup_steps_fraction"] * steps)
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


def trained_steps(model, recipe, dtype, tokens, targets):
    """Trains what of the model is not frozen, a batch a step; gives each step's loss and learning rate."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": recipe["adam_weight_decay"]},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(recipe["adam_b1"], recipe["adam_b2"]), eps=recipe["adam_eps"])
    for step, batch in enumerate(zip(tokens, targets)):
        rate = learning_rate(recipe, step, len(tokens))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_sum(model, dtype, *batch) / (batch[1] >= 0).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, recipe["gradient_clipping_threshold"])
        optimizer.step()
        yield loss.item(), rate


def reference(model, recipe, batches, dtype, interval):
    """As longshore() has them, by transformers and torch."""
    losses, rates = {}, []
    steps = len(batches["train.tokens"])
    for _, rate in trained_steps(model, recipe, dtype, batches["train.tokens"], batches["train.targets"]):
        rates.append(rate)
        if len(rates) % interval == 0 or len(rates) == steps:
            losses[len(rates)] = evaluated(model, dtype, batches)
    return losses, rates


def compare(train, load, recipe, batches, keys, dtype, interval, work):
    """Both evaluation losses by the number of steps before them. `keys` have the recipe too; load() gives the model
    that torch trains."""
    start = time.monotonic()
    ours, our_rates = longshore(train, keys, dtype, work)
    middle = time.monotonic()
    theirs, their_rates = reference(load(), recipe, batches, dtype, interval)
    print(f"{dtype}: Longshore {middle - start:.0f} s, torch {time.monotonic() - middle:.0f} s",
          file=sys.stderr, flush=True)
    assert ours.keys() == theirs.keys(), f"evaluated after {sorted(ours)} and {sorted(theirs)} steps"
    assert all(math.isclose(*pair, rel_tol=1e-6) for pair in zip(our_rates, their_rates, strict=True))
    return {step: (ours[step], theirs[step]) for step in sorted(ours)}


def table(results, theirs_name):
    """Of Markdown; `results`: for each name {step: (Longshore's loss, theirs)}."""
    lines = ["| steps |" + "".join(f" {name}: Longshore | {theirs_name} | difference |" for name in results),
             "|" + " --- |" * (1 + 3 * len(results))]
    for step in next(iter(results.values())):
        row = [f" {step} |"]
        for losses in results.values():
            ours, theirs = losses[step]
            row.append(f" {ours:.4f} | {theirs:.4f} | {ours - theirs:+.4f} |")
        lines.append("|" + "".join(row))
    return "\n".join(lines)


def expect_same_end(results, steps, tolerance):
    for name, losses in results.items():
        ours, theirs = losses[steps]
        assert abs(ours - theirs) <= tolerance, f"{name}: {ours} and {theirs} after {steps} steps"
