#!/usr/bin/env python3
"""A small Llama trained by Longshore and by transformers: the same weights, data, order and recipe.

usage: quality.py TRAIN WRITE_BATCHES [--steps 1000] [--tolerance 0.005] [--plot FILE.svg]

Both start from one folder of weights and see the batches that write_batches reads out of the
quickstart's text, in float32 and, where the processor multiplies it, in bfloat16 with float32
weights (transformers: torch.autocast, as its Trainer has it), with AdamW that decays matrices
alone, clipping, warm-up and cosine decay. Prints evaluation losses side by side, as a table of
Markdown, and fails where those at the end differ by more than the tolerance. --plot draws them.
"""

import pathlib
import tempfile

import side_by_side  # first, for what it sets in the environment
import torch
import transformers

import curves
from processor import multiplies_bfloat16
from side_by_side import CONFIG, RECIPE, keys_of, run

MODEL = [*side_by_side.MODEL, "base_mlp_dim=352"]


def initial_weights(train, work):
    """The weights that a run starts with: at a learning rate of 0 a step leaves them."""
    run(train, "--config", CONFIG, *MODEL, f"base_output_directory={work}", "run_name=before", "steps=1",
        "dataset_type=synthetic", "dataset_path=", "eval_dataset_path=", "learning_rate=0")
    return work / "before" / "model"


def main():
    parser = side_by_side.parser(__doc__)
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    side_by_side.set_up()

    steps = arguments.steps
    interval = max(10, steps // 10)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder = initial_weights(arguments.train, work)
        keys = [*MODEL, *keys_of(RECIPE), f"steps={steps}", f"eval_interval={interval}",
                f"load_parameters_path={folder}"]
        batches = side_by_side.written_batches(arguments.write_batches, keys, work)

        def load():
            return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()

        dtypes = ("float32", "bfloat16") if multiplies_bfloat16() else ("float32",)
        results = {dtype: side_by_side.compare(arguments.train, load, RECIPE, batches, keys, dtype, interval, work)
                   for dtype in dtypes}
    print(side_by_side.table(results, "transformers"))
    if arguments.plot:
        arguments.plot.write_text(curves.svg(results, arguments.tolerance))
    side_by_side.expect_same_end(results, steps, arguments.tolerance)


main()
