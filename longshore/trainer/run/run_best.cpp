#include "longshore/trainer/run/run_best.h"

#include <fmt/format.h>

#include "longshore/base/text.h"
#include "longshore/trainer/config/key_values.h"

namespace longshore::trainer {
namespace {

std::string name_of(KeepBest metric) {
  Config config;
  config.keep_best = metric;
  return value_text(*find_key("keep_best"), config);
}

}  // namespace

RunBest::RunBest(const Config& config, const OpenedRun& opened, World& world)
    : config_(config), world_(world) {
  const KeepBest metric = best_metric(config);
  if (metric == KeepBest::none) return;
  better_ = metric == KeepBest::validation_loss ? Better::smaller : Better::larger;
  best_ = {.metric = name_of(metric)};
  if (opened.saved_step < 0) return;
  const std::optional<BestSoFar>& saved = opened.start->manifest.best;
  if (saved && saved->metric == best_->metric) best_ = saved;
}

bool RunBest::add(int64_t steps, std::optional<double> metric) {
  if (!best_) return false;
  const bool is_best =
      metric && note(*best_, steps, *metric, better_, config_.early_stopping_threshold);
  const bool is_over = config_.early_stopping_patience > 0 &&
                       best_->without_improvement >= config_.early_stopping_patience;
  // Others may have summed up in another order.
  ends_run_ = world_.sum(world_.is_first() && is_over) > 0;
  return world_.sum(world_.is_first() && is_best) > 0;
}

std::string RunBest::text() const {
  if (best_->step == 0) return best_->metric + " was never finite";
  return fmt::format("{} {:.4f} after {}", best_->metric, best_->value,
                     plural(best_->step, "step"));
}

std::string RunBest::reason() const {
  return fmt::format("early stopping after {}: no better{} for {}; best: {}",
                     plural(best_->evaluated, "step"),
                     config_.early_stopping_threshold > 0
                         ? fmt::format(" by more than {:g}", config_.early_stopping_threshold)
                         : "",
                     plural(best_->without_improvement, "evaluation"), text());
}

}  // namespace longshore::trainer
