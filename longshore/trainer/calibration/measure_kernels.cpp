#include "longshore/trainer/calibration/measure_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "longshore/base/timing.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/offload/policy/policy.h"
#include "longshore/trainer/calibration/timed_instruction.h"
#include "longshore/trainer/step/step_plans.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using offload::Backend;
using offload::Hardware;
using offload::Instruction;
using offload::Lane;
using offload::MemoryKind;
using offload::RateCurve;

struct Sample {
  models::OpClass op_class;
  double flops, bytes, rows, seconds;
};
// The samples by the name of their work in a profile, such as "linear.bf16", and then by op and
// types of the operands.
using Samples = std::map<std::string, std::map<std::string, Sample>>;

// Which kernels of a step are measured.
enum class Measured { device, host, variants, grouped };

// Of a kernel's times in several rounds the smallest counts, since other work on the machine only
// adds to it.
void measure_step(const models::DecoderConfig& config, Measured measured, Backend& backend,
                  Samples& samples) {
  models::Model model = models::decoder(config);
  const Lane update_lane = measured == Measured::host ? Lane::host_compute : Lane::compute;
  MemoryKind home = measured == Measured::host ? MemoryKind::pinned_host : MemoryKind::device;
  const models::Optimizer optimizer =
      models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1});
  offload::ParameterLayout layout = offload::lay_out(
      model, {.homes = {.optimizer = home},
              .optimizers = {{.states = states_of(optimizer, models::StateFormat::float32)}}});
  StepPlans plans =
      plan_step(model, layout,
                {.policy = offload::make_policy(offload::kFull, {}, main_stage(model).programs),
                 .optimizer = OptimizerOptions{.optimizers = {optimizer}, .lane = update_lane}},
                backend.target());
  const offload::Plan& plan = plans.plans[0];
  std::set<std::string> seen;
  for (const Instruction& instruction : plan.instructions) {
    if (!instruction.op) continue;
    bool on_host = instruction.lane == Lane::host_compute;
    if (on_host != (measured == Measured::host)) continue;
    const std::string rate_name = instruction.op->rate_name(instruction.attrs);
    if (measured == Measured::variants && rate_name == instruction.op->name) continue;
    if (measured == Measured::grouped && instruction.op->op_class != models::OpClass::grouped)
      continue;
    std::vector<models::Type> in, out;
    std::string key = rate_name;
    for (auto [operands, types] :
         {std::pair{&instruction.in, &in}, std::pair{&instruction.out, &out}})
      for (const offload::Operand& operand : *operands) {
        types->push_back(operand.type);
        key += " " + models::text(operand.type);
      }
    models::Cost cost = instruction.op->cost(instruction.attrs, in, out);
    std::string work = std::string(on_host ? "host." : "") + rate_name + "." +
                       name(in.empty() ? out[0].dtype : in[0].dtype);
    if (!seen.insert(work + key).second) continue;
    Sample sample{instruction.op->op_class, cost.flops, cost.bytes, cost.rows,
                  TimedInstruction(instruction, plan, backend).seconds()};
    auto [known, is_new] = samples[work].emplace(key, sample);
    if (!is_new) known->second.seconds = std::min(known->second.seconds, sample.seconds);
  }
}

// A curve with one point for each octave of sizes: the medians of sizes and rates of its samples.
RateCurve curve_of(std::vector<RateCurve::Point> points) {
  std::sort(points.begin(), points.end());
  std::vector<RateCurve::Point> curve;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    std::vector<double> sizes, rates;
    for (; end < points.size() && points[end].first < 2 * points[begin].first; ++end) {
      sizes.push_back(points[end].first);
      rates.push_back(points[end].second);
    }
    curve.push_back({median(sizes), median(rates)});
    begin = end;
  }
  return RateCurve(std::move(curve));
}

