// Lists and numbers as messages write them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore {

// "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

// The parts of "a,b,c"; none for "".
std::vector<std::string> split(std::string_view list);

// "1 token", "2 tokens": for nouns whose plural ends in s.
std::string plural(int64_t count, const std::string& noun);

// The number; a NaN without its sign, which some processors give it.
double without_sign_of_nan(double number);

}  // namespace longshore
