#include "longshore/trainer/programs/compare/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "longshore/trainer/planner/advice/plan_report.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/programs/compare/figures.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;
using offload::bytes_text;
using offload::MemoryKind;

const std::string kEmptyCell = "-";

std::string peak_text(const MemoryByKind& memory, MemoryKind kind) {
  return bytes_text(memory[kind].peak_bytes);
}

// A column with its cell for a policy, which is "" if the policy has no such figure.
struct Column {
  std::string title;
  std::function<std::string(const Candidate&, const Figures&)> cell;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> kColumns{
      {"policy", [](const Candidate& c, const Figures&) { return c.policy; }},
      {"step s",
       [](const Candidate&, const Figures& f) { return fmt::format("{:.4f}", f.median_seconds); }},
      {"p10-p90",
       [](const Candidate&, const Figures& f) {
         return fmt::format("{:.4f}-{:.4f}", f.p10_seconds, f.p90_seconds);
       }},
      {"predicted s",
       [](const Candidate& c, const Figures&) {
         return c.plan->estimate ? fmt::format("{:.4f}", c.plan->estimate->step_seconds) : "";
       }},
      {"off by",
       [](const Candidate& c, const Figures& f) {
         if (!c.plan->estimate) return std::string();
         return percent_text(c.plan->estimate->step_seconds / f.median_seconds - 1);
       }},
      {"gain",
       [](const Candidate&, const Figures& f) { return f.gain ? percent_text(f.gain->part) : ""; }},
      {"by round",
       [](const Candidate&, const Figures& f) {
         if (!f.gain) return std::string();
         return percent_text(f.gain->least) + " to " + percent_text(f.gain->most);
       }},
      {"MFU",
       [](const Candidate&, const Figures& f) { return fmt::format("{:.1f} %", 100 * f.mfu); }},
      {"tokens/s", [](const Candidate&,
                      const Figures& f) { return fmt::format("{:.1f}", f.tokens_per_second); }},
      {"tokens/J",
       [](const Candidate&, const Figures& f) {
         return f.tokens_per_joule ? fmt::format("{:.4g}", *f.tokens_per_joule) : "";
       }},
      {"cost/M tokens",
       [](const Candidate&, const Figures& f) {
         return f.cost_per_million_tokens ? fmt::format("{:.4g}", *f.cost_per_million_tokens) : "";
       }},
      {"device peak",
       [](const Candidate&, const Figures& f) { return peak_text(f.memory, MemoryKind::device); }},
      {"host peak", [](const Candidate&,
                       const Figures& f) { return peak_text(f.memory, MemoryKind::pinned_host); }},
      {"device in use",
       [](const Candidate&, const Figures& f) { return bytes_text(f.used_device_bytes); }},
      {"device saved",
       [](const Candidate&, const Figures& f) {
         return f.gain ? signed_bytes_text(f.gain->saved_device_bytes) : "";
       }},
  };
  return kColumns;
}

ordered_json measured_json(const Candidate& candidate, const Figures& f) {
  ordered_json rounds = ordered_json::array(), losses = ordered_json::array(),
               loads = ordered_json::array();
  for (const Turn& turn : candidate.turns) rounds.push_back(turn.seconds);
  for (const StepResult& step : candidate.turns[0].steps) {
    losses.push_back(step.loss);
    if (step.expert_load > 0) loads.push_back(step.expert_load);
  }
  ordered_json measured{{"step_seconds", f.median_seconds},
                        {"p10_step_seconds", f.p10_seconds},
                        {"p90_step_seconds", f.p90_seconds},
                        {"tokens_per_second_per_device", f.tokens_per_second},
                        {"mfu", f.mfu}};
  if (f.gain)
    measured["gain"] = {{"step_time_saved", f.gain->part},
                        {"least_of_rounds", f.gain->least},
                        {"most_of_rounds", f.gain->most},
                        {"saved_device_bytes", f.gain->saved_device_bytes}};
  if (f.tokens_per_joule) measured["tokens_per_joule"] = *f.tokens_per_joule;
  if (f.cost_per_million_tokens) measured["cost_per_million_tokens"] = *f.cost_per_million_tokens;
  measured["memory"] = json(f.memory);
  measured["used_device_bytes"] = f.used_device_bytes;
  measured["losses"] = losses;
  if (!loads.empty()) measured["expert_loads"] = loads;
  measured["step_seconds_by_round"] = rounds;
  return measured;
}

ordered_json json(const Comparison& comparison, const Candidate& candidate,
                  std::optional<double> price) {
  ordered_json one{{"workload", comparison.workload.name}};
  if (candidate.plan)
    one.update(json(*candidate.plan));
  else
    one["policy"] = candidate.policy;
  one["fits"] = candidate.obstacle.empty();
  if (!candidate.failure.empty()) one["failure"] = candidate.failure;
  if (candidate.turns.empty()) {
    if (!candidate.obstacle.empty()) one["reason"] = candidate.obstacle;
    one["measured"] = nullptr;
  } else {
    one["measured"] = measured_json(candidate, figures(comparison, candidate, price));
  }
  return one;
}

ordered_json workload_json(const Comparison& comparison) {
  ordered_json one{{"name", comparison.workload.name},
                   {"config", comparison.workload.config.config_file},
                   {"backend", comparison.backend.description},
                   {"tokens_per_step", comparison.tokens},
                   {"model_flops_per_step", comparison.flops}};
  if (is_measured(comparison)) one["peak_flops_per_second"] = comparison.peak.flops_per_second;
  return one;
}

}  // namespace

std::string percent_text(double part) { return fmt::format("{:+.1f} %", 100 * part); }

