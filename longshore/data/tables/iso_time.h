// Times as ISO 8601 writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace longshore::data {

// Days since 1970-01-01: "2026-11-30". Nothing beyond the years 0000 to 9999.
std::optional<std::string> iso_date(int64_t days);

// Since midnight: "13:04:05", or "13:04:05.250" if there are 1000 ticks a second. Nothing beyond a
// day. Ticks a second are a power of a thousand.
std::optional<std::string> iso_time(int64_t ticks, int64_t per_second);

// Since 1970: "2026-11-30T13:04:05".
std::optional<std::string> iso_date_and_time(int64_t ticks, int64_t per_second);

}  // namespace longshore::data
