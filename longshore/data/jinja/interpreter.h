// Renders the statements of a template.
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "longshore/data/jinja/jinja_text.h"
#include "longshore/data/jinja/syntax.h"

namespace longshore::data::jinja {

// Throws a DataError with the line, and RaisedByTemplate.
JinjaText interpret(const Block& statements, const nlohmann::ordered_json& variables,
                    const std::optional<std::tm>& now);

}  // namespace longshore::data::jinja
