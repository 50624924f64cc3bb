"""Tokens a second of `generate`, beside transformers' generate() and what memory allows: each token
reads all weights once. Random weights in bfloat16; each round measures all three, one after the
other, so that a busy machine slows all of them.

    cmake --build build --target generate
    OMP_WAIT_POLICY=passive .deps/transformers/bin/python tests/bench/generate.py
"""
# The folder of this script has a tokenizers.py that is not the package.
import sys

sys.path.pop(0)

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {
    "110M": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
                 num_attention_heads=12, num_key_value_heads=12, vocab_size=32000),
    "1.2B": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                 num_attention_heads=32, num_key_value_heads=8, vocab_size=128256),
}
PROMPT = "The boats wait in the harbour. "


def write_model(name, folder):
    config = LlamaConfig(**MODELS[name], max_position_embeddings=4096, tie_word_embeddings=True,
                         eos_token_id=None)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    shutil.copy(ROOT / "tests/goldens/tokenizers/sp_bpe/tokenizer.model", folder)
    return model.eval()


def bytes_per_second(buffer):
    start = time.perf_counter()
    buffer.sum()
    return buffer.nbytes / (time.perf_counter() - start)


# Both count from the first new token on, which comes of the prompt's run.
def ours(folder, prompt, tokens):
    result = subprocess.run(
        [ROOT / "build/bin/generate", "--model", folder, "--prompt", prompt, "--max-tokens",
         str(tokens), "--temperature", "0", "dtype=bfloat16"], capture_output=True, check=True)
    return float(re.search(rb"([\d.]+) tokens/s", result.stderr)[1])


class Times:
    """A streamer that notes when tokens come; the first call is the prompt."""

    def __init__(self):
        self.times = []

    def put(self, _):
        self.times.append(time.perf_counter())

    def end(self):
        pass


def theirs(model, prompt_tokens, tokens):
    times = Times()
    ids = torch.arange(3, 3 + prompt_tokens)[None]
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), min_new_tokens=tokens,
                       max_new_tokens=tokens, do_sample=False, pad_token_id=0, streamer=times)
    return (tokens - 1) / (times.times[-1] - times.times[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48)
    arguments = parser.parse_args()
    buffer = torch.ones(2**28)  # 1 GiB
    print(f"{torch.get_num_threads()} threads; medians of {arguments.rounds} rounds")
    for name in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            model = write_model(name, folder)
            # What a token reads: all weights but the embedding table, which is the head as well.
            weight_bytes = sum(p.nbytes for p in model.parameters())
            rounds = []
            for _ in range(arguments.rounds):
                limit = max(bytes_per_second(buffer) for _ in range(3)) / weight_bytes
                rounds.append((limit, ours(folder, PROMPT, arguments.tokens),
                               theirs(model, 20, arguments.tokens)))
        limit, we, they = (statistics.median(column) for column in zip(*rounds))
        of_limit = statistics.median(w / l for l, w, _ in rounds)
        ratio = statistics.median(w / t for _, w, t in rounds)
        print(f"{name}: {weight_bytes / 1e9:.2f} GB a token; memory allows {limit:.1f} tokens/s, "
              f"generate {we:.1f} ({of_limit:.0%} of it), transformers {they:.1f}; "
              f"generate / transformers {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
