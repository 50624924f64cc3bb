// What a chat template makes of a conversation.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "longshore/base/error.h"

namespace longshore::data {

// Bytes of a text, half open.
struct JinjaSpan {
  size_t begin = 0, end = 0;
  friend bool operator==(const JinjaSpan&, const JinjaSpan&) = default;
};

struct JinjaText {
  std::string text;
  // What {% generation %} encloses: what the assistant writes. As in transformers, of a block
  // within a macro or another block whose text is kept the place is where the whole text ended
  // meanwhile.
  std::vector<JinjaSpan> generated;
};

// What a template calls raise_exception() with: the conversation is none of its kind. The message
// is the template's own, of many lines perhaps.
struct RaisedByTemplate : DataError {
  using DataError::DataError;
};

}  // namespace longshore::data
