// Comparisons of policies: turns, what they add up to, and what is said of them.
#include "longshore/trainer/programs/compare/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <system_error>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/planner/auto/auto_account.h"
#include "longshore/trainer/planner/auto/auto_policy.h"
#include "longshore/trainer/programs/compare/figures.h"
#include "longshore/trainer/programs/compare/html.h"
#include "longshore/trainer/programs/compare/report.h"
#include "longshore/trainer/report/bar_chart.h"
#include "longshore/trainer/report/html_page.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;

const std::vector<std::string> kTiny{"backend=cpu",
                                     "base_emb_dim=32",
                                     "base_num_decoder_layers=3",
                                     "base_mlp_dim=48",
                                     "head_dim=16",
                                     "base_num_query_heads=2",
                                     "vocab_size=61",
                                     "max_target_length=16",
                                     "base_num_kv_heads=1",
                                     "dataset_type=synthetic",
                                     "per_device_batch_size=2",
                                     "peak_tflops_per_device=2",
                                     "dtype=float32"};

std::vector<Workload> workloads(const std::string& sweep = "",
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = kTiny;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return make_workloads({std::string(LONGSHORE_SOURCE_DIR) + "/configs/quickstart.yml"}, sweep,
                        overrides);
}

Comparison planned(const std::vector<std::string>& policies) {
  return plan_comparison(workloads()[0], policies);
}

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

// A turn of so many steps that all took as long; memory as planned.
Turn even_turn(const Candidate& candidate, int64_t steps, double seconds) {
  Turn turn{.steps = {},
            .seconds = std::vector<double>(steps, seconds),
            .joules = 2.0 * steps,
            .memory = candidate.plan->memory};
  for (int64_t i = 0; i < steps; ++i)
    turn.steps.push_back({.loss = 4.0 - 0.1 * i, .gradient_norm = 1.0 + i});
  return turn;
}

// `full` takes 0.2 s a step and `none` 0.15 s in odd rounds and 0.16 s in even ones.
Comparison with_turns() {
  Comparison comparison = planned({"full", "none"});
  comparison.peak = Peak{.flops_per_second = 1e9, .description = "1 GFLOP/s"};
  interleave(
      comparison.candidates, {.steps = 10},
      [](const Candidate& candidate, const TurnRequest& request) {
        double none = request.round % 2 == 1 ? 0.15 : 0.16;
        return even_turn(candidate, request.timed_steps, candidate.policy == "full" ? 0.2 : none);
      },
      [](const std::string&) {});
  return comparison;
}

TEST(Compare, GivesEveryPolicyATurnInEveryRound) {
  Comparison comparison = planned({"full", "none", "minimal"});
  comparison.candidates[1].obstacle = "not this one";
  std::vector<std::pair<int64_t, std::string>> order;
  std::map<std::string, int64_t> steps;
  interleave(
      comparison.candidates, {.steps = 7},
      [&](const Candidate& candidate, const TurnRequest& request) {
        EXPECT_EQ(request.rounds, 5);
        order.push_back({request.round, candidate.policy});
        steps[candidate.policy] += request.timed_steps;
        return even_turn(candidate, request.timed_steps, 1);
      },
      [](const std::string&) {});
  EXPECT_EQ(steps, (std::map<std::string, int64_t>{{"full", 7}, {"minimal", 7}}));
  ASSERT_EQ(order.size(), 10u);
  for (size_t i = 0; i < order.size(); i += 2) {
    EXPECT_EQ(order[i].first, i / 2 + 1);
    EXPECT_EQ(order[i + 1].first, i / 2 + 1);
    // Each round begins with another.
    EXPECT_EQ(order[i].second, i / 2 % 2 == 0 ? "full" : "minimal");
    EXPECT_NE(order[i].second, order[i + 1].second);
  }
  EXPECT_EQ(comparison.candidates[0].turns.size(), 5u);
  EXPECT_TRUE(comparison.candidates[1].turns.empty());
}

