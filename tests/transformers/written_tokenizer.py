#!/usr/bin/env python3
"""Texts and conversations have the ids in transformers that a run was trained on, whatever tokenizer it had.

usage: written_tokenizer.py TRAIN

For each tokenizer of tests/goldens/tokenizers, a run is trained that writes a model's folder. AutoTokenizer then gives
the ids of cases.json, and apply_chat_template those in the token file of the same conversation.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import transformers

GOLDENS = pathlib.Path("tests/goldens/tokenizers")
TEMPLATES = {"sp_bpe": "llama2", "sp_unigram": "llama2", "llama2_bpe": "llama2", "sp_bpe_gemma": "gemma",
             "gemma_bpe": "gemma", "bytelevel_bpe_llama3": "llama3", "bytelevel_bpe_qwen": "chatml"}
MODELS = ["llama3_8b", "gemma2_9b", "mistral_7b", "qwen3_8b"]
SMALL = ("base_emb_dim=32 base_num_decoder_layers=2 base_num_query_heads=2 base_num_kv_heads=2 head_dim=16 "
         "base_mlp_dim=32 vocab_size=1024 max_target_length=64 per_device_batch_size=1 backend=cpu steps=1 "
         "peak_tflops_per_device=1 dtype=float32 packing=false sample_tokens=0 dataset_type=documents "
         "eval_dataset_path= eval_interval=-1").split()
TURNS = [("user", " Where is the ship?\n"), ("assistant", "In  port. "), ("user", "And the boat?\n\nNow."),
         ("assistant", "At sea: caf\u00e9 \u4f60\u597d \U0001F6A2")]
SYSTEM = ("system", "You know\tships. ")
MESSAGES = [[{"role": role, "content": content} for role, content in turns] for turns in (TURNS, [SYSTEM, *TURNS])]


TEXTS = ["The ship is in port.", " Where is the ship?\n\nAt sea: caf\u00e9 \u4f60\u597d \U0001F6A2"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def documents_in(path):
    """Their ids; longshore/data/rows/token_file.h has the format."""
    bytes_ = path.read_bytes()
    width, tokens, documents = (int.from_bytes(bytes_[a:b], "little") for a, b in ((12, 16), (16, 24), (24, 32)))
    has_marks = int.from_bytes(bytes_[44:48], "little")
    ids = numpy.frombuffer(bytes_, f"<u{width}", tokens, 80).astype(numpy.int64)
    if has_marks:
        ids = ids & (2 ** (8 * width - 1) - 1)
    ends = numpy.frombuffer(bytes_[-8 * documents:], "<u8")
    return [part.tolist() for part in numpy.split(ids, ends[:-1].astype(numpy.int64))]


def is_beyond(tokenizer, text):
    """A tokenizer.json recognises control tokens in a text; with a normaliser's rules it composes no long characters."""
    has_rules = '"Precompiled"' in tokenizer.backend_tokenizer.to_str()
    return (has_rules and unicodedata.normalize("NFC", text) != text) or any(
        token.content in text for token in tokenizer.added_tokens_decoder.values() if token.special)


def trained(train, work, golden, model, template):
    source = next(GOLDENS.joinpath(golden).glob("tokenizer.*"))
    odd = work / f"my_tokenizer{source.suffix}"
    shutil.copy(source, odd)
    data = work / "data.jsonl"
    lines = [{"messages": messages} for messages in MESSAGES] if template else [{"text": text} for text in TEXTS]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(train, "--config", "llama3_8b.yml", f"model_name={model}", *SMALL, f"chat_template={template or 'none'}",
        f"tokenizer_path={odd}", f"dataset_path={data}", f"base_output_directory={work}", "run_name=run")
    return work / "run" / "model"


def expect_ids(golden, folder, is_sentencepiece):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    cases = json.loads((GOLDENS / golden / "cases.json").read_text())["cases"]
    count = 0
    for case in cases:
        if is_sentencepiece and is_beyond(tokenizer, case["text"]):
            continue
        found = tokenizer(case["text"], add_special_tokens=False).input_ids
        assert found == case["ids"], f"{folder}: {case['text']!r}: found {found}, expected {case['ids']}"
        count += 1
    assert count > 200
    return tokenizer, count


def expect_documents(tokenizer, template, work):
    """As the run was trained on them."""
    [file] = (work / "tokens").glob("*")
    found = documents_in(file)
    if not template:
        expected = [tokenizer(text).input_ids + [tokenizer.eos_token_id] for text in TEXTS]
    else:
        expected = [tokenizer.apply_chat_template(messages, return_dict=False) for messages in MESSAGES]
        for messages in MESSAGES:
            whole = tokenizer.apply_chat_template(messages, tokenize=False)
            opened = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
            assert whole.startswith(opened), f"{template}: {opened!r} does not begin {whole!r}"
    assert found == expected, f"{template}: found {expected}, expected {found}"


def main():
    for i, golden in enumerate(sorted(path.name for path in GOLDENS.iterdir())):
        template = TEMPLATES.get(golden, "")
        with tempfile.TemporaryDirectory() as name:
            work = pathlib.Path(name)
            folder = trained(sys.argv[1], work, golden, MODELS[i % len(MODELS)], template)
            is_sentencepiece = (folder / "tokenizer.model").exists()
            tokenizer, count = expect_ids(golden, folder, is_sentencepiece)
            expect_documents(tokenizer, template, work)
            print(f"{golden}: {count} texts{' and conversations' if template else ''} have the same ids")


main()
