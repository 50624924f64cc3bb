// numbered() fills a number into a name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longshore {

// The name with the number in place of "{}", where it has that.
std::string numbered(std::string_view name, int64_t number);

}  // namespace longshore
