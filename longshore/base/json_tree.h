// JSON of others as a tree in memory, which takes up to 24 times the text's bytes: texts need a
// bound of their own.
//
// A tree holds every number that JSON allows. An integer beyond 64 bits and a number beyond float64
// are a binary value, which no text of JSON has: the number's own text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "longshore/base/strict_json.h"

namespace longshore {

// In the order of the keys' names; `ordered`, in the text's order. Of a key that comes again the
// last value counts, as in Python. Take time that is linear in the text. Throw a DataError, without
// a file's name, on what is no JSON and where values are nested deeper than any file's that is read
// here: a level takes more memory than a value, and functions that call themselves show and write
// them.
nlohmann::json json_tree(std::string_view text);
nlohmann::ordered_json ordered_json_tree(std::string_view text);

// The outermost object alone of those values whose key is wanted; of others nothing is built, and
// they may be nested as deep as they like. Throws as well where a wanted key comes again, and where
// the text is of no object: "expected an object, found ...".
nlohmann::ordered_json ordered_json_object(std::string_view text,
                                           const std::function<bool(const std::string&)>& wants);

// The value in a tree of a number that the parser gives as a JsonFloat.
nlohmann::json json_number(JsonFloat value, const std::string& text);

// As a text that json_tree reads, indented by 2, with a line break at its end.
std::string json_text(const nlohmann::json& tree);
std::string json_text(const nlohmann::ordered_json& tree);

// As a message shows a value: on one line, printable and not too long.
std::string shown(const nlohmann::json& value);

// What a message says was found: "an object", "an array", "a string", or the value as shown() has
// it.
std::string kind_of(const nlohmann::ordered_json& value);

// Of a number: also infinite, and rounded where float64 has no such integer. NaN of anything else.
double as_float64(const nlohmann::json& value);

}  // namespace longshore
