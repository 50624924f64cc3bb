#include "longshore/data/tokenizers/normalizer.h"

#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/unicode_sets.h"
#include "longshore/data/tokenizers/white_space.h"

namespace longshore::data {
namespace {

// In the order of NormalizerStep; the forms in that of UnicodeForm.
constexpr std::array kFormNames{"NFC", "NFD", "NFKC", "NFKD"};
constexpr std::array kNames{"",        "Lowercase", "StripAccents", "Strip",
                            "Prepend", "Replace",   "Precompiled"};

const char* name_of(const NormalizerStep& step) {
  if (const auto* form = std::get_if<UnicodeForm>(&step))
    return kFormNames[static_cast<size_t>(*form)];
  return kNames[step.index()];
}

// Makes `result` what the step makes of it; false where that is too much.
class Step {
 public:
  Step(NormalText& result, size_t most_bytes) : result_(result), most_bytes_(most_bytes) {}

  bool operator()(UnicodeForm form) {
    result_.text = in_form(form, std::move(result_.text));
    return true;
  }

  bool operator()(const Lowercase&) {
    std::string lower;
    lower.reserve(result_.text.size());
    for_each_character([&](char32_t c, std::string_view bytes) {
      if (c < 0x80) {
        lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : bytes[0];
        return;
      }
      const auto pairs = lowercase_characters();
      const auto found = std::ranges::lower_bound(pairs, c, {}, &CharacterPair::from);
      if (found != pairs.end() && found->from == c)
        icu::UnicodeString(static_cast<UChar32>(found->to)).toUTF8String(lower);
      else
        lower += c == U'\u0130' ? std::string_view("i\u0307") : bytes;
    });
    result_.text = std::move(lower);
    return true;
  }

  bool operator()(const StripAccents&) {
    std::string kept;
    for_each_character([&](char32_t c, std::string_view bytes) {
      if (!contains(accents(), c))
        kept += bytes;
      else if (kept.empty())
        result_.keeps_start = false;
    });
    result_.text = std::move(kept);
    return true;
  }

  bool operator()(const Strip& strip) {
    const size_t left = strip.left ? white_space_at_head(result_.text) : 0;
    if (left > 0) result_.keeps_start = false;
    result_.text.erase(0, left);
    if (strip.right) result_.text.resize(result_.text.size() - white_space_at_end(result_.text));
    return true;
  }

  bool operator()(const Prepend& prepend) {
    if (!result_.text.empty()) result_.text.insert(0, prepend.text);
    return true;
  }

  bool operator()(const Replace& replace) {
    if (const auto* text = std::get_if<std::string>(&replace.from)) {
      if (replace.to.empty() && result_.text.starts_with(*text)) result_.keeps_start = false;
      return set(replaced(result_.text, *text, replace.to, most_bytes_));
    }
    std::vector<SplitPart> parts;
    std::get<std::shared_ptr<const SplitPattern>>(replace.from)->split(result_.text, parts);
    if (replace.to.empty() && !parts.empty() && parts[0].matches) result_.keeps_start = false;
    std::string joined;
    for (const SplitPart& part : parts) {
      joined += part.matches ? replace.to : part.text;
      if (joined.size() > most_bytes_) return false;
    }
    return set(std::move(joined));
  }

  bool operator()(const Precompiled& precompiled) {
    return set(precompiled.rules->applied_to(result_.text, most_bytes_));
  }

 private:
  template <class Do>
  void for_each_character(Do each) {
    for (std::string_view rest = result_.text; !rest.empty();) {
      const Character character = first_character(rest);
      each(character.code_point, rest.substr(0, character.bytes));
      rest.remove_prefix(character.bytes);
    }
  }

  bool set(std::optional<std::string> text) {
    if (!text) return false;
    result_.text = *std::move(text);
    return true;
  }

  NormalText& result_;
  size_t most_bytes_;
};

}  // namespace

std::optional<std::string> replaced(std::string_view text, std::string_view from,
                                    std::string_view to, size_t most_bytes) {
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  while (true) {
    const size_t found = text.find(from);
    result += text.substr(0, found);
    if (result.size() > most_bytes) return std::nullopt;
    if (found == text.npos) return result;
    result += to;
    text.remove_prefix(found + from.size());
  }
}

NormalText normalized(std::span<const NormalizerStep> steps, std::string_view text,
                      size_t most_bytes) {
  NormalText result{std::string(text)};
  for (size_t i = 0; i < steps.size(); ++i)
    if (!std::visit(Step(result, most_bytes), steps[i]) || result.text.size() > most_bytes)
      throw DataError(
          "normalizer: step " + std::to_string(i + 1) + " of " + std::to_string(steps.size()) +
          ", " + name_of(steps[i]) + ": found more than " + std::to_string(most_bytes) +
          " bytes, made of a text of " + std::to_string(text.size()) + "; expected no more");
  return result;
}

}  // namespace longshore::data