// A GPU's fault, say. What was measured before is said at every moment.
TEST(Compare, OnePolicysFailureIsNotTheOthers) {
  ComparisonReport report{.comparisons = {planned({"full", "none"})}, .steps = 6};
  Comparison& comparison = report.comparisons[0];
  comparison.peak = Peak{.flops_per_second = 1e9, .description = "1 GFLOP/s"};
  std::vector<std::string> said;
  interleave(
      comparison.candidates, {.steps = 6, .rounds = 3},
      [](const Candidate& candidate, const TurnRequest& request) {
        if (candidate.policy == "full" && request.round == 2) throw Error("an odd address");
        return even_turn(candidate, request.timed_steps, 1);
      },
      [&](const std::string& line) {
        said.push_back(line);
        EXPECT_EQ(json(report)["plans"].size(), 2u);
        EXPECT_FALSE(text(report).empty() || html(report).empty());
      });
  EXPECT_EQ(comparison.candidates[0].turns.size(), 1u);
  EXPECT_EQ(comparison.candidates[1].turns.size(), 3u);
  EXPECT_EQ(said, (std::vector<std::string>{"round 1 of 3, full: 1.0000, 1.0000 s",
                                            "round 1 of 3, none: 1.0000, 1.0000 s",
                                            "round 2 of 3, none: 1.0000, 1.0000 s",
                                            "round 2 of 3, full: failed: an odd address",
                                            "round 3 of 3, none: 1.0000, 1.0000 s"}));
  EXPECT_EQ(json(report)["plans"][0]["failure"], "an odd address");
  EXPECT_FALSE(json(report)["plans"][0]["measured"].is_null());
  for (const std::string& all : {text(report), html(report)})
    EXPECT_TRUE(contains(all, "full: failed: an odd address")) << all;
  try {
    require_sound(report.comparisons);
    FAIL() << "a failure is sound";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "full: an odd address")) << error.what();
  }
}

// The exit code of a report where policies fail in these ways, and the others work.
template <class... Failures>
int code_after(const Failures&... failures) {
  ComparisonReport report{
      .comparisons = {plan_comparison(workloads("", {})[0], {"full", "none", "minimal"})},
      .steps = 2};
  Comparison& comparison = report.comparisons[0];
  std::vector<std::function<void()>> fail{[&] { throw failures; }...};
  interleave(
      comparison.candidates, {.steps = 2, .rounds = 1},
      [&](const Candidate& candidate, const TurnRequest& request) {
        const auto index = static_cast<size_t>(&candidate - comparison.candidates.data());
        if (index < fail.size()) fail[index]();
        return even_turn(candidate, request.timed_steps, 1);
      },
      [](const std::string&) {});
  return exit_code_of("compare", [&] { require_sound(report.comparisons); });
}