// The rates of each op and, for those that no measured model has, of its class.
void set_rates(const Samples& samples, Hardware& hardware) {
  using models::OpClass;
  std::map<std::string, std::vector<RateCurve::Point>> flops_rates, bytes_rates;  // by WORK
  for (const auto& [work, kernels] : samples) {
    const OpClass op_class = kernels.begin()->second.op_class;  // of all of them
    const bool is_memory = op_class == OpClass::memory;
    const std::string dtype = work.substr(work.rfind('.')),
                      host = work.starts_with("host.") ? "host." : "";
    // Profiles distinguish float32 and bfloat16. Ops with other dtypes have only one.
    const bool is_float = dtype == ".f32" || dtype == ".bf16";
    const std::string of_op = is_float ? work : work.substr(0, work.rfind('.')),
                      of_class = host + name(op_class) + (is_memory ? "" : dtype);
    for (const auto& [kernel, sample] : kernels) {
      const double seconds = std::max(sample.seconds - hardware.launch_seconds, 1e-8),
                   work_done = is_memory ? sample.bytes : sample.flops,
                   size = op_class == OpClass::grouped ? sample.rows : work_done;
      if (work_done <= 0) continue;
      for (const std::string& known : {of_op, of_class})
        (is_memory ? bytes_rates : flops_rates)[known].push_back({size, work_done / seconds});
    }
  }
  for (const auto& [work, points] : flops_rates) hardware.flops_per_second[work] = curve_of(points);
  for (const auto& [work, points] : bytes_rates) hardware.bytes_per_second[work] = curve_of(points);
}

}  // namespace

std::vector<models::DecoderConfig> measured_decoders(Dtype dtype, models::Target target) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes{
      // width, length, batch
      {128, 128, 1},  {256, 256, 2},   {512, 512, 2},  {512, 1024, 4},
      {1024, 512, 4}, {1024, 2048, 1}, {2048, 1024, 1}};
  // GPUs reach their full rates only with a lot of work.
  if (models::is_cuda(target)) sizes.insert(sizes.end(), {{2048, 4096, 1}, {4096, 4096, 2}});
  std::vector<models::DecoderConfig> configs;
  for (auto [width, length, batch] : sizes) {
    const int64_t head_dim = width < 2048 ? 64 : 128;
    configs.push_back({.batch = batch,
                       .length = length,
                       .vocabulary = 16 * width,
                       .width = width,
                       .layers = 2,
                       .query_heads = width / head_dim,
                       .kv_heads = std::max<int64_t>(1, width / head_dim / 4),
                       .head_dim = head_dim,
                       .mlp_width = 11 * width / 4,
                       .dtype = dtype});
  }
  return configs;
}

namespace {

// Mixtures whose experts have from few rows to many.
std::vector<models::DecoderConfig> measured_mixtures(Dtype dtype, models::Target target) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes{// width, length, experts
                                                           {512, 256, 64},
                                                           {512, 512, 16},
                                                           {512, 2048, 8},
                                                           {1024, 2048, 4}};
  if (models::is_cuda(target)) sizes.insert(sizes.end(), {{2048, 4096, 128}, {2048, 4096, 8}});
  std::vector<models::DecoderConfig> configs;
  for (auto [width, length, experts] : sizes)
    configs.push_back({.length = length,
                       .vocabulary = 2048,
                       .width = width,
                       .layers = 1,
                       .query_heads = width / 128,
                       .kv_heads = width / 128,
                       .experts = experts,
                       .experts_per_token = 2,
                       .expert_width = 2 * width,
                       .dtype = dtype,
                       .family = &models::kMixtral});
  return configs;
}

}  // namespace

void measure_kernels(const std::vector<Dtype>& dtypes, Backend& backend, const Log& log,
                     Hardware& hardware) {
  // On a processor several times, since other programs may disturb a whole timing.
  const int rounds = models::is_cuda(backend.target()) ? 1 : 4;
  Samples samples;
  for (int round = 0; round < rounds; ++round)
    for (Dtype dtype : dtypes) {
      log(fmt::format("kernels in {}, round {} of {}", models::name(dtype), round + 1, rounds));
      for (const models::DecoderConfig& config : measured_mixtures(dtype, backend.target()))
        measure_step(config, Measured::grouped, backend, samples);
      for (const models::DecoderConfig& config : measured_decoders(dtype, backend.target())) {
        measure_step(config, Measured::device, backend, samples);
        measure_step(config, Measured::host, backend, samples);
        if (!models::is_cuda(backend.target())) continue;  // others have one order
        models::DecoderConfig any_order = config;
        any_order.deterministic = false;
        measure_step(any_order, Measured::variants, backend, samples);
      }
    }
  // Some kernels have so little work that they take no more than the launch.
  hardware.launch_seconds = 1;
  for (const auto& [work, kernels] : samples)
    for (const auto& [kernel, sample] : kernels)
      hardware.launch_seconds = std::min(hardware.launch_seconds, sample.seconds);
  set_rates(samples, hardware);
  for (Dtype dtype : dtypes) {
    double most = 0;
    for (const auto& [kernel, sample] : samples[std::string("linear.") + models::name(dtype)])
      most = std::max(most, sample.flops / sample.seconds);
    hardware.peak_flops_per_second[dtype] = most;
  }
}

}  // namespace longshore::trainer
