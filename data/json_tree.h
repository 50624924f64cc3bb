// JSON of others as a tree in memory, which takes up to 24 times the text's bytes: texts need a
// bound of their own.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace longshore::data {

// Throws nlohmann::json::parse_error, and a DataError where values are nested deeper than any
// file's that is read here: a level takes more memory than a value.
nlohmann::json json_tree(std::string_view text);

}  // namespace longshore::data
