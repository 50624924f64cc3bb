#!/usr/bin/env python3
"""Forms of tokenizer.json that the goldens do not have, with the ids and texts that Hugging Face's
tokenizers gives them, a small tekken.json with those of tiktoken, and what tokenizers' BpeTrainer
learns: writes tests/goldens/tokenizer_json_forms.json, tekken/ and trained_bpe.json, or compares
programs.

usage: tests/tokenizers/run forms.py                                       after scripts/setup --tokenizers
       tests/tokenizers/run forms.py --compare build/bin/tokenize [TEXTS]

The second compares many texts, made at random; nothing is written.
"""
import base64
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

# The folder of this script, which would hide the tokenizers package, is not searched.
sys.path.pop(0)

import sentencepiece
import tiktoken
import tokenizers
from sentencepiece import sentencepiece_model_pb2

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"
TARGET = GOLDENS / "tokenizer_json_forms.json"

TEXTS = [
    "", " ", "the boats  wait in port", " The  BOATS Wait ", "caf\u00e9 cafe\u0301 \u212b\ufb01 \uff21\u0301b",
    "12 \u00bd \u0663\u0664 3.5e-7, a_b! \u00a1\u3010x\u3011", "a\tb\r\nc\u00a0d\u3000e\u2003 ", "\u2581a \u2581", "\u4f60\u597d \U0001f6a2\u200d\U0001f30a",
    "\u0130stanbul STRA\u1e9eE \u03a3\u0391\u03a3", "\ud55c\uae00 \u1112\u1161\u11ab", "x<0x41>y <a> z",
    "q\u0301\u0323 \u1abf\u0301", "\ufdfa \u33a5 \u2460 \u00b2", "zq\u00ff\u00c0zq",
]

# What texts made at random consist of.
PIECES = list("abcdeghinoprstuwyzAIOQZ0129 .,!?'-_<>\t\n\r") + TEXTS[1:] + [
    " the", "  ", "\u0301", "\u0323", "\u00c5", "\u0130", "\u03a3", "\u1e9e", "\uff21", "\uff42", "\u00a0", "\u3000", "\u2028",
    "\u0660", "\u2160", "\u00be", "\u2581", "\u2581\u2581", "\U0001f468\u200d\U0001f469", "\u0600", "\u0915\u094d\u0937",
    "<0x41>", "\u200b", "\u00e9", "\u00df", "\u01c5", "\u212a", "\u00ad", "\U00010400", "\u037e", "\ufeff",
]


def golden(name):
    return json.loads((GOLDENS / "tokenizers" / name / "tokenizer.json").read_text())


