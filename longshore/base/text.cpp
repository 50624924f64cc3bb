#include "longshore/base/text.h"

#include <cmath>
#include <sstream>

namespace longshore {

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(list)};
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::string plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

double without_sign_of_nan(double number) { return std::isnan(number) ? std::abs(number) : number; }

}  // namespace longshore
