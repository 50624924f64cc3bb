#!/usr/bin/env python3
"""Longshore's tokenizers beside Hugging Face's and sentencepiece's own, on one core, in turns.

usage: tokenizers.py TEXT TOKENIZER...    [--program build/bin/bench_tokenizers] [--rounds 7]

TEXT is a UTF-8 file of some megabytes; TOKENIZER a tokenizer.json or tokenizer.model. Each is
measured on documents of about 4 KB, and on documents of about 1 MB. Prints MB/s of both and their
ratio (Longshore / other: median of the rounds, quartiles). Fails when the ids differ in number.

Needs the tokenizers and sentencepiece packages of PyPI, best in a virtual environment:
    python3 -m venv VENV && VENV/bin/pip install tokenizers sentencepiece
    VENV/bin/python tests/bench/tokenizers.py TEXT tokenizer.json
"""

import os

# Before the libraries are loaded: one core each.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

# The folder of this script, which would hide the tokenizers package, is not searched.
import sys

sys.path.pop(0)

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time


def documents_of(text, size):
    """Cut after a line's end, in documents of at least `size` characters but the last."""
    documents, document, length = [], [], 0
    for line in text.splitlines(keepends=True):
        document.append(line)
        length += len(line)
        if length >= size:
            documents.append("".join(document))
            document, length = [], 0
    return documents + (["".join(document)] if document else [])


def reference(path):
    """A function that encodes documents and returns how many ids there are."""
    if path.suffix == ".json":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        return lambda documents: sum(
            len(e) for e in tokenizer.encode_batch_fast(documents, add_special_tokens=False))
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return lambda documents: sum(map(len, processor.encode(documents, num_threads=1)))


class Longshore:
    def __init__(self, program, tokenizer, documents):
        self.file = tempfile.NamedTemporaryFile()
        self.file.write("".join(d + "\0" for d in documents).encode())
        self.file.flush()
        self.process = subprocess.Popen([program, tokenizer, self.file.name], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            sys.exit(f"bench_tokenizers gave no answer (exit code {self.process.wait()})")
        return float(answer[0]), int(answer[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(program, path, documents, rounds):
    ours = Longshore(program, path, documents)
    encode = reference(path)
    megabytes = sum(len(d.encode()) for d in documents) / 1e6

    def other_round():
        start = time.perf_counter()
        count = encode(documents)
        return time.perf_counter() - start, count

    measured = []
    for number in range(rounds + 1):
        if number % 2:
            theirs, our = other_round(), ours.round()
        else:
            our, theirs = ours.round(), other_round()
        if our[1] != theirs[1]:
            sys.exit(f"{path}: {our[1]} ids, the other library has {theirs[1]}")
        if number:  # the first does not count
            measured.append((our[0], theirs[0]))
    ours.close()
    ratios = [theirs / our for our, theirs in measured]
    low, middle, high = statistics.quantiles(ratios, n=4)
    our_rate = megabytes / statistics.median(our for our, _ in measured)
    their_rate = megabytes / statistics.median(theirs for _, theirs in measured)
    print(f"  {len(documents):6} documents: {our_rate:7.2f} MB/s, other {their_rate:7.2f} MB/s, "
          f"ratio {middle:5.2f} ({low:.2f} to {high:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("tokenizers", type=pathlib.Path, nargs="+")
    parser.add_argument("--program", default="build/bin/bench_tokenizers")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    text = arguments.text.read_bytes().decode().replace("\0", "")
    for path in arguments.tokenizers:
        print(path, flush=True)
        for size in (4_000, 1_000_000):
            compare(arguments.program, path, documents_of(text, size), arguments.rounds)


if __name__ == "__main__":
    main()
