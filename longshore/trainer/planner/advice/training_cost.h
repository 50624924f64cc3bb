// The time and the money that training takes, from the rate of a plan.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace longshore::trainer {

// Money that an hour of one device costs, in any unit.
struct Prices {
  std::optional<double> of_all;           // of every profile that is not named
  std::map<std::string, double> by_name;  // by profile

  std::optional<double> of(const std::string& hardware) const;
};

// Reads "2.5" or "h100=2.5,h200=3.8". Throws ConfigError, which names the option.
Prices parse_prices(const std::string& text);

// What is asked: of how many tokens, at what price.
struct CostQuestion {
  double tokens = 0;  // 0: not asked
  Prices prices;

  bool asks_price() const { return prices.of_all || !prices.by_name.empty(); }
  bool is_asked() const { return tokens > 0 || asks_price(); }
};

// On all devices of a run. What was not asked, or has no price, has no value.
struct TrainingCost {
  std::optional<double> days;
  std::optional<double> money;
  std::optional<double> tokens_per_money;  // tokens for one unit of money
};

TrainingCost training_cost(const CostQuestion& question, const std::string& hardware,
                           double tokens_per_second_per_device, double devices);

// "  1.5e+13 tokens take 52.1 days on 8 devices and cost 25008 (2.5 an hour each): 599808 tokens
// for 1\n"; "" if nothing is asked.
std::string cost_text(const CostQuestion& question, const std::string& hardware,
                      double tokens_per_second_per_device, double devices);

// The columns of a table, each with a blank before it; "" if nothing is asked.
std::string cost_head(const CostQuestion& question);
std::string cost_cells(const CostQuestion& question, const TrainingCost& cost);

}  // namespace longshore::trainer
