#include "longshore/data/tokenizers/tokenizer_json_steps.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/images/base64.h"
#include "longshore/data/tokenizers/known_splits.h"
#include "longshore/data/tokenizers/unicode_sets.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

// Far above what real tokenizers have; they bound time and memory.
constexpr size_t kMaxSteps = 16;
constexpr size_t kMaxReplacementBytes = 256;
constexpr uint64_t kMaxStripped = 16;

// Each step may lengthen what the one before it made, so each is held to little.
std::string short_string(const JsonPlace& place) {
  std::string text = place.string();
  if (text.size() > kMaxReplacementBytes)
    throw DataError(place.path() + ": expected at most " + std::to_string(kMaxReplacementBytes) +
                    " bytes, found " + std::to_string(text.size()));
  return text;
}

Replace replace_of(const JsonPlace& place) {
  place.expect_keys({"type", "pattern", "content"});
  const JsonPlace pattern = place.at("pattern");
  pattern.expect_keys({"String", "Regex"});
  Replace replace{.from = std::string(), .to = short_string(place.at("content"))};
  if (pattern.has("Regex")) {
    try {
      replace.from = std::make_shared<const SplitPattern>(pattern.at("Regex").string());
    } catch (const DataError& error) {
      throw DataError(pattern.path() + ": " + error.what());
    }
    return replace;
  }
  replace.from = short_string(pattern.at("String"));
  if (std::get<std::string>(replace.from).empty()) pattern.refuse("a pattern that is not empty");
  return replace;
}

Precompiled precompiled_of(const JsonPlace& place) {
  place.expect_keys({"type", "precompiled_charsmap"});
  const JsonPlace text = place.at("precompiled_charsmap");
  try {
    const std::vector<std::byte> bytes = decode_base64(text.string());
    return {std::make_shared<const CharsMap>(
        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))};
  } catch (const DataError& error) {
    throw DataError(text.path() + ": " + error.what());
  }
}

