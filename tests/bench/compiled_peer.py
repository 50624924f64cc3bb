#!/usr/bin/env python3
"""Training steps of a plain Llama under torch.compile, with fused AdamW and, on a GPU, cuDNN's attention.

usage: compiled_peer.py MODEL.yml [KEY=VALUE ...] [--rows 8] [--cases none:2,full:4] [--device cuda]
                        [--steps 5] [--json F]

MODEL.yml is one of configs/models, a Llama; keys behind it overrule its own, among them max_target_length.
Weights and moments are float32, products bfloat16 by autocast. `full` is checkpointing of each layer, `half` of every
other. Layers are compiled each by itself, and so is what follows them: all layers are alike and compiled once. A case is
a policy and how many rows it takes at once; gradients of as many micro-batches as make --rows are added up. Prints of
each case the median step, after two that do not count, tokens a second, the first loss, and the most memory that its
tensors took.
"""

import argparse
import gc
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # more fits
import torch  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parent))  # last: files there have names of libraries
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
from atomic_file import write_json  # noqa: E402
from plain_llama import Llama, training_step  # noqa: E402

KEYS = {"base_emb_dim": "hidden_size", "base_num_decoder_layers": "num_hidden_layers",
        "base_num_query_heads": "num_attention_heads", "base_num_kv_heads": "num_key_value_heads",
        "head_dim": "head_dim", "base_mlp_dim": "intermediate_size", "vocab_size": "vocab_size",
        "normalization_layer_epsilon": "rms_norm_eps", "rope_max_timescale": "rope_theta"}
DEFAULTS = {"max_target_length": 2048, "normalization_layer_epsilon": 1e-5, "rope_max_timescale": 10000}
CHECKPOINTED_OF = {"none": 0, "half": 2, "full": 1}
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


def measure(config, rows, batch, length, policy, device, steps):
    with torch.device(device):
        torch.manual_seed(0)
        model = Llama(config, CHECKPOINTED_OF[policy])
        batches = [torch.randint(config["vocab_size"], (batch, length + 1)) for _ in range(rows // batch)]
    for layer in model.layers:
        layer.compile(dynamic=False)
    model.loss = torch.compile(model.loss, dynamic=False)
    losses_of = [lambda tokens=tokens: model(tokens[:, :-1], tokens[:, 1:]) for tokens in batches]
    step = training_step(model, losses_of, "bfloat16", device)
    seconds, losses = [], []
    for _ in range(WARM_UP + steps):
        start = time.perf_counter()
        losses.append(step())  # and waits for it
        seconds.append(time.perf_counter() - start)
    found = {"step_seconds": statistics.median(seconds[WARM_UP:]), "first_step_seconds": seconds[0],
             "losses": losses}
    found["tokens_per_second"] = rows * length / found["step_seconds"]
    if device == "cuda":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    return found


def line_of(found):
    if "failure" in found:
        return found["failure"]
    line = (f"{found['step_seconds']:9.4f} s {found['tokens_per_second']:9.0f} tokens/s, first loss "
            f"{found['losses'][0]:.4f}, compiled in {found['first_step_seconds']:.1f} s")
    return line + (f", {found['peak_bytes'] / 2**30:.2f} GiB" if "peak_bytes" in found else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--cases", default="none:1,full:1")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    config, numbers = read_model(arguments.model, arguments.settings)
    cases = [(policy, int(batch)) for policy, _, batch in (case.partition(":") for case in arguments.cases.split(","))]
    if unknown := [policy for policy, _ in cases if policy not in CHECKPOINTED_OF]:
        sys.exit(f"compiled_peer: found policy {unknown[0]}, expected one of {', '.join(CHECKPOINTED_OF)}")
    if odd := [case for case in cases if arguments.rows % case[1] != 0]:
        sys.exit(f"compiled_peer: found {odd[0][1]} rows at once, expected a divisor of {arguments.rows}")
    if arguments.device == "cuda":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        attention = sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True)
        attention.__enter__()  # to the end
    results = []
    for policy, batch in cases:
        torch._dynamo.reset()
        try:
            found = measure(config, arguments.rows, batch, numbers["max_target_length"], policy, arguments.device,
                            arguments.steps)
        except Exception as error:  # the others go on
            found = {"failure": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        results.append({"batch": batch, "policy": policy} | found)
        print(f"torch.compile {policy:6} {batch} rows {line_of(found)}", flush=True)
        if arguments.json:
            write_json(arguments.json, results)
        if arguments.device == "cuda":
            gc.collect()  # a failure's frames hold tensors
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    if all("failure" in found for found in results):
        sys.exit("compiled_peer: nothing went")


main()
