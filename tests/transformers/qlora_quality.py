#!/usr/bin/env python3
"""An adapter on a base in NF4, trained by Longshore and by peft with bitsandbytes: the same weights, data, order and
recipe.

usage: qlora_quality.py TRAIN WRITE_BATCHES [--steps 1000] [--tolerance 0.005] [--base-steps 300]

The base is quality.py's small Llama, which train has given some steps on the quickstart's text; the adapter learns the
same text in capitals. Both quantize the base and begin with the adapter, of rank 8 on all linear layers, that train
begins with. In float32 scales of NF4 are float32 numbers. In bfloat16, where the processor multiplies it, they have
double quantization, and what is not quantized of the base is bfloat16 too. quantized_base.py says what of bitsandbytes
is compared. Recipe and table are quality.py's. Fails where losses at the end differ by more than the tolerance, or any
in float32 by more than a fiftieth of it: another base may end as well, but not take the same way.
"""

import pathlib
import tempfile

import side_by_side  # first, for what it sets in the environment
import peft
import torch

import quantized_base
from processor import multiplies_bfloat16
from side_by_side import CONFIG, RECIPE, keys_of, run

MODEL = [*side_by_side.MODEL, "base_mlp_dim=384"]  # a multiple of 64, for bitsandbytes
ADAPTER = ["lora_rank=8", "lora_alpha=16", "lora_targets=all-linear"]
ADAPTER_RECIPE = {**RECIPE, "learning_rate": 2e-3}
KINDS = {"float32": quantized_base.NF4, "bfloat16": quantized_base.DOUBLE}


def title(dtype):
    return f"{KINDS[dtype]}, {dtype}"


def capitals(work):
    """The keys of the adapter's text."""
    for name, step in (("train", 8), ("validation", 1)):
        entries = pathlib.Path(f".data/quickstart/{name}.txt").read_text().split("\n\n")[::step]
        (work / f"{name}.txt").write_text("\n\n".join(entries).upper())
    return [f"dataset_path={work}/train.txt", f"eval_dataset_path={work}/validation.txt"]


def new_run(train, work, name, *keys):
    run(train, "--config", CONFIG, *MODEL, f"base_output_directory={work}", f"run_name={name}", "dtype=float32", *keys)
    return work / name


def main():
    parser = side_by_side.parser(__doc__)
    parser.add_argument("--base-steps", type=int, default=300)
    arguments = parser.parse_args()
    quantized_base.require_bitsandbytes()
    side_by_side.set_up()

    interval = max(10, arguments.steps // 10)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder = new_run(arguments.train, work, "base", *keys_of(RECIPE), f"steps={arguments.base_steps}") / "model"
        base = [f"load_parameters_path={folder}", *capitals(work), *ADAPTER]
        # At a learning rate of 0 a step leaves the adapter that a run begins with.
        adapter = new_run(arguments.train, work, "before", *base, "steps=1", "learning_rate=0") / "adapter"
        keys = [*MODEL, *base, *keys_of(ADAPTER_RECIPE), f"load_adapter_path={adapter}", f"steps={arguments.steps}",
                f"eval_interval={interval}"]
        batches = side_by_side.written_batches(arguments.write_batches, keys, work)

        def compare(dtype):
            def load():
                model, _ = quantized_base.load(folder, KINDS[dtype], getattr(torch, dtype))
                return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).train()
            return side_by_side.compare(arguments.train, load, ADAPTER_RECIPE, batches,
                                        [*keys, *quantized_base.KEYS[KINDS[dtype]]], dtype, interval, work)

        results = {title(dtype): compare(dtype) for dtype in KINDS if dtype == "float32" or multiplies_bfloat16()}
    print(side_by_side.table(results, "peft, bitsandbytes"))
    side_by_side.expect_same_end(results, arguments.steps, arguments.tolerance)
    for step, (ours, theirs) in results[title("float32")].items():
        assert abs(ours - theirs) <= arguments.tolerance / 50, f"float32: {ours} and {theirs} after {step} steps"


main()