std::string signed_bytes_text(int64_t bytes) {
  if (bytes == 0) return bytes_text(0);
  return (bytes < 0 ? "-" : "+") + bytes_text(std::abs(bytes));
}

Table figures_table(const Comparison& comparison, std::optional<double> price) {
  Table table(1);
  for (const Candidate& candidate : comparison.candidates)
    if (!candidate.turns.empty()) table.emplace_back();
  for (const Column& column : columns()) {
    std::vector<std::string> cells;
    for (const Candidate& candidate : comparison.candidates)
      if (!candidate.turns.empty())
        cells.push_back(column.cell(candidate, figures(comparison, candidate, price)));
    if (std::ranges::all_of(cells, &std::string::empty)) continue;
    table[0].push_back(column.title);
    for (size_t i = 0; i < cells.size(); ++i)
      table[i + 1].push_back(cells[i].empty() ? kEmptyCell : cells[i]);
  }
  return table;
}

Table gains_table(const ComparisonReport& report) {
  Table table{{"workload"}};
  const std::vector<Candidate>& policies = report.comparisons[0].candidates;
  for (size_t i = 1; i < policies.size(); ++i) {
    table[0].push_back(policies[i].policy);
    table[0].push_back("device saved");
  }
  for (const Comparison& comparison : report.comparisons) {
    std::vector<std::string>& row = table.emplace_back(1, comparison.workload.shown_name());
    for (size_t i = 1; i < comparison.candidates.size(); ++i) {
      const Candidate& candidate = comparison.candidates[i];
      std::optional<Gain> gain;
      if (!candidate.turns.empty()) gain = figures(comparison, candidate, {}).gain;
      row.push_back(gain ? percent_text(gain->part) : kEmptyCell);
      row.push_back(gain ? signed_bytes_text(gain->saved_device_bytes) : kEmptyCell);
    }
  }
  return table;
}

std::vector<std::string> obstacles(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : comparison.candidates) {
    if (!candidate.obstacle.empty()) lines.push_back(candidate.policy + ": " + candidate.obstacle);
    if (!candidate.failure.empty())
      lines.push_back(candidate.policy + ": failed: " + candidate.failure);
  }
  return lines;
}

std::vector<std::string> choices(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : comparison.candidates)
    if (candidate.plan && !candidate.plan->account.empty())
      lines.push_back(candidate.policy + " chose: " + summary(candidate.plan->config()));
  return lines;
}

// Of the steps of all policies, which route alike. "" without experts.
std::string expert_load_text(const Comparison& comparison) {
  std::vector<double> loads;
  for (const Candidate& candidate : comparison.candidates)
    for (const Turn& turn : candidate.turns)
      for (const StepResult& step : turn.steps)
        if (step.expert_load > 0) loads.push_back(step.expert_load);
  if (loads.empty()) return "";
  const auto [least, most] = std::ranges::minmax(loads);
  return fmt::format("expert load, of a step's busiest expert over the mean: {:.2f} to {:.2f}",
                     least, most);
}

std::vector<std::string> notes(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : comparison.candidates)
    for (MemoryKind kind : offload::kMemoryKinds) {
      if (candidate.turns.empty()) continue;
      int64_t planned = candidate.plan->memory[kind].peak_bytes,
              taken = candidate.turns.back().memory[kind].peak_bytes;
      if (taken != planned)
        lines.push_back(fmt::format("{}: {} peak {}, planned {}", candidate.policy,
                                    offload::name(kind), bytes_text(taken), bytes_text(planned)));
    }
  if (lines.empty()) lines = {"memory peaks are the planned ones to the byte"};
  if (std::string load = expert_load_text(comparison); !load.empty())
    lines.push_back(std::move(load));
  return lines;
}

std::string text(const ComparisonReport& report) {
  std::string result;
  for (const Comparison& comparison : report.comparisons) {
    result +=
        comparison.workload.shown_name() + ", backend " + comparison.backend.description + "\n";
    for (const std::string& line : choices(comparison)) result += line + "\n";
    if (is_measured(comparison)) {
      result += "MFU is against " + comparison.peak.description + "\n";
      result += text(figures_table(comparison, report.price_per_device_hour));
      for (const std::string& line : notes(comparison)) result += line + "\n";
      if (const Candidate& first = comparison.candidates[0]; first.turns.empty())
        result += "no gains: they are over " + first.policy + ", which did not run\n";
    }
    for (const std::string& line : obstacles(comparison)) result += line + "\n";
    result += "\n";
  }
  if (std::ranges::none_of(report.comparisons, is_measured)) return result;
  if (report.comparisons.size() > 1 && report.comparisons[0].candidates.size() > 1)
    result += fmt::format("gain over {}, and device memory saved:\n{}\n",
                          report.comparisons[0].candidates[0].policy, text(gains_table(report)));
  if (differences(report.comparisons).empty())
    result += "losses and gradient norms are " + equality_text(report.comparisons) + "\n";
  return result;
}

ordered_json json(const ComparisonReport& report) {
  ordered_json workloads = ordered_json::array(), plans = ordered_json::array();
  for (const Comparison& comparison : report.comparisons) {
    workloads.push_back(workload_json(comparison));
    for (const Candidate& candidate : comparison.candidates)
      plans.push_back(json(comparison, candidate, report.price_per_device_hour));
  }
  std::vector<std::string> differing = differences(report.comparisons);
  return {{"steps", report.steps},
          {"losses_equal", differing.empty()},
          {"differences", differing},
          {"workloads", workloads},
          {"plans", plans}};
}

}  // namespace longshore::trainer
