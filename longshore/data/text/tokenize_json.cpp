#include "longshore/data/text/tokenize_json.h"

#include <cerrno>
#include <cstring>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"

namespace longshore::data {
namespace {

std::string read_json_string(const std::string& line) {
  nlohmann::json value;
  try {
    value = json_tree(line);
  } catch (const DataError& error) {
    throw DataError(std::string("expected a JSON string: ") + error.what());
  }
  if (!value.is_string()) throw DataError("expected a JSON string, found " + shown(value));
  return value.get<std::string>();
}

}  // namespace

void tokenize_json_lines(const Tokenizer& tokenizer, std::istream& in,
                         const std::function<void(const std::string& line)>& answer) {
  std::string line;
  int64_t number = 1;
  for (; std::getline(in, line); ++number) {
    try {
      const std::vector<int32_t> ids = tokenizer.encode(read_json_string(line));
      const nlohmann::ordered_json found = {
          {"ids", ids}, {"decoded", tokenizer.decode(ids, SpecialTokens::keep)}};
      constexpr int kOneLine = -1;
      constexpr bool kAscii = true;
      // A model's pieces need not be UTF-8.
      answer(found.dump(kOneLine, ' ', kAscii, nlohmann::json::error_handler_t::replace) + "\n");
    } catch (const DataError& error) {
      throw DataError("line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (in.bad())
    throw DataError("line " + std::to_string(number) + ": cannot read: " + std::strerror(errno));
}

}  // namespace longshore::data
