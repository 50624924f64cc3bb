// Reads a template's source as statements.
#pragma once

#include <string_view>

#include "longshore/data/jinja/syntax.h"

namespace longshore::data::jinja {

struct Syntax {
  Block statements;
  bool has_generation = false;
};

// Throws a DataError with the line on a source that is no template, and on what of jinja2 is not
// there.
Syntax parse(std::string_view source);

}  // namespace longshore::data::jinja