def unigram():
    """A small Unigram with normaliser's rules of its own, as transformers makes it of sentencepiece's."""
    rules = [("\uff21", "A"), ("\u00e9", "e"), ("e\u0301", "e"), ("\u00a0", " "), ("\t", " "), ("\n", " "), ("\u2460", "(1)"),
             ("\u200b", ""), ("A", "a"), ("\u0600", "n"), ("\u0915", "k"), ("\u2122", "TM"), ("\ufb01", "fi")]
    with tempfile.TemporaryDirectory() as folder:
        tsv = pathlib.Path(folder) / "rules.tsv"
        code = lambda text: " ".join("%X" % ord(c) for c in text)
        tsv.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in rules))
        model = io.BytesIO()
        words = ["the boats wait in port", "the ship is at sea", "where is the boat", "no port no sea 12 13", "(1) xyz,."] * 20
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(words), model_writer=model, vocab_size=70, minloglevel=2,
            normalization_rule_tsv=str(tsv), hard_vocab_limit=False)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, token in enumerate(["<unk>", "<s>", "</s>"])]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Precompiled",
                 "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()},
                {"type": "Strip", "strip_left": False, "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]},
            "pre_tokenizer": metaspace, "post_processor": None, "decoder": metaspace,
            "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                      "vocab": [[piece.piece, round(piece.score, 4)] for piece in proto.pieces]}}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}


def without(name, tokens, names=()):
    """The tokens' ids are those of `names` then, or of tokens that are in no text; merges that make
    or use the tokens go."""
    model = golden(name)["model"]
    vocab = model["vocab"]
    change = {token: None for token in tokens}
    for i, token in enumerate(tokens):
        change[names[i] if i < len(names) else f"<gone {i}>"] = vocab[token]
    is_left = lambda text: text in vocab and text not in tokens
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    return {"vocab": change, "merges": [
        f"{a} {b}" for a, b in merges if is_left(a) and is_left(b) and is_left(a + b)]}


def forms():
    """(name, golden or "", what is changed of it)."""
    for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]:
        yield name, "bytelevel_bpe_gpt2", {"normalizer": {"type": name}}
    for left in (False, True):
        for right in (False, True):
            yield f"Strip {left} {right}", "bytelevel_bpe_gpt2", {
                "normalizer": {"type": "Strip", "strip_left": left, "strip_right": right}}
    yield "ALBERT's normalizer", "gemma_bpe", {"normalizer": sequence(
        "normalizers", replace({"String": "``"}, '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        replace({"Regex": " {2,}"}, " "), replace({"String": " "}, "\u2581"))}
    yield "Sequences within one", "bytelevel_bpe_gpt2", {"normalizer": sequence(
        "normalizers", sequence("normalizers", {"type": "NFKC"}), sequence("normalizers", STRIP, {"type": "Lowercase"}))}
    yield "Replace by an expression that takes away", "llama2_bpe", {
        "normalizer": replace({"Regex": r"\s+"}, ""), "pre_tokenizer": {**METASPACE, "prepend_scheme": "first"}}
    yield "ByteLevel with a space before", "bytelevel_bpe_gpt2", {"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}}
    yield "the same behind Digits", "bytelevel_bpe_gpt2", {"pre_tokenizer": sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": True}, {**BYTE_LEVEL, "add_prefix_space": True})}
    yield "Digits together", "bytelevel_bpe_gpt2", {"pre_tokenizer": sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": False}, BYTE_LEVEL)}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        yield f"Punctuation {behavior}", "bytelevel_bpe_gpt2", {"pre_tokenizer": sequence(
            "pretokenizers", {"type": "Punctuation", "behavior": behavior}, BYTE_LEVEL)}
    for name in ["Whitespace", "WhitespaceSplit"]:
        yield name, "bytelevel_bpe_gpt2", {"pre_tokenizer": sequence("pretokenizers", {"type": name}, BYTE_LEVEL)}
        yield f"{name} and Metaspace", "llama2_bpe", {
            "normalizer": None, "pre_tokenizer": sequence("pretokenizers", {"type": name}, METASPACE)}
    for scheme in ["always", "first", "never"]:
        for split in (False, True):
            yield f"Metaspace {scheme} {split}", "llama2_bpe", {
                "normalizer": None, "pre_tokenizer": {**METASPACE, "prepend_scheme": scheme, "split": split}}
        yield f"Metaspace {scheme} behind Strip", "llama2_bpe", {
            "normalizer": STRIP, "pre_tokenizer": {**METASPACE, "prepend_scheme": scheme}}
    yield "Metaspace of an older release", "llama2_bpe", {"normalizer": None, "pre_tokenizer": {
        "type": "Metaspace", "replacement": "\u2581", "str_rep": "\u2581", "add_prefix_space": True}}
    yield "Metaspace between others", "llama2_bpe", {"normalizer": None, "pre_tokenizer": sequence(
        "pretokenizers", {"type": "Punctuation", "behavior": "Isolated"}, METASPACE,
        {"type": "Digits", "individual_digits": True})}
    yield "decoder Metaspace", "llama2_bpe", {
        "normalizer": None, "pre_tokenizer": METASPACE, "decoder": sequence(
            "decoders", METASPACE, {"type": "ByteFallback"}, {"type": "Fuse"})}
    yield "decoder Metaspace, never", "llama2_bpe", {
        "normalizer": None, "pre_tokenizer": {**METASPACE, "prepend_scheme": "never"}, "decoder": {
            **METASPACE, "prepend_scheme": "never"}}
    yield "decoder that strips both ends", "llama2_bpe", {"decoder": sequence(
        "decoders", replace({"String": "\u2581"}, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 2, "stop": 1})}
    for unk in (None, "<unk>"):
        for fuse in (False, True):
            end = f"unk_token {unk}, fuse_unk {fuse}"
            yield f"no byte_fallback, {end}", "llama2_bpe", {
                "model": {"unk_token": unk, "fuse_unk": fuse, "byte_fallback": False}}
            some = without("llama2_bpe", ["<0xC3>", "<0xF0>", "<0x9F>", "<0xE4>", "<0x09>"])
            yield f"byte_fallback without all bytes, {end}", "llama2_bpe", {
                "model": {**some, "unk_token": unk, "fuse_unk": fuse}}
            some = without("bytelevel_bpe_gpt2", ["\u00c3", "\u0120", "h", "\u00f0", "\u0109"],
                           ["<0xC3>", "<0x83>", "<0xC4>", "<0xA0>"])
            yield f"byte-level with byte_fallback, {end}", "bytelevel_bpe_gpt2", {
                "model": {**some, "unk_token": unk and "!", "fuse_unk": fuse, "byte_fallback": True}}
    yield "Unigram", "", unigram()
    for fallback in (False, True):
        file = unigram()
        file["model"]["byte_fallback"] = fallback
        file["model"]["vocab"] += [["<0x%02X>" % byte, -20.0] for byte in range(256 if fallback else 200)]
        file["decoder"] = sequence("decoders", METASPACE, {"type": "ByteFallback"}, {"type": "Fuse"})
        yield f"Unigram with bytes, byte_fallback {fallback}", "", file
    file = unigram()
    file["pre_tokenizer"] = sequence("pretokenizers", {"type": "WhitespaceSplit"}, METASPACE)
    file["model"]["vocab"] += [["<0x%02X>" % byte, -20.0] for byte in range(0x30, 0xf0)]
    file["model"]["byte_fallback"] = True
    yield "Unigram without all bytes, behind WhitespaceSplit", "", file


def merged(file, change):
    """RFC 7386: what is None goes, objects are merged, all else is replaced."""
    for key, value in change.items():
        if value is None:
            file.pop(key, None)
        elif isinstance(value, dict):
            file[key] = merged(file[key] if isinstance(file.get(key), dict) else {}, value)
        else:
            file[key] = value
    return file


def whole(name, change):
    file = golden(name) if name else {}
    for key in ("normalizer", "pre_tokenizer", "decoder"):  # replaced whole
        if key in change:
            file.pop(key, None)
    return merged(file, change)


def random_texts(count):
    rng = random.Random(1)
    return ["".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 14))) for _ in range(count)]


def results(file, texts):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file))
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        try:
            yield ids, tokenizer.decode(ids, skip_special_tokens=False)
        except BaseException:  # a Strip at the end of a text without tokens
            yield ids, ""


