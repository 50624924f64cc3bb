#include "longshore/data/tokenizers/pcre2_expression.h"

#include <new>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

constexpr uint32_t kMaxMatchSteps = 100'000;
constexpr uint32_t kMaxHeapKib = 1024;

}  // namespace

Pcre2Expression::Pcre2Expression(const std::string& text) {
  int error = 0;
  size_t at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                            PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (!code_)
    throw DataError("expected a regular expression; at byte " + std::to_string(at) + ": " +
                    pcre2_message(error));
  context_.reset(pcre2_match_context_create(nullptr));
  result_.reset(pcre2_match_data_create(1, nullptr));
  if (!context_ || !result_) throw std::bad_alloc();
  pcre2_set_match_limit(context_.get(), kMaxMatchSteps);
  pcre2_set_heap_limit(context_.get(), kMaxHeapKib);
}

bool Pcre2Expression::is_found_in(const std::string& name) const {
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                                0, 0, result_.get(), context_.get());
  if (found >= 0) return true;
  if (found != PCRE2_ERROR_NOMATCH)
    throw DataError("expected an expression that is quick to match; on " + excerpt(name) + ": " +
                    pcre2_message(found));
  return false;
}

}  // namespace longshore::data
