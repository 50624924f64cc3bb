#include "longshore/trainer/planner/advice/training_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"

namespace longshore::trainer {
namespace {

constexpr double kSecondsPerHour = 3600, kHoursPerDay = 24;

double parse_price(const std::string& text) {
  double price = 0;
  size_t end = 0;
  try {
    price = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  constexpr double kLeast = 1e-6, kMost = 1e9;
  if (end == 0 || end < text.size() || !(price >= kLeast && price <= kMost))
    throw ConfigError(
        fmt::format("--price-per-hour: found '{}', expected a number from {} to {}, or "
                    "PROFILE=NUMBER with commas between",
                    excerpt(text), kLeast, kMost));
  return price;
}

// 52.1, 0.083, 1234: three digits, or all before the point.
std::string number(double value) {
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

std::optional<double> Prices::of(const std::string& hardware) const {
  auto found = by_name.find(hardware);
  return found == by_name.end() ? of_all : found->second;
}

Prices parse_prices(const std::string& text) {
  Prices prices;
  for (const std::string& part : split(text)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      if (prices.of_all)
        throw ConfigError("--price-per-hour: found a second price for all, " + excerpt(part) +
                          "; expected PROFILE=" + excerpt(part));
      prices.of_all = parse_price(part);
      continue;
    }
    const std::string name = part.substr(0, equals);
    const std::vector<std::string> names = hardware_names(default_configs_directory());
    if (std::ranges::find(names, name) == names.end())
      throw ConfigError("--price-per-hour: found '" + excerpt(name) + "', expected one of " +
                        join(names) + nearest_help(nearest(name, names)));
    if (!prices.by_name.emplace(name, parse_price(part.substr(equals + 1))).second)
      throw ConfigError("--price-per-hour: found a second price for " + name + ", expected one");
  }
  return prices;
}

TrainingCost training_cost(const CostQuestion& question, const std::string& hardware,
                           double tokens_per_second_per_device, double devices) {
  TrainingCost cost;
  const double hours = question.tokens / tokens_per_second_per_device / devices / kSecondsPerHour;
  if (question.tokens > 0) cost.days = hours / kHoursPerDay;
  const std::optional<double> price = question.prices.of(hardware);
  if (!price) return cost;
  if (question.tokens > 0) cost.money = hours * devices * *price;
  cost.tokens_per_money = tokens_per_second_per_device * kSecondsPerHour / *price;
  return cost;
}

std::string cost_text(const CostQuestion& question, const std::string& hardware,
                      double tokens_per_second_per_device, double devices) {
  const TrainingCost cost =
      training_cost(question, hardware, tokens_per_second_per_device, devices);
  std::string text;
  if (cost.days)
    text += fmt::format("  {:g} tokens take {} days on {}", question.tokens, number(*cost.days),
                        plural(static_cast<int64_t>(devices), "device"));
  if (cost.money) text += " and cost " + number(*cost.money);
  if (cost.tokens_per_money)
    text += fmt::format("{}at {:g} an hour for each device, one unit of money pays for {} tokens",
                        text.empty() ? "  " : "; ", *question.prices.of(hardware),
                        number(*cost.tokens_per_money));
  return text.empty() ? "" : text + "\n";
}

std::string cost_head(const CostQuestion& question) {
  std::string head;
  if (question.tokens > 0) head += fmt::format(" {:>9}", "days");
  if (question.tokens > 0 && question.asks_price()) head += fmt::format(" {:>12}", "cost");
  if (question.asks_price()) head += fmt::format(" {:>12}", "tokens/money");
  return head;
}

std::string cost_cells(const CostQuestion& question, const TrainingCost& cost) {
  auto text = [](const std::optional<double>& value) { return value ? number(*value) : "-"; };
  std::string cells;
  if (question.tokens > 0) cells += fmt::format(" {:>9}", text(cost.days));
  if (question.tokens > 0 && question.asks_price())
    cells += fmt::format(" {:>12}", text(cost.money));
  if (question.asks_price()) cells += fmt::format(" {:>12}", text(cost.tokens_per_money));
  return cells;
}

}  // namespace longshore::trainer
