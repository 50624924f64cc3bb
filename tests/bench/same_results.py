#!/usr/bin/env python3
"""Shows that two builds compute, save and plan the same, to the bit: for changes that move code.

usage: same_results.py record BUILD FOLDER    trains tiny models with the programs in BUILD/bin, one
                                              run for each of the cases below, and plans all recipes
                                              on all profiles; what comes out goes into FOLDER
       same_results.py compare FOLDER FOLDER  says where two records differ; exit code 1 if they do

A run's record has its losses, norms and learning rates with all digits, and the hash of every file of
its checkpoint. Models begin from seeds or from the folders in tests/goldens/models; they compute on the
CPU, with two threads. Where the processor has no AVX-512, runs in bfloat16 are recorded as refused.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/goldens/models"

SMALL = ("base_emb_dim=32 base_num_decoder_layers=3 base_num_query_heads=2 base_num_kv_heads=1 head_dim=16 "
         "base_mlp_dim=48 vocab_size=61 max_target_length=32 ")
ALL = ("per_device_batch_size=2 steps=4 dataset_type=synthetic eval_dataset_path= sample_tokens=0 "
       "tokenizer_path= peak_tflops_per_device=1 learning_rate_schedule_steps=40 backend=cpu ")
HOST = "parameter_memory_host_offload=true gradient_memory_host_offload=true optimizer_memory_host_offload=true "
GEMMA3 = "model_type=gemma3_text sliding_window_size=8 full_attention_period=3 logits_via_embedding=true "

# By name: settings of small models from seeds.
SEEDED = {
    "llama": "",
    "llama_bfloat16": "dtype=bfloat16",
    "llama_full": "remat_policy=full",
    "llama_minimal_offloaded": "remat_policy=minimal_offloaded",
    "llama_qkv_offloaded": "remat_policy=qkv_proj_offloaded offload_layers=2",
    "llama_custom": "remat_policy=custom query_proj=offload context=device mlpwi_0=remat",
    "llama_on_the_host": HOST,
    "llama_updates_on_the_host": HOST + "optimizer_compute=host remat_policy=full",
    "llama_ahead": HOST + "prefetch_layers=2",
    "llama_micro_batches": "gradient_accumulation_steps=3",
    "llama_no_clipping": "gradient_clipping_threshold=0",
    "llama_previous_norm": "gradient_clipping=previous_global_norm",
    "llama_bfloat16_moments": "moment_dtype=bfloat16",
    "llama_8bit_moments": "moment_dtype=8bit",
    "llama_bfloat16_weights": "dtype=bfloat16 weight_dtype=bfloat16 moment_dtype=8bit",
    "llama_lora": "lora_rank=2 lora_targets=all-linear",
    "llama_a_part": "trainable_parameters_mask=self_attn",
    "llama_saves_behind": "checkpoint_period=2 async_checkpointing=true",
    "mistral": "model_type=mistral sliding_window_size=8",
    "qwen2": "model_type=qwen2",
    "qwen3": "model_type=qwen3",
    "gemma": "model_type=gemma logits_via_embedding=true",
    "gemma2": "model_type=gemma2 sliding_window_size=8 logits_via_embedding=true remat_policy=full",
    "gemma3": GEMMA3,
    "gemma3_lora": GEMMA3 + "lora_rank=2 remat_policy=minimal_offloaded",
}
# Folders to go on from.
CONTINUED = ["llama31_gqa", "llama32_tied", "mistral_window", "qwen2_bias", "qwen3_qknorm", "gemma1_mqa",
             "gemma2", "gemma3_text"]
# Of several processes.
RANKS = {
    "two_ranks_fsdp": "",
    "two_ranks_data": "ici_data_parallelism=2 ici_fsdp_parallelism=1",
    "two_ranks_zero1": "ici_data_parallelism=2 ici_fsdp_parallelism=1 shard_optimizer_over_data=true",
}
EXACT = ("step", "loss", "grad_norm", "learning_rate", "total_weights", "validation_loss")


def program(build, name):
    return str(pathlib.Path(build).resolve() / "bin" / name)


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT,
                          env=dict(os.environ, OMP_NUM_THREADS="2"), **options)


def record_of_run(folder):
    """Steps and checkpoints of the run in `folder`."""
    steps = []
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        for line in lines:
            step = json.loads(line)
            steps.append({key: step[key] for key in EXACT if key in step})
    checkpoints = {}
    for manifest in sorted(folder.glob("checkpoints/*/manifest.json")):
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        checkpoints[manifest.parent.name] = {
            file["path"]: hashlib.sha256((manifest.parent / file["path"]).read_bytes()).hexdigest()
            for file in files if not file["path"].endswith("adapter_config.json")}
    return {"steps": steps, "checkpoints": checkpoints}


def train(build, name, settings, ranks=1):
    with tempfile.TemporaryDirectory() as output:
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)] if ranks > 1 else []
        recipe = "finetune.yml" if "load_parameters_path" in settings else "quickstart.yml"
        done = run(launch + [program(build, "train"), "--config", recipe,
                             f"base_output_directory={output}", "run_name=a"] + settings.split())
        if done.returncode != 0:
            return name, {"exit_code": done.returncode, "error": done.stderr.replace(output, "OUTPUT")}
        return name, record_of_run(pathlib.Path(output) / "a")


def in_float32(settings):
    """Unless they say otherwise."""
    return settings if "dtype=" in settings.replace("moment_dtype=", "") else "dtype=float32 " + settings


def training_cases():
    for name, settings in SEEDED.items():
        yield name, SMALL + ALL + in_float32(settings), 1
    for name in CONTINUED:
        yield ("from_" + name,
               ALL + f"load_parameters_path={GOLDENS / name} dataset_path= max_target_length=16 dtype=float32 "
               "remat_policy=full", 1)
    for name, settings in RANKS.items():
        yield name, SMALL + ALL + in_float32("remat_policy=full " + settings), 2


def plan(build, recipe, profile):
    """Hashes, for the texts are long; and the figures of a step, to see what changed."""
    name = f"{recipe} on {profile}"
    command = [program(build, "plan"), "--config", recipe, "--hardware", profile, "--no-advice"]
    if recipe in ("finetune.yml", "lora.yml"):
        command += [f"load_parameters_path={GOLDENS / 'llama31_gqa'}", "dataset_type=synthetic",
                    "dataset_path=", "eval_dataset_path="]
    text, data = run(command), run(command + ["--json", "-"])
    digest = hashlib.sha256((text.stdout + text.stderr).encode()).hexdigest()
    return name, {"exit_code": text.returncode, "text": digest,
                  "json": hashlib.sha256(data.stdout.encode()).hexdigest(),
                  "lines": (text.stdout or text.stderr).splitlines()[:12]}


def record(build, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = dict(pool.map(lambda case: train(build, *case), training_cases()))
        recipes = sorted(path.name for path in (ROOT / "configs").glob("*.yml"))
        profiles = sorted(path.stem for path in (ROOT / "configs/hardware").glob("*.yml"))
        pairs = [(recipe, profile) for recipe in recipes for profile in profiles]
        plans = dict(pool.map(lambda pair: plan(build, *pair), pairs))
    for name, what in (("runs", runs), ("plans", plans)):
        (folder / f"{name}.json").write_text(json.dumps(what, indent=1), encoding="utf-8")
    failed = [name for name, one in runs.items() if "error" in one and "AVX-512" not in one["error"]]
    print(f"{len(runs)} runs, {len(plans)} plans: {folder}")
    if failed:
        sys.exit("\n".join(f"{name} failed: {runs[name]['error']}" for name in failed))


def compare(before, after):
    differences = []
    for name in ("runs", "plans"):
        old, new = (json.loads((pathlib.Path(folder) / f"{name}.json").read_text(encoding="utf-8"))
                    for folder in (before, after))
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) == new.get(key):
                continue
            a, b = old.get(key) or {}, new.get(key) or {}
            fields = [field for field in sorted(a.keys() | b.keys()) if a.get(field) != b.get(field)]
            differences.append(f"{key}: {', '.join(fields)}")
    print("\n".join(differences) or "no difference")
    return 1 if differences else 0


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    if sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    record(*sys.argv[2:])


main()