std::optional<UnicodeForm> form_named(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames{"NFC", "NFD", "NFKC", "NFKD"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<UnicodeForm>(found - kNames.begin());
}

// GPT-2's pattern, which a ByteLevel step applies when use_regex says so.
Split byte_level_split() {
  Split split;
  split.pattern = kGpt2Split;
  return split;
}

bool normalizer_removes(const std::vector<NormalizerStep>& normalizer, const std::string& text) {
  if (normalizer.empty()) return false;
  const auto* last = std::get_if<Replace>(&normalizer.back());
  const auto* from = last ? std::get_if<std::string>(&last->from) : nullptr;
  return from && *from == text && last->to.find(text) == std::string::npos;
}

std::string character_of(const JsonPlace& place) {
  std::string text = place.string();
  if (text.empty() || first_character(text).bytes != text.size()) place.refuse("one character");
  return text;
}

// Older files say add_prefix_space, the newer ones prepend_scheme; str_rep says nothing that
// replacement does not.
Metaspace::Prepend prepend_of(const JsonPlace& place) {
  const bool adds = place.boolean("add_prefix_space", true);
  if (!place.has("prepend_scheme"))
    return adds ? Metaspace::Prepend::always : Metaspace::Prepend::never;
  constexpr std::array<std::string_view, 3> kNames{"never", "first", "always"};
  const auto found = std::ranges::find(kNames, place.at("prepend_scheme").string());
  if (found == kNames.end()) place.at("prepend_scheme").refuse("always, first or never");
  const auto prepend = static_cast<Metaspace::Prepend>(found - kNames.begin());
  if (!adds && prepend != Metaspace::Prepend::never)
    place.at("add_prefix_space").refuse("true, or \"never\" as prepend_scheme");
  return prepend;
}

Metaspace metaspace_of(const JsonPlace& place) {
  place.expect_keys(
      {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  return {character_of(place.at("replacement")), prepend_of(place), place.boolean("split", true)};
}

SplitBehavior behavior_of(const JsonPlace& place) {
  constexpr std::array<const char*, 5> kNames{"Removed", "Isolated", "MergedWithPrevious",
                                              "MergedWithNext", "Contiguous"};
  const auto name = std::ranges::find(kNames, place.string());
  if (name == kNames.end())
    place.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return static_cast<SplitBehavior>(name - kNames.begin());
}

// A regular expression that matches just `text`.
std::string matching(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c))) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Nothing where it has no effect.
std::optional<Split> split_of(const JsonPlace& place,
                              const std::vector<NormalizerStep>& normalizer) {
  place.expect_keys({"type", "pattern", "behavior", "invert"});
  Split split{.behavior = behavior_of(place.at("behavior")),
              .invert = place.boolean("invert", false)};
  const JsonPlace pattern = place.at("pattern");
  pattern.expect_keys({"String", "Regex"});
  if (pattern.has("String")) {
    const std::string text = short_string(pattern.at("String"));
    // As in Gemma's files.
    if (normalizer_removes(normalizer, text)) return std::nullopt;
    split.pattern = matching(text);
  } else {
    split.pattern = pattern.at("Regex").string();
  }
  return split;
}

// Those of the steps that take away white space, or part what is in a set from the rest.
std::optional<std::vector<Split>> set_splits_of(const JsonPlace& place) {
  const std::string type = type_of(place);
  if (type == "Digits") {
    place.expect_keys({"type", "individual_digits"});
    const bool single = place.boolean("individual_digits", false);
    return {{{.pattern = numeric_characters(),
              .behavior = single ? SplitBehavior::isolated : SplitBehavior::contiguous}}};
  }
  if (type == "Punctuation") {
    place.expect_keys({"type", "behavior"});
    Split split{.pattern = punctuation_characters()};
    if (place.has("behavior")) split.behavior = behavior_of(place.at("behavior"));
    return {{split}};
  }
  const Split removed{.pattern = white_space(), .behavior = SplitBehavior::removed};
  if (type == "WhitespaceSplit" || type == "Whitespace") {
    place.expect_keys({"type"});
    if (type == "WhitespaceSplit") return {{removed}};
    return {{removed, {.pattern = word_characters(), .behavior = SplitBehavior::contiguous}}};
  }
  return std::nullopt;
}

// That of tokens which are not spelled in the byte-level alphabet.
TokenDecoder text_decoder_of(const JsonPlace& place) {
  TokenDecoder decoder;
  // The steps come in this order, each at most once but for Replace.
  enum Stage { replacing, marks, bytes, fused, stripped };
  Stage stage = replacing;
  auto come_to = [&](Stage next, const JsonPlace& step) {
    const bool again = next == stage && next != replacing;
    if (next < stage || again || (next == stripped && stage != fused))
      step.at("type").refuse("Replace, Metaspace, ByteFallback, Fuse and Strip in this order");
    stage = next;
  };
  for (const JsonPlace& step : steps_of(place, "decoders")) {
    const std::string type = type_of(step);
    if (type == "Replace") {
      come_to(replacing, step);
      const JsonPlace pattern = step.at("pattern");
      pattern.expect_keys({"String"});
      Replace replace = replace_of(step);
      decoder.replacements.emplace_back(std::get<std::string>(replace.from), replace.to);
    } else if (type == "Metaspace") {
      come_to(marks, step);
      const Metaspace metaspace = metaspace_of(step);
      decoder.mark = metaspace.replacement;
      decoder.first_loses_marks = metaspace.prepend != Metaspace::Prepend::never;
    } else if (type == "ByteFallback") {
      come_to(bytes, step);
      step.expect_keys({"type"});
      decoder.byte_fallback = true;
    } else if (type == "Fuse") {
      come_to(fused, step);
      step.expect_keys({"type"});
    } else if (type == "Strip") {
      come_to(stripped, step);
      step.expect_keys({"type", "content", "start", "stop"});
      decoder.strip = character_of(step.at("content"));
      for (const char* key : {"start", "stop"})
        if (step.at(key).integer() > kMaxStripped)
          step.at(key).refuse("at most " + std::to_string(kMaxStripped));
      decoder.strip_start = step.at("start").integer();
      decoder.strip_stop = step.at("stop").integer();
    } else {
      step.at("type").refuse("Replace, Metaspace, ByteFallback, Fuse, Strip or Sequence of them");
    }
  }
  return decoder;
}

}  // namespace

