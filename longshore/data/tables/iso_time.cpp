#include "longshore/data/tables/iso_time.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace longshore::data {
namespace {

constexpr int64_t kSecondsADay = 86400;

std::string digits(int64_t number, size_t count) {
  const std::string text = std::to_string(number);
  return std::string(count - std::min(count, text.size()), '0') + text;
}

}  // namespace

std::optional<std::string> iso_date(int64_t days) {
  constexpr int64_t kFirst = -719528, kLast = 2932896;  // 0000-01-01, 9999-12-31
  if (days < kFirst || days > kLast) return std::nullopt;
  const std::chrono::year_month_day date(
      std::chrono::sys_days(std::chrono::days(static_cast<int>(days))));
  return digits(int{date.year()}, 4) + "-" + digits(unsigned{date.month()}, 2) + "-" +
         digits(unsigned{date.day()}, 2);
}

std::optional<std::string> iso_time(int64_t ticks, int64_t per_second) {
  if (ticks < 0 || ticks / per_second >= kSecondsADay) return std::nullopt;
  const int64_t seconds = ticks / per_second;
  std::string text = digits(seconds / 3600, 2) + ":" + digits(seconds / 60 % 60, 2) + ":" +
                     digits(seconds % 60, 2);
  // A fraction of nothing says no more than its absence.
  if (ticks % per_second != 0)
    text += "." + digits(ticks % per_second, std::to_string(per_second).size() - 1);
  return text;
}

std::optional<std::string> iso_date_and_time(int64_t ticks, int64_t per_second) {
  const int64_t ticks_a_day = kSecondsADay * per_second;
  int64_t days = ticks / ticks_a_day, rest = ticks % ticks_a_day;
  if (rest < 0) {
    rest += ticks_a_day;
    --days;
  }
  const auto date = iso_date(days), time = iso_time(rest, per_second);
  if (!date || !time) return std::nullopt;
  return *date + "T" + *time;
}

}  // namespace longshore::data
