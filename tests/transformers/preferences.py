#!/usr/bin/env python3
"""A small Llama learns to prefer answers by Longshore and by TRL: the same weights, pairs and recipe.

usage: preferences.py TRAIN [--steps 300]

Every step is of all pairs, so that their order does not matter, in float32 with AdamW, clipping and a constant learning
rate. Objectives other than DPO take a third of the steps. Prints how far apart steps are at most, as a table of
Markdown, and fails where margins between rewards, rewards of chosen answers or losses are more than 1 % apart.
"""

import argparse
import json
import os
import pathlib
import tempfile
import warnings

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import side_by_side  # before others, for what it sets in the environment
import datasets
import peft
import torch
import transformers
import trl
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

from side_by_side import records, run

MODEL = ("model_name=llama3_8b base_emb_dim=64 base_num_decoder_layers=2 base_num_query_heads=4 base_num_kv_heads=2 "
         "head_dim=16 base_mlp_dim=96 vocab_size=712 tokenizer_path=tests/goldens/tokenizers/bytelevel_bpe_llama3 "
         "load_parameters_path=").split()
RUN = ("backend=cpu dtype=float32 peak_tflops_per_device=1 remat_policy=none optimizer_memory_host_offload=false "
       "warmup_steps_fraction=0 cosine_learning_rate_final_fraction=1 adam_b1=0.9 adam_b2=0.999 adam_eps=1e-8 "
       "adam_weight_decay=0 gradient_clipping_threshold=1").split()
THEIR_RUN = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "lr_scheduler_type": "constant",
             "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0,
             "logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
# All pairs in one row; or each in a row of its own, and four batches in a step.
ONE_ROW = "packing=true max_target_length=1024 per_device_batch_size=1 gradient_accumulation_steps=1".split()
FOUR_BATCHES = "packing=false max_target_length=128 per_device_batch_size=4 gradient_accumulation_steps=4".split()
START = "steps=1 learning_rate=0".split()  # leaves the weights that a run starts with
LORA = "lora_rank=8 lora_alpha=16 reference=adapter_off".split()

DPO = (trl.DPOTrainer, trl.DPOConfig)
# Our keys; TRL's trainer, and what its config says; the learning rate; the part of the steps.
OBJECTIVES = {
    "DPO": (["objective=dpo", *ONE_ROW], DPO, {"beta": 0.1}, 1e-4, 1),
    "DPO, LoRA": (["objective=dpo", *FOUR_BATCHES, *LORA], DPO, {"beta": 0.1}, 3e-4, 1),
    "IPO": (["objective=ipo", *FOUR_BATCHES], DPO, {"beta": 0.1, "loss_type": ["ipo"]}, 1e-4, 1 / 3),
    "ORPO": (["objective=orpo", *ONE_ROW], (ORPOTrainer, ORPOConfig), {"beta": 0.1}, 1e-4, 1 / 3),
    "SimPO": (["objective=simpo", *FOUR_BATCHES], (CPOTrainer, CPOConfig),
              {"loss_type": "simpo", "cpo_alpha": 0.0, "beta": 2.0, "simpo_gamma": 0.5}, 1e-4, 1 / 3),
}
METRICS = {"rewards_margins": "rewards/margins", "rewards_chosen": "rewards/chosen", "loss": "loss"}
LIMIT = 0.01  # how far apart the two may be, of what TRL has
SMALL = 0.01  # what is less is compared with this


def pairs():
    """Of different lengths; some begin with the same prompt."""
    prompts = ["The boat is", "The boats wait", "Tell the boat"]
    return [{"prompt": prompts[i % 3] + " for you" * (i % 2),
             "chosen": f" with {i} boats" + " and the bridge" * (i % 4) + ".",
             "rejected": " in the window" + ", in the index" * (i % 5) + "?"} for i in range(16)]


class Comparison:
    """Weights and pairs, and who trains with them."""

    def __init__(self, train, work):
        self.train, self.work, self.data = train, work, work / "pairs.jsonl"
        self.data.write_text("".join(json.dumps(pair) + "\n" for pair in pairs()))
        self.folder = self.ours("start", "objective=orpo", *ONE_ROW, *MODEL, *START) / "model"
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.tokenizer.pad_token = self.tokenizer.eos_token

    def ours(self, name, *keys):
        run(self.train, "--config", "finetune.yml", *RUN, f"dataset_path={self.data}",
            f"base_output_directory={self.work}", f"run_name={name}", *keys)
        return self.work / name

    def theirs(self, model, trainer, config, **keys):
        examples = datasets.Dataset.from_json(str(self.data), cache_dir=str(self.work / "cache"))
        training = trainer(model=model, processing_class=self.tokenizer, train_dataset=examples,
                           args=config(output_dir=str(self.work / "theirs"), per_device_train_batch_size=len(examples),
                                       **THEIR_RUN, **keys))
        training.remove_callback(transformers.PrinterCallback)
        training.train()
        return [record for record in training.state.log_history if "rewards/margins" in record]

    def steps_of(self, name, steps):
        """Of each step our record and theirs."""
        keys, (trainer, config), their_keys, rate, _ = OBJECTIVES[name]
        keys = [*keys, f"load_parameters_path={self.folder}"]
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
        if name.endswith("LoRA"):
            adapter = self.ours("adapter", *keys, *START) / "adapter"
            keys.append(f"load_adapter_path={adapter}")
            model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
        folder = self.ours(name, *keys, f"steps={steps}", f"learning_rate={rate}", "enable_checkpointing=false")
        theirs = self.theirs(model, trainer, config, max_steps=steps, learning_rate=rate, **their_keys)
        ours = [record for record in records(folder) if "loss" in record]
        assert len(ours) == len(theirs) == steps, f"{name}: {len(ours)} and {len(theirs)} steps of {steps}"
        return list(zip(ours, theirs))


def apart(steps, metric):
    return max(abs(ours[metric] - theirs[METRICS[metric]]) / max(abs(theirs[METRICS[metric]]), SMALL)
               for ours, theirs in steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    torch.set_num_threads(1)

    print("| objective | steps | margins apart | chosen rewards | losses | last margin: Longshore | TRL |")
    print("|" + " --- |" * 7)
    with tempfile.TemporaryDirectory() as work:
        comparison = Comparison(arguments.train, pathlib.Path(work))
        for name, objective in OBJECTIVES.items():
            steps = comparison.steps_of(name, round(arguments.steps * objective[-1]))
            found = {metric: apart(steps, metric) for metric in METRICS}
            ours, theirs = steps[-1]
            print(f"| {name} | {len(steps)} |" + "".join(f" {part:.4%} |" for part in found.values())
                  + f" {ours['rewards_margins']:.5f} | {theirs['rewards/margins']:.5f} |", flush=True)
            assert max(found.values()) <= LIMIT, f"{name}: {found} apart, allowed {LIMIT}"


main()