std::string type_of(const JsonPlace& place) { return place.at("type").string(); }

std::vector<JsonPlace> steps_of(const JsonPlace& place, const char* key) {
  if (type_of(place) != "Sequence") return {place};
  place.expect_keys({"type", key});
  std::vector<JsonPlace> steps;
  // A Sequence within one is its steps.
  for (const JsonPlace& each : place.at(key).elements())
    for (const JsonPlace& step : steps_of(each, key)) {
      if (steps.size() == kMaxSteps)
        place.refuse("at most " + std::to_string(kMaxSteps) + " steps");
      steps.push_back(step);
    }
  return steps;
}

std::vector<NormalizerStep> normalizer_of(const JsonPlace& place) {
  std::vector<NormalizerStep> normalizer;
  for (const JsonPlace& step : steps_of(place, "normalizers")) {
    const std::string type = type_of(step);
    if (const std::optional<UnicodeForm> form = form_named(type)) {
      step.expect_keys({"type"});
      normalizer.push_back(*form);
    } else if (type == "Lowercase" || type == "StripAccents") {
      step.expect_keys({"type"});
      if (type == "Lowercase")
        normalizer.push_back(Lowercase{});
      else
        normalizer.push_back(StripAccents{});
    } else if (type == "Strip") {
      step.expect_keys({"type", "strip_left", "strip_right"});
      normalizer.push_back(
          Strip{step.at("strip_left").boolean(), step.at("strip_right").boolean()});
    } else if (type == "Prepend") {
      step.expect_keys({"type", "prepend"});
      normalizer.push_back(Prepend{short_string(step.at("prepend"))});
    } else if (type == "Replace") {
      normalizer.push_back(replace_of(step));
    } else if (type == "Precompiled") {
      normalizer.push_back(precompiled_of(step));
    } else {
      step.at("type").refuse(
          "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled or "
          "Sequence");
    }
  }
  return normalizer;
}

PreTokenizerSteps pre_tokenizer_of(const JsonPlace& place,
                                   const std::vector<NormalizerStep>& normalizer) {
  PreTokenizerSteps result;
  auto add = [&](Split split) {
    if (result.byte_level)
      result.byte_splits.push_back(std::move(split));
    else
      result.steps.emplace_back(std::move(split));
  };
  for (const JsonPlace& step : steps_of(place, "pretokenizers")) {
    const std::string type = type_of(step);
    if (type == "ByteLevel" || type == "Metaspace") {
      if (result.byte_level) step.at("type").refuse("no other behind ByteLevel");
    }
    if (type == "ByteLevel") {
      step.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      if (step.boolean("add_prefix_space", true)) result.steps.emplace_back(PrefixSpace{});
      if (step.boolean("use_regex", true)) add(byte_level_split());
      result.byte_level = true;
    } else if (type == "Metaspace") {
      result.steps.emplace_back(metaspace_of(step));
    } else if (type == "Split") {
      if (std::optional<Split> split = split_of(step, normalizer)) add(*std::move(split));
    } else if (std::optional<std::vector<Split>> splits = set_splits_of(step)) {
      for (Split& split : *splits) add(std::move(split));
    } else {
      step.at("type").refuse(
          "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace, ByteLevel or "
          "Sequence of them");
    }
  }
  return result;
}

TokenDecoder decoder_of(const JsonPlace& place, bool byte_level) {
  const bool is_byte_level = type_of(place) == "ByteLevel";
  if (byte_level && !is_byte_level) place.at("type").refuse("ByteLevel, as the pre_tokenizer");
  if (!is_byte_level) return text_decoder_of(place);
  place.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (!byte_level) place.at("type").refuse("another, or ByteLevel in the pre_tokenizer too");
  return {.byte_level = true};
}

}  // namespace longshore::data
