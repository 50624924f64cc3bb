#!/usr/bin/env python3
"""Trains on a GPU that is played on the CPU, its streams' work done early, late and in between: losses and norms must be
the same bits in any order. And a step allocates nothing, and waits for the GPU once.

usage: tests/played_gpu/orders.py BUILD
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ORDERS = ["late", "early", *(f"mixed{seed}" for seed in range(1, 7))]
LANES = 5  # each of which is a stream to wait for
SMALL = ["base_emb_dim=64", "base_num_decoder_layers=4", "base_num_query_heads=4", "base_num_kv_heads=2", "head_dim=16",
         "base_mlp_dim=96", "vocab_size=256", "max_target_length=32", "per_device_batch_size=2"]
SETTINGS = {
    "nothing offloaded": ["remat_policy=none"],
    "activations offloaded": ["remat_policy=minimal_offloaded"],
    "all offloaded": ["remat_policy=qkv_proj_offloaded", "optimizer_memory_host_offload=true",
                      "parameter_memory_host_offload=true", "gradient_memory_host_offload=true",
                      "gradient_accumulation_steps=2"],
    "updated on the host": ["remat_policy=full", "optimizer_memory_host_offload=true", "optimizer_compute=host"],
}


def train(build, folder, order, steps, settings):
    """Losses and norms, and what the GPU counted."""
    counts = folder / f"{order}-{steps}.json"
    environment = dict(os.environ, LONGSHORE_PLAYED_ORDER=order, LONGSHORE_PLAYED_COUNTS=str(counts))
    command = [pathlib.Path(__file__).parent / "run", build, build / "bin/train", "--config", "quickstart.yml",
               "dataset_type=synthetic", "eval_dataset_path=", "tokenizer_path=", "sample_tokens=0",
               "peak_tflops_per_device=1", "enable_checkpointing=false", "backend=cuda", f"steps={steps}",
               "learning_rate_schedule_steps=8", f"base_output_directory={folder}", f"run_name={order}-{steps}",
               *SMALL, *settings]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"{order}: {' '.join(settings)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    lines = (folder / f"{order}-{steps}" / "metrics.jsonl").read_text().splitlines()
    return [(step["loss"], step["grad_norm"]) for step in map(json.loads, lines)], json.loads(counts.read_text())


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    failures = 0
    for what, settings in SETTINGS.items():
        for dtype in ("float32", "bfloat16"):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                runs = {order: train(build, folder, order, 4, [f"dtype={dtype}", *settings]) for order in ORDERS}
                longer, counts = train(build, folder, "late", 8, [f"dtype={dtype}", *settings])
            expected, before = runs["late"]
            found = {order: steps for order, (steps, _) in runs.items()} | {"8 steps": longer[:4]}
            differ = [order for order, steps in found.items() if steps != expected]
            allocated = counts["allocations"] - before["allocations"]
            waits = (counts["waits"] - before["waits"]) / 4
            good = not differ and allocated == 0 and waits == LANES
            failures += not good
            print(f"{what}, {dtype}: {'same bits in all orders' if not differ else 'differs: ' + ' '.join(differ)}, "
                  f"4 more steps allocate {allocated} times, each waits for {waits:g} streams"
                  f"{'' if good else ': FAILED'}", flush=True)
            for order in ["late", *differ] if differ else []:
                print(f"  {order}: loss, norm: {found[order]}")
    return failures > 0


sys.exit(main())
