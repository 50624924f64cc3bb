#include "longshore/data/tokenizers/unicode_forms.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"

namespace longshore::data {
namespace {

void expect_success(UErrorCode error) {
  if (U_FAILURE(error))
    throw DataError(std::string("cannot normalise the text: ") + u_errorName(error));
}

class Normalizers {
 public:
  static const Normalizers& get() {
    static const Normalizers normalizers;
    return normalizers;
  }
  const icu::Normalizer2& of(UnicodeForm form) const { return forms_[static_cast<size_t>(form)]; }

 private:
  Normalizers()
      : forms_{icu::FilteredNormalizer2(whole(icu::Normalizer2::getNFCInstance), known_),
               icu::FilteredNormalizer2(whole(icu::Normalizer2::getNFDInstance), known_),
               icu::FilteredNormalizer2(whole(icu::Normalizer2::getNFKCInstance), known_),
               icu::FilteredNormalizer2(whole(icu::Normalizer2::getNFKDInstance), known_)} {
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
  std::array<icu::FilteredNormalizer2, 4> forms_;  // in the order of UnicodeForm
};

// Puts long runs of combining marks in their canonical order. ICU sorts them by insertion, which
// takes time by the square of their number.
std::string with_marks_in_order(const std::string& text) {
  constexpr size_t kLongRun = 64;
  const icu::Normalizer2& decomposer = Normalizers::get().of(UnicodeForm::nfd);
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

// Below it no character is changed, nor combines with another.
uint8_t first_changing_byte(UnicodeForm form) {
  if (form == UnicodeForm::nfc) return 0xcc;  // U+0300
  return form == UnicodeForm::nfd ? 0xc3 : 0x80;
}

}  // namespace

std::string in_form(UnicodeForm form, std::string text) {
  const uint8_t first = first_changing_byte(form);
  if (std::ranges::all_of(text, [&](char c) { return static_cast<uint8_t>(c) < first; }))
    return text;
  text = with_marks_in_order(text);
  UErrorCode error = U_ZERO_ERROR;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized);
  Normalizers::get().of(form).normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())},
                                            sink, nullptr, error);
  expect_success(error);
  return normalized;
}

}  // namespace longshore::data
