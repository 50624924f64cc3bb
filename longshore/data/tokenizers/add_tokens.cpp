#include "longshore/data/tokenizers/add_tokens.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

// The end of the string that begins at `begin`, behind its quotation mark.
size_t end_of_string(std::string_view json, size_t begin) {
  size_t i = begin + 1;
  while (json[i] != '"') i += json[i] == '\\' ? 2 : 1;
  return i + 1;
}

// Behind the bracket that closes the one at `begin`.
size_t end_of_brackets(std::string_view json, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < json.size();) {
    const char c = json[i];
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && --depth == 0) return i + 1;
    i = c == '"' ? end_of_string(json, i) : i + 1;
  }
  throw InternalError("with_added_tokens: no JSON");
}

// Where the value of a key of the text's object begins.
std::optional<size_t> find_value(std::string_view json, std::string_view quoted_key) {
  for (size_t i = json.find('{') + 1; i < json.size();) {
    if (json[i] == '[' || json[i] == '{') {
      i = end_of_brackets(json, i);
    } else if (json[i] == '"') {
      const size_t end = end_of_string(json, i), next = json.find_first_not_of(kWhiteSpace, end);
      if (json.substr(i, end - i) == quoted_key && json[next] == ':')
        return json.find_first_not_of(kWhiteSpace, next + 1);
      i = end;
    } else {
      ++i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string with_added_tokens(std::string_view json, std::span<const NamedToken> tokens) {
  std::string added;
  for (const auto& [token, id] : tokens) {
    const nlohmann::ordered_json object{
        {"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
        {"rstrip", false}, {"normalized", false}, {"special", false}};
    added += (added.empty() ? "" : ",\n    ") + object.dump();
  }
  std::string text(json);
  const std::optional<size_t> list = find_value(json, "\"added_tokens\"");
  if (!list || json[*list] != '[') throw DataError("added_tokens: expected a list");
  const size_t end = end_of_brackets(json, *list) - 1,
               last = json.find_last_not_of(kWhiteSpace, end - 1);
  return text.insert(last + 1, (last == *list ? "" : ",\n    ") + added);
}

}  // namespace longshore::data
