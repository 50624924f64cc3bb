#!/usr/bin/env python3
"""How long `train` takes to its first step when it starts from a large checkpoint.

usage: startup.py TRAIN FOLDER [--layers 18]

Writes a Hugging Face folder in the shape of Llama 3 8B with so many layers, 10 GB in bfloat16, to
FOLDER (once), then reads its file, and starts a LoRA run from it: each twice, first from the disk
and then from the page cache.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import time

WIDTH, FFN, HEADS, KV_HEADS, VOCABULARY = 4096, 14336, 32, 8, 128256


def tensors(layers):
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (WIDTH,)
        yield layer + "self_attn.q_proj.weight", (WIDTH, WIDTH)
        for name in ("k_proj", "v_proj"):
            yield layer + f"self_attn.{name}.weight", (KV_HEADS * WIDTH // HEADS, WIDTH)
        yield layer + "self_attn.o_proj.weight", (WIDTH, WIDTH)
        yield layer + "post_attention_layernorm.weight", (WIDTH,)
        for name in ("gate_proj", "up_proj"):
            yield layer + f"mlp.{name}.weight", (FFN, WIDTH)
        yield layer + "mlp.down_proj.weight", (WIDTH, FFN)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (VOCABULARY, WIDTH)


def write_folder(folder, layers):
    folder.mkdir(parents=True)
    header, end = {}, 0
    for name, shape in tensors(layers):
        begin = end
        end += 2 * (shape[0] if len(shape) == 1 else shape[0] * shape[1])
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = struct.pack("<H", 0x3C00) * (1 << 23)  # 2^-7, which no weight is far from
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, len(block)):
            file.write(block[: end - begin])
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": WIDTH, "intermediate_size": FFN, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "num_hidden_layers": layers, "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 8192,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"}))


def forget(path):
    """Takes the file out of the page cache."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def read(path):
    start = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(1 << 24)
        while file.readinto(buffer):
            pass
    return time.perf_counter() - start


def first_step(train, folder, layers):
    """Seconds from the start of the process to its first line about a step."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [train, "--config", "llama3_8b.yml", f"base_num_decoder_layers={layers}",
         f"load_parameters_path={folder}", "lora_rank=8", "dataset_type=synthetic", "steps=1",
         "per_device_batch_size=1", "max_target_length=16", "enable_checkpointing=false",
         "backend=cpu", f"base_output_directory={folder / 'runs'}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("completed step: 0"):
            taken = time.perf_counter() - start
            step = float(line.split("seconds: ")[1].split(",")[0])
            process.wait()
            return taken, step
    raise SystemExit("startup: no step was made:\n" + "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=18)
    arguments = parser.parse_args()
    if not arguments.folder.exists():
        write_folder(arguments.folder, arguments.layers)
    path = arguments.folder / "model.safetensors"
    gigabytes = path.stat().st_size / 1e9
    for place in ("disk", "page cache"):
        if place == "disk":
            forget(path)
        reading = read(path)
        if place == "disk":
            forget(path)
        taken, step = first_step(arguments.train, arguments.folder, arguments.layers)
        print(f"{gigabytes:.1f} GB, {place}: read in {reading:.1f} s, {gigabytes / reading:.2f} GB/s; first step after "
              f"{taken:.1f} s, of which it took {step:.1f} s: {gigabytes / (taken - step):.2f} GB/s to get there",
              flush=True)


main()
