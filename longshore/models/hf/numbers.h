// json_number() writes a number as config.json has it.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace longshore::models {

// Whether `value` is an integer, and exact.
inline bool is_integer(double value) {
  constexpr double kMaxExact = 9007199254740992;  // 2^53
  return value == std::floor(value) && std::abs(value) < kMaxExact;
}

// transformers 5 takes no 64.0 for an integer.
inline nlohmann::json json_number(double value) {
  return is_integer(value) ? nlohmann::json(static_cast<int64_t>(value)) : nlohmann::json(value);
}

}  // namespace longshore::models
