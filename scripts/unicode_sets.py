#!/usr/bin/env python3
"""Writes longshore/data/tokenizers/unicode_sets.cpp: sets of characters as Hugging Face's tokenizers has them.

They are asked of the library itself, character by character; its parts know different versions of
Unicode. Takes about three minutes.
usage: python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3 \
           sentencepiece==0.2.1 protobuf==7.36.2 regex==2026.11.19
       /tmp/venv/bin/python scripts/unicode_sets.py >longshore/data/tokenizers/unicode_sets.cpp
"""
import io
import sys

import regex
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

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


def accents():
    """Those that StripAccents takes away."""
    strip = normalizers.StripAccents()
    return [c for c in CHARACTERS if strip.normalize_str("a" + c) == "a"]


def lowercase():
    """Characters with those that Lowercase makes of them, where that is one."""
    lower = normalizers.Lowercase()
    pairs = [(c, lower.normalize_str(c)) for c in CHARACTERS]
    changed = [(c, to) for c, to in pairs if c != to]
    assert [pair for pair in changed if len(pair[1]) > 1] == [("\u0130", "i\u0307")]
    return [pair for pair in changed if len(pair[1]) == 1]


def precompiled():
    """The normaliser of a sentencepiece model that makes small letters of capitals."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 10), model_writer=model, vocab_size=9, minloglevel=2,
        normalization_rule_name="nfkc_cf", hard_vocab_limit=False)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def extending():
    """Those that belong to the character before them: what Precompiled makes of a whole grapheme of
    less than six bytes, it makes of its first character that has a rule, and the rest is gone."""
    to_small = precompiled()
    return [c for c in CHARACTERS if to_small.normalize_str("A" + c) == "a"]


def prepended():
    """Those that the next character belongs to: then there is no rule for the whole grapheme."""
    to_small = precompiled()
    return [c for c in CHARACTERS if to_small.normalize_str(c + "A\u0301").endswith("a\u0301") and
            to_small.normalize_str("b" + c + "A\u0301").endswith("a\u0301")]


def of_regex(pattern):
    """Those of which that library says so: Precompiled shows none of these by itself."""
    return [c for c in CHARACTERS if regex.fullmatch(pattern, c)]


def ranges(characters):
    runs = []
    for c in map(ord, characters):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return map(tuple, runs)


def array(name, pairs, kind="CharacterRange"):
    items = ["{0x%x,0x%x}," % pair for pair in pairs]
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > 98:
            lines.append("")
        lines[-1] += item
    return "constexpr %s k%s[] = {\n%s};\n" % (kind, name, "\n".join(lines))


sets = {name: property(name) for name in CATEGORIES + SCRIPTS}
sets["Numeric"] = numeric()
sets["Punctuation"] = removed_by(pre_tokenizers.Punctuation("removed"))
sets["Word"] = word()
sets["Accents"] = accents()
sets["Extending"] = extending()
sets["Prepended"] = prepended()
sets["Pictographs"] = of_regex(r"\p{Extended_Pictographic}")
sets["Consonants"] = of_regex(r"\p{InCB=Consonant}")
sets["Linkers"] = of_regex(r"\p{InCB=Linker}")
sets["BetweenConsonants"] = [c for c in of_regex(r"\p{InCB=Extend}") if c in sets["Extending"]]


names = lambda keys: "".join('    {"%s", k%s},\n' % (key, key) for key in keys)
sys.stdout.write(
    """// Written by scripts/unicode_sets.py, which asked tokenizers %s.
#include "longshore/data/tokenizers/unicode_sets.h"

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
std::span<const CharacterRange> accents() { return kAccents; }
std::span<const CharacterPair> lowercase_characters() { return kLowercase; }
const GraphemeSets& grapheme_sets() {
  static const GraphemeSets sets{kExtending,  kPrepended, kPictographs,
                                 kConsonants, kLinkers,   kBetweenConsonants};
  return sets;
}

}  // namespace longshore::data
"""
    % (
        tokenizers.__version__,
        "\n".join(array(name, ranges(characters)) for name, characters in sets.items()) + "\n" +
        array("Lowercase", [(ord(c), ord(to)) for c, to in lowercase()], "CharacterPair"),
        names(CATEGORIES),
        names(SCRIPTS),
    )
)
