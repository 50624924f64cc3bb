#include "longshore/trainer/programs/compare/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;

std::vector<double> all_seconds(const Candidate& candidate) {
  std::vector<double> seconds;
  for (const Turn& turn : candidate.turns)
    seconds.insert(seconds.end(), turn.seconds.begin(), turn.seconds.end());
  return seconds;
}

int64_t device_bytes(const Candidate& candidate) {
  return candidate.turns.back().memory[MemoryKind::device].peak_bytes;
}

Gain gain_over(const Candidate& baseline, const Candidate& candidate) {
  auto part = [](const std::vector<double>& before, const std::vector<double>& now) {
    return 1 - median(now) / median(before);
  };
  std::vector<double> by_round;
  for (size_t i = 0; i < std::min(baseline.turns.size(), candidate.turns.size()); ++i)
    by_round.push_back(part(baseline.turns[i].seconds, candidate.turns[i].seconds));
  auto [least, most] = std::ranges::minmax(by_round);
  return {.part = median(by_round),
          .least = least,
          .most = most,
          .saved_device_bytes = device_bytes(baseline) - device_bytes(candidate)};
}

std::optional<double> tokens_per_joule(const Candidate& candidate, double tokens_per_step) {
  double joules = 0;
  for (const Turn& turn : candidate.turns) joules += turn.joules.value_or(0);
  if (joules <= 0) return std::nullopt;
  return tokens_per_step * static_cast<double>(all_seconds(candidate).size()) / joules;
}

int64_t micro_batch_rows(const Candidate& candidate) {
  return candidate.plan->config().per_device_batch_size;
}

bool is_same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// A text on the first difference; "" if there is none.
std::string difference(const Candidate& first, const Turn& expected, const Candidate& other,
                       const Turn& found) {
  for (size_t i = 0; i < std::min(expected.steps.size(), found.steps.size()); ++i)
    for (auto [name, value] : {std::pair{"loss", &StepResult::loss},
                               std::pair{"gradient norm", &StepResult::gradient_norm}})
      if (double a = expected.steps[i].*value, b = found.steps[i].*value; !is_same(a, b))
        return fmt::format("{} of step {}: {} under {}, {} under {}", name, i, a, first.policy, b,
                           other.policy);
  return "";
}

// The first with that code; "" if there is none.
std::string failure_with(int code, const std::vector<Comparison>& comparisons) {
  for (const Comparison& comparison : comparisons)
    for (const Candidate& candidate : comparison.candidates)
      if (!candidate.failure.empty() && candidate.failure_code == code)
        return comparison.workload.shown_name() + ", " + candidate.policy + ": " +
               candidate.failure;
  return "";
}

}  // namespace

Figures figures(const Comparison& comparison, const Candidate& candidate,
                std::optional<double> price_per_device_hour) {
  std::vector<double> seconds = all_seconds(candidate);
  Figures result{.median_seconds = median(seconds),
                 .p10_seconds = quantile(seconds, 0.1),
                 .p90_seconds = quantile(seconds, 0.9),
                 .memory = candidate.turns.back().memory,
                 .tokens_per_joule = tokens_per_joule(candidate, comparison.tokens)};
  for (const Turn& turn : candidate.turns)
    result.used_device_bytes = std::max(result.used_device_bytes, turn.used_device_bytes);
  result.tokens_per_second = comparison.tokens / result.median_seconds;
  result.mfu = comparison.flops / result.median_seconds / comparison.peak.flops_per_second;
  const Candidate& baseline = comparison.candidates[0];
  if (&candidate != &baseline && !baseline.turns.empty())
    result.gain = gain_over(baseline, candidate);
  if (price_per_device_hour)
    result.cost_per_million_tokens = *price_per_device_hour / 3600 / result.tokens_per_second * 1e6;
  return result;
}

std::vector<std::string> differences(const Comparison& comparison) {
  std::map<int64_t, const Candidate*> firsts;  // by the rows of a micro-batch
  std::vector<std::string> lines;
  for (const Candidate& candidate : comparison.candidates) {
    if (candidate.turns.empty()) continue;
    const Candidate& first = *firsts.emplace(micro_batch_rows(candidate), &candidate).first->second;
    const Turn& longest = *std::ranges::max_element(
        first.turns, {}, [](const Turn& turn) { return turn.steps.size(); });
    for (const Turn& turn : candidate.turns)
      if (std::string line = difference(first, longest, candidate, turn); !line.empty()) {
        lines.push_back(comparison.workload.shown_name() + ": " + line);
        break;
      }
  }
  return lines;
}

std::vector<std::string> differences(const std::vector<Comparison>& comparisons) {
  std::vector<std::string> all;
  for (const Comparison& comparison : comparisons)
    for (const std::string& line : differences(comparison)) all.push_back(line);
  return all;
}

std::string equality_text(const std::vector<Comparison>& comparisons) {
  const bool is_one_cut = std::ranges::all_of(comparisons, [](const Comparison& comparison) {
    std::set<int64_t> rows;
    for (const Candidate& candidate : comparison.candidates)
      if (!candidate.turns.empty()) rows.insert(micro_batch_rows(candidate));
    return rows.size() <= 1;
  });
  return std::string("the same to the bit under all policies") +
         (is_one_cut ? "" : " with micro-batches of the same size");
}

void require_sound(const std::vector<Comparison>& comparisons) {
  if (const std::string failure = failure_with(1, comparisons); !failure.empty())
    throw Error(failure);
  if (std::vector<std::string> lines = differences(comparisons); !lines.empty())
    throw Error("results depend on the policy, which they must not:\n" + join(lines, "\n"));
  if (const std::string failure = failure_with(2, comparisons); !failure.empty())
    throw ConfigError(failure);
  if (std::ranges::none_of(comparisons, is_measured))
    throw PlanError("none of the policies can be measured here");
}

}  // namespace longshore::trainer