TEST(Compare, EndsAsWhatFailedDoes) {
  const std::system_error no_thread(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  const std::bad_alloc no_memory;
  const OutOfMemoryError too_little("device: asked for 3 bytes");
  const DataError fault("an odd address");
  EXPECT_EQ(code_after(), 0);
  EXPECT_EQ(code_after(no_thread), 2);
  EXPECT_EQ(code_after(no_memory), 2);
  EXPECT_EQ(code_after(too_little, no_thread, no_memory), 2);
  EXPECT_EQ(code_after(fault), 1);
  EXPECT_EQ(code_after(no_thread, fault), 1);
  EXPECT_EQ(code_after(fault, no_memory, too_little), 1);
}

TEST(Compare, MeasuresWhatWasPlanned) {
  std::vector<Workload> all = workloads("", {"gradient_accumulation_steps=2"});
  Comparison comparison = plan_comparison(all[0], {"full", "none", "qkv_proj_offloaded"});
  int lines = 0;
  measure(comparison, {.steps = 2}, [&](const std::string&) { ++lines; });
  EXPECT_EQ(lines, 6);
  std::set<double> losses;
  for (const Candidate& candidate : comparison.candidates) {
    ASSERT_EQ(candidate.turns.size(), 2u) << candidate.policy << candidate.obstacle;
    for (const Turn& turn : candidate.turns) {
      EXPECT_EQ(turn.seconds.size(), 1u);
      EXPECT_GT(turn.seconds[0], 0);
      ASSERT_EQ(turn.steps.size(), 3u);
      losses.insert(turn.steps[2].loss);
      for (MemoryKind kind : offload::kMemoryKinds)
        EXPECT_EQ(turn.memory[kind].peak_bytes, candidate.plan->memory[kind].peak_bytes);
    }
    EXPECT_NE(candidate.turns[0].steps[0].loss, candidate.turns[0].steps[2].loss);
  }
  EXPECT_EQ(losses.size(), 1u);
  EXPECT_EQ(differences(comparison), std::vector<std::string>{});
  EXPECT_EQ(comparison.tokens, 2 * 2 * 16);
  EXPECT_EQ(comparison.peak.flops_per_second, 2e12);
  EXPECT_EQ(notes(comparison).size(), 1u);
  // The baseline needs the least but for what is offloaded.
  auto peak = [&](int i, MemoryKind kind) {
    return comparison.candidates[i].turns[0].memory[kind].peak_bytes;
  };
  EXPECT_GT(peak(1, MemoryKind::device), peak(0, MemoryKind::device));
  EXPECT_GT(peak(2, MemoryKind::pinned_host), peak(0, MemoryKind::pinned_host));
}

// `auto` may cut a step into other micro-batches than the workload says; then it is trained so, on
// the same rows, and its sums are in another order.
TEST(Compare, MeasuresWhatAutoHasChosen) {
  data::TemporaryFolder folder;
  offload::Hardware hardware =
      offload::uniform_hardware(models::Target::cpu, {.flops_per_second = 1e10,
                                                      .device_bytes_per_second = 1e10,
                                                      .link_bytes_per_second = 1e10,
                                                      .host_flops_per_second = 1e10,
                                                      .host_bytes_per_second = 1e10,
                                                      .launch_seconds = 1e-5});
  hardware.device_bytes = hardware.host_bytes = int64_t{1} << 34;
  write_file(folder / "cpu.yml", text(hardware));
  std::vector<Workload> all =
      workloads("", {"gradient_accumulation_steps=4", "auto_micro_batch=true", "remat_policy=auto",
                     "hardware=" + (folder / "cpu.yml").string()});
  Comparison comparison = plan_comparison(all[0], {"none", "auto"});
  ASSERT_EQ(comparison.candidates[1].plan->config().gradient_accumulation_steps, 1);
  comparison.peak = Peak{.flops_per_second = 1e9, .description = "1 GFLOP/s"};
  measure(comparison, {.steps = 1, .rounds = 1}, [](const std::string&) {});
  for (const Candidate& candidate : comparison.candidates)
    ASSERT_EQ(candidate.turns.size(), 1u) << candidate.policy << candidate.failure;
  for (int step = 0; step < 3; ++step) {
    const double loss = comparison.candidates[0].turns[0].steps[step].loss;
    EXPECT_NEAR(comparison.candidates[1].turns[0].steps[step].loss, loss, 1e-4 * loss);
  }
  EXPECT_NO_THROW(require_sound({comparison}));
  EXPECT_TRUE(contains(text(ComparisonReport{.comparisons = {comparison}, .steps = 1}),
                       "under all policies with micro-batches of the same size"));
  const std::string choice =
      "auto chose: " + summary(comparison.candidates[1].plan->config()) + "\n";
  EXPECT_TRUE(contains(choice, "micro-batches of")) << choice;
  EXPECT_TRUE(contains(text(ComparisonReport{.comparisons = {comparison}, .steps = 1}), choice));
}

// The config's own policy is not among them, and need not read what they do.
TEST(Compare, PlansThePoliciesThatAreNamed) {
  const Workload workload = workloads("", {"remat_policy=full", "context=offload"})[0];
  const Comparison comparison = plan_comparison(workload, {"full", "custom"});
  ASSERT_TRUE(comparison.candidates[1].plan) << comparison.candidates[1].obstacle;
  EXPECT_GT(comparison.candidates[1].plan->memory[MemoryKind::pinned_host].peak_bytes,
            comparison.candidates[0].plan->memory[MemoryKind::pinned_host].peak_bytes);
  EXPECT_THROW(plan_comparison(workload, {"full", "none"}), ConfigError);
}

TEST(Compare, MeasuresNothingAboveALimit) {
  const std::vector<std::string> policies{"full", "none", "qkv_proj_offloaded"};
  const Comparison free = planned(policies);
  auto peak = [&](int i, MemoryKind kind) {
    return static_cast<double>(free.candidates[i].plan->memory[kind].peak_bytes) / (1 << 30);
  };
  for (auto [limit, allowed, kind, refused] :
       {std::tuple{"device_memory_limit=", 0, MemoryKind::device, 1},
        std::tuple{"host_memory_limit=", 0, MemoryKind::pinned_host, 2}}) {
    const double bytes = (peak(allowed, kind) + peak(refused, kind)) / 2;
    Comparison comparison =
        plan_comparison(workloads("", {limit + std::to_string(bytes)})[0], policies);
    measure(comparison, {.steps = 1}, [](const std::string&) {});
    const Candidate &fits = comparison.candidates[allowed],
                    &not_so = comparison.candidates[refused];
    EXPECT_EQ(fits.turns.size(), 1u) << fits.obstacle;
    EXPECT_TRUE(not_so.turns.empty()) << limit;
    EXPECT_TRUE(contains(not_so.obstacle, "available")) << not_so.obstacle;
    const auto plans = json(ComparisonReport{.comparisons = {comparison}, .steps = 1})["plans"];
    EXPECT_TRUE(plans[allowed]["fits"].get<bool>());
    EXPECT_FALSE(plans[refused]["fits"].get<bool>());
  }
}

TEST(Compare, CountsNoStepWhoseNumbersAreNotFinite) {
  Comparison comparison = plan_comparison(workloads("", {"learning_rate=1e30"})[0], {"full"});
  measure(comparison, {.steps = 2}, [](const std::string&) {});
  const Candidate& candidate = comparison.candidates[0];
  EXPECT_TRUE(candidate.turns.empty());
  EXPECT_TRUE(contains(candidate.failure, "expected finite numbers")) << candidate.failure;
}

TEST(Compare, SaysWhichPolicyHasOtherLosses) {
  Comparison comparison = with_turns();
  EXPECT_EQ(differences(comparison), std::vector<std::string>{});
  EXPECT_NO_THROW(require_sound({comparison}));

  comparison.candidates[1].turns[3].steps[1].loss = std::nextafter(3.9, 4.0);
  std::vector<std::string> lines = differences(comparison);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(contains(lines[0], "loss of step 1: 3.9 under full, 3.9000000000000004 under none"))
      << lines[0];
  EXPECT_THROW(require_sound({comparison}), Error);
  ComparisonReport report{.comparisons = {comparison}, .steps = 10};
  EXPECT_FALSE(json(report)["losses_equal"]);
  EXPECT_FALSE(contains(text(report), "the same to the bit"));
  EXPECT_TRUE(contains(html(report), lines[0]));

  Comparison norms = with_turns();
  norms.candidates[0].turns[4].steps[0].gradient_norm = NAN;  // the baseline against itself
  ASSERT_EQ(differences(norms).size(), 1u);
  EXPECT_TRUE(contains(differences(norms)[0], "gradient norm of step 0: 1 under full, nan"))
      << differences(norms)[0];
}

TEST(Compare, AddsTurnsUp) {
  Comparison comparison = with_turns();
  Figures full = figures(comparison, comparison.candidates[0], 7.2),
          none = figures(comparison, comparison.candidates[1], 7.2);
  EXPECT_DOUBLE_EQ(full.median_seconds, 0.2);
  EXPECT_DOUBLE_EQ(full.tokens_per_second, 2 * 16 / 0.2);
  EXPECT_DOUBLE_EQ(full.mfu, comparison.flops / 0.2 / 1e9);
  EXPECT_FALSE(full.gain);
  // Two units a thousand seconds, 160 tokens a second.
  EXPECT_DOUBLE_EQ(*full.cost_per_million_tokens, 2e-3 / 160 * 1e6);
  EXPECT_DOUBLE_EQ(*full.tokens_per_joule, 32 / 2.0);

  EXPECT_DOUBLE_EQ(none.median_seconds, 0.15);  // six of ten steps
  EXPECT_DOUBLE_EQ(none.p10_seconds, 0.15);
  EXPECT_DOUBLE_EQ(none.p90_seconds, 0.16);
  ASSERT_TRUE(none.gain);
  EXPECT_DOUBLE_EQ(none.gain->part, 0.25);
  EXPECT_DOUBLE_EQ(none.gain->least, 0.2);
  EXPECT_DOUBLE_EQ(none.gain->most, 0.25);
  EXPECT_TRUE(none.gain->is_certain());
  int64_t full_bytes = comparison.candidates[0].plan->memory[MemoryKind::device].peak_bytes,
          none_bytes = comparison.candidates[1].plan->memory[MemoryKind::device].peak_bytes;
  EXPECT_LT(full_bytes, none_bytes);
  EXPECT_EQ(none.gain->saved_device_bytes, full_bytes - none_bytes);

  // Gains of 10 % in three rounds, of 50 % in one, and a loss of 50 % in another.
  const std::vector<double> before{1, 2, 3, 4, 5}, now{0.9, 1.8, 2.7, 6, 2.5};
  for (size_t round = 0; round < before.size(); ++round) {
    std::ranges::fill(comparison.candidates[0].turns[round].seconds, before[round]);
    std::ranges::fill(comparison.candidates[1].turns[round].seconds, now[round]);
  }
  EXPECT_NEAR(figures(comparison, comparison.candidates[1], {}).gain->part, 0.1, 1e-12);

  // Without a price, a counter or a baseline there is nothing to say.
  for (Turn& turn : comparison.candidates[1].turns) turn.joules.reset();
  comparison.candidates[0].turns.clear();
  none = figures(comparison, comparison.candidates[1], {});
  EXPECT_FALSE(none.gain || none.cost_per_million_tokens || none.tokens_per_joule);
}

TEST(Compare, GoesOnWithoutWhatCannotBeMeasured) {
  Comparison comparison = with_turns();
  comparison.candidates[0].turns.clear();
  comparison.candidates[0].obstacle = "does not fit <here>";
  ComparisonReport report{.comparisons = {comparison}, .steps = 10};
  EXPECT_NO_THROW(require_sound(report.comparisons));
  EXPECT_TRUE(contains(text(report), "full: does not fit <here>"));
  EXPECT_TRUE(contains(html(report), "full: does not fit &lt;here&gt;"));
  auto plans = json(report)["plans"];
  EXPECT_EQ(plans[0]["fits"], false);
  EXPECT_EQ(plans[0]["reason"], "does not fit <here>");
  EXPECT_TRUE(plans[0]["measured"].is_null());
  EXPECT_EQ(plans[1]["fits"], true);
  EXPECT_FALSE(plans[1]["measured"].contains("gain"));

  report = {.comparisons = {planned({"full", "none"})}, .steps = 10};
  EXPECT_THROW(require_sound(report.comparisons), PlanError);
  for (const std::string& said : {text(report), html(report)})
    for (const char* word : {"to the bit", "to the byte", "gain"})
      EXPECT_FALSE(contains(said, word)) << word;
}

TEST(Compare, ShowsHowEvenlyTokensGoToExperts) {
  Comparison comparison = with_turns();
  const ComparisonReport dense{.comparisons = {comparison}, .steps = 10};
  EXPECT_FALSE(contains(text(dense), "expert load"));
  EXPECT_FALSE(json(dense)["plans"][0]["measured"].contains("expert_loads"));
  for (Candidate& candidate : comparison.candidates)
    for (Turn& turn : candidate.turns)
      for (size_t i = 0; i < turn.steps.size(); ++i)
        turn.steps[i].expert_load = 1.25 + static_cast<double>(i);
  const ComparisonReport report{.comparisons = {comparison}, .steps = 10};
  const size_t steps = comparison.candidates[0].turns[0].steps.size();
  const std::string line =
      fmt::format("expert load, of a step's busiest expert over the mean: 1.25 to {:.2f}",
                  0.25 + static_cast<double>(steps));
  EXPECT_TRUE(contains(text(report), line)) << text(report);
  EXPECT_TRUE(contains(html(report), "1.25 to "));
  EXPECT_EQ(json(report)["plans"][0]["measured"]["expert_loads"].size(), steps);
}

TEST(Compare, JsonHasMeasuredBesidePlans) {
  Comparison comparison = with_turns();
  ComparisonReport report{
      .comparisons = {comparison, comparison}, .steps = 10, .price_per_device_hour = 1.0};
  report.comparisons[1].workload.name = "another";
  nlohmann::ordered_json all = json(report);
  EXPECT_EQ(all["losses_equal"], true);
  ASSERT_EQ(all["plans"].size(), 4u);
  EXPECT_EQ(all["plans"][2]["workload"], "another");
  const auto& none = all["plans"][1];
  EXPECT_EQ(none["policy"], "none");
  EXPECT_EQ(none["memory"], json(comparison.candidates[1].plan->memory));
  const auto& measured = none["measured"];
  const Figures figure = figures(comparison, comparison.candidates[1], 1.0);
  EXPECT_EQ(measured["step_seconds"], 0.15);
  EXPECT_EQ(measured["memory"], json(comparison.candidates[1].turns[0].memory));
  EXPECT_DOUBLE_EQ(measured["gain"]["step_time_saved"].get<double>(), 0.25);
  EXPECT_EQ(measured["step_seconds_by_round"].size(), 5u);
  EXPECT_EQ(measured["losses"][1], 3.9);
  EXPECT_EQ(measured["gain"]["least_of_rounds"], figure.gain->least);
  EXPECT_EQ(measured["gain"]["most_of_rounds"], figure.gain->most);
  for (const auto& [key, value] : {std::pair{"p10_step_seconds", figure.p10_seconds},
                                   {"p90_step_seconds", figure.p90_seconds},
                                   {"tokens_per_second_per_device", figure.tokens_per_second},
                                   {"mfu", figure.mfu},
                                   {"tokens_per_joule", *figure.tokens_per_joule},
                                   {"cost_per_million_tokens", *figure.cost_per_million_tokens}})
    EXPECT_EQ(measured.at(key), value) << key;
  const auto& workload = all["workloads"][1];
  EXPECT_EQ(workload["name"], "another");
  EXPECT_EQ(workload["tokens_per_step"], comparison.tokens);
  EXPECT_EQ(workload["model_flops_per_step"], comparison.flops);
  EXPECT_EQ(workload["peak_flops_per_second"], 1e9);
}

TEST(Compare, PageHasAllFiguresAndLoadsNothing) {
  Comparison comparison = with_turns();
  comparison.workload.config.hardware = "<made up>";
  comparison.flops = 4.5e7;  // 0.3 of the peak in 0.15 s
  for (Candidate& candidate : comparison.candidates)
    candidate.plan->estimate = Estimate{.step_seconds = 0.25, .runs = {}};
  ComparisonReport report{
      .comparisons = {comparison, comparison}, .steps = 10, .price_per_device_hour = 1.0};
  report.comparisons[1].workload.name = "a&b";
  std::string page = html(report);
  for (const auto& table : {figures_table(comparison, 1.0), gains_table(report)})
    for (const auto& row : table)
      for (const std::string& cell : row)
        EXPECT_TRUE(contains(page, html_escaped(cell) + "</t")) << cell;
  for (const char* word : {"10 timed steps of each policy, in 5 rounds", "base_emb_dim: 32",
                           "&lt;made up&gt;", "a&amp;b", "predicted s", "0.2500", "+66.7 %",
                           "+25.0 %", "30.0 %", "tokens/J", "cost/M tokens", "class=\"optimizer\""})
    EXPECT_TRUE(contains(page, word)) << word;
  for (const char* word :
       {"http:", "https:", "src=", "href=\"h", "url(", "@import", "<made up>", "nan%"})
    EXPECT_FALSE(contains(page, word)) << word;
}

TEST(Compare, TextLeavesOutWhatIsNotKnown) {
  Comparison comparison = with_turns();
  for (Candidate& candidate : comparison.candidates)
    for (Turn& turn : candidate.turns) turn.joules.reset();
  std::string said = text(ComparisonReport{.comparisons = {comparison}, .steps = 10});
  for (const char* word : {"step s", "+25.0 %", "+20.0 % to +25.0 %",
                           "memory peaks are the planned", "the same to the bit"})
    EXPECT_TRUE(contains(said, word)) << word << "\n" << said;
  for (const char* word : {"tokens/J", "cost", "predicted", "gain over"})
    EXPECT_FALSE(contains(said, word)) << word << "\n" << said;
  comparison.candidates[1].turns.back().memory[MemoryKind::device].peak_bytes += 1 << 20;
  said = text(ComparisonReport{.comparisons = {comparison, comparison}, .steps = 10});
  EXPECT_TRUE(contains(said, "none: device peak")) << said;
  EXPECT_TRUE(contains(said, "gain over full")) << said;
}

TEST(Compare, ChartsKeepValuesInside) {
  std::string chart =
      bar_chart({{.label = "a",
                  .value = "",
                  .parts = {{0, -3, "one", ""}},
                  .spread = std::pair{-4.0, 1.0},
                  .marker = {}},
                 {.label = "b", .value = "", .parts = {}, .spread = {}, .marker = 6}},
                {.text = [](double value) { return std::to_string(value); }});
  // Every position is a percentage of the track.
  size_t found = 0;
  for (const char* key : {"x=\"", "x1=\"", "x2=\"", "left:"})
    for (size_t at = 0; (at = chart.find(key, at)) != std::string::npos; ++at, ++found) {
      double percent = std::stod(chart.substr(at + std::strlen(key)));
      EXPECT_GE(percent, 0);
      EXPECT_LE(percent, 100);
    }
  EXPECT_GT(found, 10u);
  EXPECT_FALSE(contains(chart, "-0.000000"));
}

TEST(Compare, MakesAWorkloadOfEachValue) {
  std::vector<Workload> swept = workloads("seed=3,4");
  ASSERT_EQ(swept.size(), 2u);
  EXPECT_EQ(swept[1].name, "seed=4");
  EXPECT_EQ(swept[1].config.seed, 4);
  // Data is made up, so a config's files need not be there.
  Config text = make_workloads({std::string(LONGSHORE_SOURCE_DIR) + "/configs/quickstart.yml"}, "",
                               std::vector<std::string>{"dataset_path=/none"})[0]
                    .config;
  EXPECT_EQ(text.dataset_type, DatasetType::synthetic);
}

}  // namespace
}  // namespace longshore::trainer
