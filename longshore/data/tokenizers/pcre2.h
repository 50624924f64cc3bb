// PCRE2's objects with owners, and its messages. Only sources that match expressions include this.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>
#include <string>

namespace longshore::data {

template <auto free_function>
struct Pcre2Free {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};

using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2Free<pcre2_code_free>>;
using Pcre2MatchContext = std::unique_ptr<pcre2_match_context, Pcre2Free<pcre2_match_context_free>>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, Pcre2Free<pcre2_match_data_free>>;

inline std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

}  // namespace longshore::data
