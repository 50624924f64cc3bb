#include "data/tokenizers/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace longshore::data {
namespace {

void expect_success(UErrorCode error) {
  if (U_FAILURE(error))
    throw DataError(std::string("cannot normalise the text: ") + u_errorName(error));
}

// Of characters that are newer than Unicode 9 none is changed or moved, as Hugging Face's
// tokenizers has it. What becomes of the others never changes, so it does not matter what the
// machine's ICU knows.
class Normalizers {
 public:
  static const Normalizers& get() {
    static const Normalizers normalizers;
    return normalizers;
  }
  const icu::Normalizer2& nfc() const { return nfc_; }
  const icu::Normalizer2& nfd() const { return nfd_; }

 private:
  Normalizers()
      : nfc_(whole(icu::Normalizer2::getNFCInstance), known_),
        nfd_(whole(icu::Normalizer2::getNFDInstance), known_) {
    UErrorCode error = U_ZERO_ERROR;
    known_.applyPropertyAlias("Age", "9.0", error);
    expect_success(error);
    known_.freeze();
  }

  static const icu::Normalizer2& whole(const icu::Normalizer2* (*instance)(UErrorCode&)) {
    UErrorCode error = U_ZERO_ERROR;
    const icu::Normalizer2* normalizer = instance(error);
    expect_success(error);
    return *normalizer;
  }

  icu::UnicodeSet known_;
  icu::FilteredNormalizer2 nfc_, nfd_;
};

// Puts long runs of combining marks in their canonical order. ICU sorts them by insertion, which
// takes time by the square of their number.
std::string with_marks_in_order(const std::string& text) {
  constexpr size_t kLongRun = 64;
  const icu::Normalizer2& decomposer = Normalizers::get().nfd();
  std::string ordered;
  size_t copied = 0, begin = 0, marks = 0;  // of the run at hand
  auto end_run = [&](size_t end) {
    if (marks > kLongRun) {
      std::vector<std::pair<uint8_t, UChar32>> run;  // by combining class
      for (size_t at = begin; at < end;) {
        const Character mark = first_character(std::string_view(text).substr(at));
        icu::UnicodeString parts;
        if (!decomposer.getDecomposition(static_cast<UChar32>(mark.code_point), parts))
          parts = static_cast<UChar32>(mark.code_point);
        for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1))
          run.emplace_back(decomposer.getCombiningClass(parts.char32At(i)), parts.char32At(i));
        at += mark.bytes;
      }
      std::ranges::stable_sort(run, {}, &std::pair<uint8_t, UChar32>::first);
      ordered.append(text, copied, begin - copied);
      for (const auto& [combining_class, mark] : run)
        icu::UnicodeString(mark).toUTF8String(ordered);
      copied = end;
    }
    marks = 0;
  };
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(std::string_view(text).substr(at));
    if (decomposer.getCombiningClass(static_cast<UChar32>(character.code_point)) == 0) {
      end_run(at);
    } else if (marks++ == 0) {
      begin = at;
    }
    at += character.bytes;
  }
  end_run(text.size());
  if (copied == 0) return text;
  return ordered.append(text, copied);
}

std::string nfc(std::string text) {
  // What lies below U+0300 is in this form always.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xcc; }))
    return text;
  text = with_marks_in_order(text);
  UErrorCode error = U_ZERO_ERROR;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized);
  Normalizers::get().nfc().normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink,
                                         nullptr, error);
  expect_success(error);
  return normalized;
}

const char* name_of(const NormalizerStep& step) {
  constexpr std::array kNames{"NFC", "Prepend", "Replace"};
  return kNames[step.index()];
}

}  // namespace

std::optional<std::string> replaced(std::string_view text, const Replace& replace,
                                    size_t most_bytes) {
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  while (true) {
    const size_t found = text.find(replace.from);
    result += text.substr(0, found);
    if (result.size() > most_bytes) return std::nullopt;
    if (found == text.npos) return result;
    result += replace.to;
    text.remove_prefix(found + replace.from.size());
  }
}

std::string normalized(std::span<const NormalizerStep> steps, std::string_view text,
                       size_t most_bytes) {
  std::optional<std::string> result(text);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::holds_alternative<Nfc>(steps[i]))
      result = nfc(*std::move(result));
    else if (const auto* prepend = std::get_if<Prepend>(&steps[i]))
      result->insert(0, result->empty() ? "" : prepend->text);
    else
      result = replaced(*result, std::get<Replace>(steps[i]), most_bytes);
    if (!result || result->size() > most_bytes)
      throw DataError(
          "normalizer: step " + std::to_string(i + 1) + " of " + std::to_string(steps.size()) +
          ", " + name_of(steps[i]) + ": found more than " + std::to_string(most_bytes) +
          " bytes, made of a text of " + std::to_string(text.size()) + "; expected no more");
  }
  return *std::move(result);
}

}  // namespace longshore::data
