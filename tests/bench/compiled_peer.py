#!/usr/bin/env python3
"""Training steps of a plain Llama under torch.compile, with fused AdamW and, on a GPU, cuDNN's attention.

usage: compiled_peer.py MODEL.yml [KEY=VALUE ...] [--device cuda] [--policies none,full] [--steps 5] [--json F]
                        [--beside COMPARE.json]

MODEL.yml is one of configs/models, a Llama; keys behind it overrule its own, among them per_device_batch_size
and max_target_length. Weights and moments are float32, products bfloat16 by autocast. `full` is checkpointing
of each layer. Prints of each policy the median step, after two that do not count, tokens a second, and the
most memory that its tensors took; --beside: the step of the same policy, and of the quickest, in what `compare`
wrote, over it.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).parent))  # last: files there have names of libraries
from plain_llama import Llama, training_step  # noqa: E402

KEYS = {"base_emb_dim": "hidden_size", "base_num_decoder_layers": "num_hidden_layers",
        "base_num_query_heads": "num_attention_heads", "base_num_kv_heads": "num_key_value_heads",
        "head_dim": "head_dim", "base_mlp_dim": "intermediate_size", "vocab_size": "vocab_size",
        "normalization_layer_epsilon": "rms_norm_eps", "rope_max_timescale": "rope_theta"}
DEFAULTS = {"per_device_batch_size": 1, "max_target_length": 2048, "normalization_layer_epsilon": 1e-5,
            "rope_max_timescale": 10000}
WARM_UP = 2  # compiles


def read_model(path, settings):
    lines = [line.split("#")[0] for line in path.read_text().splitlines()]
    values = DEFAULTS | dict((word.strip() for word in line.split(":", 1)) for line in lines if ":" in line)
    if values.get("model_type") != "llama":
        sys.exit(f"compiled_peer: {path}: found model_type {values.get('model_type')}, expected llama")
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in KEYS and key not in DEFAULTS:
            sys.exit(f"compiled_peer: found key {key}, expected one of {', '.join([*KEYS, *DEFAULTS])}")
        values[key] = value
    missing = [key for key in KEYS if key not in values]
    if missing:
        sys.exit(f"compiled_peer: {path}: expected {', '.join(missing)}")
    numbers = {key: float(values[key]) for key in [*KEYS, *DEFAULTS]}
    numbers = {key: int(number) if number == int(number) else number for key, number in numbers.items()}
    return {KEYS[key]: number for key, number in numbers.items() if key in KEYS}, numbers


def measure(config, batch, length, policy, device, steps):
    with torch.device(device):
        torch.manual_seed(0)
        model = Llama(config, policy == "full")
        tokens = torch.randint(config["vocab_size"], (batch, length + 1))
    compiled = torch.compile(model)
    step = training_step(model, lambda: compiled(tokens[:, :-1], tokens[:, 1:]), "bfloat16", device)
    seconds = []
    for _ in range(WARM_UP + steps):
        start = time.perf_counter()
        step()  # and waits for its loss
        seconds.append(time.perf_counter() - start)
    found = {"step_seconds": statistics.median(seconds[WARM_UP:])}
    found["tokens_per_second"] = batch * length / found["step_seconds"]
    if device == "cuda":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    return found


def steps_of_longshore(path):
    """By policy."""
    plans = json.loads(path.read_text())["plans"]
    return {plan["policy"]: plan["measured"]["step_seconds"] for plan in plans if plan["measured"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--policies", default="none,full")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--beside", type=pathlib.Path)
    arguments = parser.parse_args()
    config, numbers = read_model(arguments.model, arguments.settings)
    longshore = {}
    if arguments.beside and arguments.beside.exists():
        longshore = steps_of_longshore(arguments.beside)
    if arguments.device == "cuda":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        attention = sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True)
        attention.__enter__()  # to the end
    results = {}
    for policy in arguments.policies.split(","):
        torch._dynamo.reset()
        try:
            found = measure(config, numbers["per_device_batch_size"], numbers["max_target_length"], policy,
                            arguments.device, arguments.steps)
        except torch.OutOfMemoryError:
            print(f"torch.compile {policy:6} does not fit", flush=True)
            continue
        finally:
            if arguments.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
        results[policy] = found
        line = f"torch.compile {policy:6} {found['step_seconds']:9.4f} s {found['tokens_per_second']:9.0f} tokens/s"
        if "peak_bytes" in found:
            line += f" {found['peak_bytes'] / 2**30:7.2f} GiB"
        if policy in longshore:
            line += f"   Longshore's {policy}: x {longshore[policy] / found['step_seconds']:.3f}"
        if longshore:
            quickest = min(longshore, key=longshore.get)
            line += f"   {quickest}: x {longshore[quickest] / found['step_seconds']:.3f}"
        print(line, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if not results:
        sys.exit("compiled_peer: nothing fits")


main()
