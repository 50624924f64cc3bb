#!/usr/bin/env python3
"""Writes data/tokenizers/unicode_sets.cpp: sets of characters as Hugging Face's tokenizers has them.

They are asked of the library itself, character by character; its parts know different versions of
Unicode. Takes about two minutes.
usage: python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3
       /tmp/venv/bin/python scripts/unicode_sets.py >data/tokenizers/unicode_sets.cpp
"""
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

CATEGORIES = """Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf
                Co""".split()
SCRIPTS = """Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati
             Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam
             Mongolian Myanmar Oriya Sinhala Tamil Telugu Thai Tibetan""".split()
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def batches(size=20000):
    for i in range(0, len(CHARACTERS), size):
        yield CHARACTERS[i : i + size]


def removed_by(pre_tokenizer):
    """Those that a pre-tokenizer which removes what it finds removes."""
    found = []
    for batch in batches():
        kept = set("".join(piece for piece, _ in pre_tokenizer.pre_tokenize_str("".join(batch))))
        found += [c for c in batch if c not in kept]
    return found


def property(name):
    return removed_by(pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed"))


def numeric():
    """Those that Digits takes for digits."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    found = []
    for batch in batches():
        # Pieces: "a", then a digit alone, or else the next character with the "a" after it.
        pieces = digits.pre_tokenize_str("".join("a" + c for c in batch) + "a")
        found += [piece for piece, _ in pieces if len(piece) == 1 and piece != "a"]
    return found


def word():
    """Those beside which an added token with single_word is not found."""
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.add_tokens([AddedToken("<>", single_word=True, normalized=False)])
    found = []
    for batch in batches(2000):
        ends = {end for _, end in tokenizer.encode(" ".join(c + "<>" for c in batch)).offsets}
        found += [c for i, c in enumerate(batch) if 4 * i + 3 not in ends]
    return found


def ranges(characters):
    runs = []
    for c in map(ord, characters):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def array(name, characters):
    items = ["{0x%x,0x%x}," % (first, last) for first, last in ranges(characters)]
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > 98:
            lines.append("")
        lines[-1] += item
    return "constexpr CharacterRange k%s[] = {\n%s};\n" % (name, "\n".join(lines))


sets = {name: property(name) for name in CATEGORIES + SCRIPTS}
sets["Numeric"] = numeric()
sets["Punctuation"] = removed_by(pre_tokenizers.Punctuation("removed"))
sets["Word"] = word()

names = lambda keys: "".join('    {"%s", k%s},\n' % (key, key) for key in keys)
sys.stdout.write(
    """// Written by scripts/unicode_sets.py, which asked tokenizers %s.
#include "data/tokenizers/unicode_sets.h"

// clang-format off
namespace longshore::data {
namespace {

%s
constexpr UnicodeSet kCategories[] = {
%s};

constexpr UnicodeSet kScripts[] = {
%s};

}  // namespace

std::span<const UnicodeSet> unicode_categories() { return kCategories; }
std::span<const UnicodeSet> unicode_scripts() { return kScripts; }
std::span<const CharacterRange> numeric_characters() { return kNumeric; }
std::span<const CharacterRange> punctuation_characters() { return kPunctuation; }
std::span<const CharacterRange> word_characters() { return kWord; }

}  // namespace longshore::data
"""
    % (
        tokenizers.__version__,
        "\n".join(array(name, characters) for name, characters in sets.items()),
        names(CATEGORIES),
        names(SCRIPTS),
    )
)
