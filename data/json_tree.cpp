#include "data/json_tree.h"

#include <string>

#include "base/error.h"

namespace longshore::data {

nlohmann::json json_tree(std::string_view text) {
  constexpr int kMostNested = 32;
  return nlohmann::json::parse(text, [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostNested)
      throw DataError("found values nested deeper than " + std::to_string(kMostNested) +
                      ", expected less");
    return true;
  });
}

}  // namespace longshore::data
