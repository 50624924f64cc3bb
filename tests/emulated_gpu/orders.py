#!/usr/bin/env python3
"""Trains on a GPU that is emulated on the CPU, its streams' work done early, late and in between: losses, norms and what is
saved must be the same bits in any order, also where a run was stopped. And a step allocates nothing, and waits for the GPU
once.

usage: tests/emulated_gpu/orders.py BUILD
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ORDERS = ["late", "early", *(f"mixed{seed}" for seed in range(1, 7))]
LANES = 5  # each of which is a stream to wait for
SMALL = ["base_emb_dim=64", "base_num_decoder_layers=4", "base_num_query_heads=4", "base_num_kv_heads=2", "head_dim=16",
         "base_mlp_dim=96", "max_target_length=32", "per_device_batch_size=2", "peak_tflops_per_device=1",
         "learning_rate_schedule_steps=8", "sample_tokens=0", "backend=cuda"]
SYNTHETIC = ["dataset_type=synthetic", "eval_dataset_path=", "tokenizer_path=", "vocab_size=256"]
HOST = {what: f"{what}_memory_host_offload=true" for what in ("parameter", "gradient", "optimizer")}
SAVED = ["checkpoint_period=1", "max_num_checkpoints_to_keep=-1"]
NOT_SAVED = ["enable_checkpointing=false"]


@dataclasses.dataclass
class Setting:
    what: str
    keys: list[str]
    on_documents: bool = False
    dtypes: tuple[str, ...] = ("float32", "bfloat16")

    @property
    def is_plain(self):
        """Nothing but steps: these are counted."""
        return not self.on_documents and SAVED[0] not in self.keys

    @property
    def waits(self):
        """Of a step: for its streams, and before, asleep, for what the host computes."""
        return LANES + ("optimizer_compute=host" in self.keys)


SETTINGS = [
    Setting("nothing offloaded", ["remat_policy=none", *NOT_SAVED]),
    Setting("activations offloaded", ["remat_policy=minimal_offloaded", *NOT_SAVED]),
    Setting("all offloaded", ["remat_policy=qkv_proj_offloaded", *HOST.values(), "gradient_accumulation_steps=2",
                              *NOT_SAVED]),
    Setting("updated on the host", ["remat_policy=full", HOST["optimizer"], "optimizer_compute=host", *NOT_SAVED]),
    Setting("small states offloaded", ["remat_policy=save_qkv_proj", HOST["optimizer"], "moment_dtype=8bit",
                                       "weight_dtype=bfloat16", *NOT_SAVED],
            dtypes=("bfloat16",)),
    Setting("saved", ["remat_policy=minimal_with_context", *SAVED]),
    Setting("saved, all offloaded", ["remat_policy=qkv_proj_offloaded", *HOST.values(), *SAVED]),
    Setting("adapters, saved", ["remat_policy=full", "lora_rank=4", HOST["parameter"], *SAVED]),
    Setting("packed documents, windows and caps", [
        "remat_policy=minimal_offloaded", HOST["optimizer"], "model_type=gemma2", "attn_logits_soft_cap=50",
        "final_logits_soft_cap=30", "sliding_window_size=12", "full_attention_period=2", "query_pre_attn_scalar=16",
        "logits_via_embedding=true", "eval_interval=2", "eval_steps=1", *SAVED], on_documents=True),
    Setting("experts", ["remat_policy=minimal_offloaded", HOST["optimizer"], "model_type=qwen3_moe", "num_experts=8",
                        "num_experts_per_tok=2", "base_moe_mlp_dim=48", "load_balance_loss_weight=0.01", *NOT_SAVED]),
]


@dataclasses.dataclass
class Run:
    steps: list[tuple[float, float]]  # losses and norms
    saved: dict[str, str]  # hashes of the files of its checkpoints
    counts: dict[str, int]  # what the GPU counted

    def is_like(self, other):
        return self.steps == other.steps and self.saved == other.saved


def documents(folder):
    """Keys for some, which it writes."""
    path = folder / "documents.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Ship {i * 37 % 101}", "completion": "a" * (i * 5 % 23 + 1)}) + "\n"
                            for i in range(60)))
    return ["dataset_type=documents", f"dataset_path={path}", f"eval_dataset_path={path}", "vocab_size=512",
            f"tokenizer_path={ROOT / 'tests/goldens/tokenizers/bytelevel_bpe_qwen'}"]


def train(build, folder, name, order, steps, keys):
    counts = folder / f"{name}.json"
    environment = dict(os.environ, LONGSHORE_EMULATED_ORDER=order, LONGSHORE_EMULATED_COUNTS=str(counts))
    command = [ROOT / "tests/emulated_gpu/run", build, build / "bin/train", "--config", "quickstart.yml", f"steps={steps}",
               f"base_output_directory={folder}", f"run_name={name}", *SMALL, *keys]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"{order}: {' '.join(keys)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    lines = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    saved = sorted((folder / name / "checkpoints").rglob("*.safetensors"))
    return Run([(step["loss"], step["grad_norm"]) for step in lines if "loss" in step],
               {str(path.relative_to(folder / name)): hashlib.sha256(path.read_bytes()).hexdigest() for path in saved},
               json.loads(counts.read_text()))


def check(build, setting, dtype):
    """Says what it found, and returns whether that is good."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        keys = [f"dtype={dtype}", *(documents(folder) if setting.on_documents else SYNTHETIC), *setting.keys]
        runs = {order: train(build, folder, order, order, 4, keys) for order in ORDERS}
        if setting.is_plain:
            longer = train(build, folder, "longer", "late", 8, keys)
            runs["8 steps"] = Run(longer.steps[:4], {}, longer.counts)
        else:
            train(build, folder, "stopped", "mixed1", 2, keys)
            runs["stopped after 2"] = train(build, folder, "stopped", "mixed2", 4, keys)
    expected = runs["late"]
    differ = [order for order, run in runs.items() if not run.is_like(expected)]
    is_good = not differ and len(expected.steps) == 4
    found = f"differs: {', '.join(differ)}" if differ else "same bits in all orders"
    if setting.is_plain:
        more = {what: runs["8 steps"].counts[what] - expected.counts[what] for what in ("allocations", "waits")}
        is_good = is_good and more == {"allocations": 0, "waits": 4 * setting.waits}
        found += f", 4 more steps allocate {more['allocations']} times, each waits {more['waits'] / 4:g} times at its end"
    else:
        is_good = is_good and len(expected.saved) > 0
        found += f", also in {len(expected.saved)} files of checkpoints"
    print(f"{setting.what}, {dtype}: {found}{'' if is_good else ': FAILED'}", flush=True)
    for order in ["late", *differ] if differ else []:
        print(f"  {order}: losses and norms {runs[order].steps}, saved {runs[order].saved}")
    return is_good


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    results = [check(build, setting, dtype) for setting in SETTINGS for dtype in setting.dtypes]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