def write_tekken():
    """Of the tokens of a golden."""
    folder = GOLDENS / "tekken"
    folder.mkdir(exist_ok=True)
    to_char = lambda byte: chr(byte) if 0x21 <= byte <= 0x7e or byte >= 0xa1 and byte != 0xad else None
    level, unseen = {}, 0x100
    for byte in range(256):
        level[to_char(byte) or chr(unseen)] = byte
        unseen += to_char(byte) is None
    vocab = sorted(golden("bytelevel_bpe_llama3")["model"]["vocab"].items(), key=lambda item: item[1])[:420]
    tokens = [bytes(level[c] for c in token) for token, _ in vocab]
    pattern = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
               r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    special = [{"rank": i, "token_str": token, "is_control": token != "[THINK]"}
               for i, token in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[THINK]"])]
    used = len(tokens) - 20
    file = {"config": {"pattern": pattern, "num_vocab_tokens": len(tokens), "default_vocab_size": used + 8,
                       "default_num_special_tokens": 8, "version": "v11"},
            "special_tokens": special,
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                      for i, token in enumerate(tokens)],
            "image": {"image_patch_size": 16, "max_image_size": 1024}}
    (folder / "tekken.json").write_text(json.dumps(file, separators=(",", ":")) + "\n")
    encoding = tiktoken.Encoding(name="tekken", pat_str=pattern, special_tokens={},
                                 mergeable_ranks={token: i for i, token in enumerate(tokens[:used])})
    cases = [[text, [8 + id for id in encoding.encode(text)]] for text in TEXTS + random_texts(40)]
    (folder / "cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def trained(texts, vocab_size):
    """The merges that tokenizers learns."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(LLAMA3_SPLIT), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tokenizer.to_str())["model"]


def write_trained():
    rng = random.Random(3)
    words = "the boats wait in port where ships are at sea and banana bananas anan aaaa aaaaaa caf\u00e9 \u4f60\u597d\u4f60\u597d 1234 12".split()
    texts = [" ".join(rng.choice(words) for _ in range(rng.randrange(2, 20))) for _ in range(60)] + TEXTS
    model = trained(texts, 420)
    assert len(model["vocab"]) == 420
    (GOLDENS / "trained_bpe.json").write_text(json.dumps(
        {"texts": texts, "vocab_size": 420, "merges": [" ".join(merge) for merge in model["merges"]],
         "vocab": sorted(model["vocab"], key=model["vocab"].get)}, separators=(",", ":")) + "\n")


def write():
    entries = []
    for name, base, change in forms():
        expected = results(whole(base, change), TEXTS)
        entries.append({"form": name, "tokenizer": base, "change": change,
                        "cases": [[text, ids, decoded] for text, (ids, decoded) in zip(TEXTS, expected)]})
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    TARGET.write_text("[\n" + lines + "\n]\n")
    print(f"{TARGET}: {len(entries)} forms")


def compare_trained(program):
    """On texts of this repository, which are long enough for many tokens."""
    paths = sorted(GOLDENS.parent.parent.joinpath("docs").glob("*.md"))
    texts = [path.read_text() for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        data, out = pathlib.Path(folder) / "texts.jsonl", pathlib.Path(folder) / "tokenizer.json"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        subprocess.run([program, "--train", "--vocab-size", "3000", "--out", out, data], check=True)
        found = [merge.split(" ") for merge in json.loads(out.read_text())["model"]["merges"]]
    expected = trained(texts, 2998)["merges"]
    print(f"trained: {len(found)} merges, {'the same' if found == expected else 'others'}")
    if found != expected:
        first = next(i for i, (a, b) in enumerate(zip(found, expected)) if a != b)
        print(f"  merge {first}: found {found[first]}, expected {expected[first]}")
    return found != expected


def compare(program, count):
    texts = TEXTS + random_texts(count)
    failed = 0
    for name, base, change in forms():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            path.write_text(json.dumps(whole(base, change)))
            done = subprocess.run([program, "--tokenizer", path, "--stdin-json"], capture_output=True, text=True,
                                  input="".join(json.dumps(text) + "\n" for text in texts))
        if done.returncode != 0:
            print(f"{name}: {done.stderr}")
            failed += 1
            continue
        found = [json.loads(line) for line in done.stdout.splitlines()]
        wrong = [(text, each, want) for text, each, want in zip(texts, found, results(whole(base, change), texts))
                 if each["ids"] != want[0] or each["decoded"] != want[1]]
        print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} agree", flush=True)
        if wrong:
            failed += 1
            text, each, (ids, decoded) = min(wrong, key=lambda case: len(case[0]))
            print(f"  {ascii(text)}: found {each['ids']} {ascii(each['decoded'])}, expected {ids} {ascii(decoded)}")
    failed += compare_trained(program)
    sys.exit(failed > 0)


if len(sys.argv) > 2 and sys.argv[1] == "--compare":
    compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2000)
elif len(sys.argv) == 1:
    write()
    write_tekken()
    write_trained()
else:
    sys.exit(__doc__)
