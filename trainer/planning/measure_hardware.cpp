#include "trainer/planning/measure_hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/timing.h"
#include "models/decoder.h"
#include "models/ops/add.h"
#include "offload/policy.h"
#include "trainer/config/model_config.h"
#include "trainer/planning/ordinary_numbers.h"
#include "trainer/step/step_plans.h"

namespace longshore::trainer {
namespace {

using models::Dtype;
using offload::Backend;
using offload::Hardware;
using offload::Instruction;
using offload::Lane;
using offload::MemoryKind;
using offload::RateCurve;

enum class Contents {
  product,  // floats are ordinary_numbers(), as products of trained weights have them
  small,    // floats are small and above 0, which every op takes
};

// Memory of one kind that goes with its scope.
class Memory {
 public:
  Memory(Backend& backend, MemoryKind kind, const models::Type& type, int64_t bytes,
         Contents contents)
      : backend_(backend),
        kind_(kind),
        memory_(backend.allocate(kind, std::max<int64_t>(bytes, 64))) {
    constexpr int64_t kMost = int64_t{16} << 20;  // bytes of different numbers; more repeat them
    const int64_t made = std::min(bytes, kMost);
    const std::vector<uint32_t> words = numbers(type.dtype, made, contents);
    for (int64_t at = 0; at < bytes; at += made)
      backend.write(kind, memory_ + at, words.data(), std::min(made, bytes - at));
  }
  Memory(Memory&& other) noexcept
      : backend_(other.backend_), kind_(other.kind_), memory_(other.memory_) {
    other.memory_ = nullptr;
  }
  ~Memory() {
    if (memory_) backend_.free(kind_, memory_);
  }

  std::byte* get() const { return memory_; }

 private:
  static std::vector<uint32_t> numbers(Dtype dtype, int64_t bytes, Contents contents) {
    const bool is_float = dtype == Dtype::float32 || dtype == Dtype::bfloat16;
    if (is_float && contents == Contents::product) return ordinary_numbers(dtype, bytes);
    std::vector<uint32_t> words(static_cast<size_t>((bytes + 3) / 4));
    uint32_t i = 0;
    for (uint32_t& word : words) {
      if (dtype == Dtype::float32)
        word = std::bit_cast<uint32_t>(0.001f * static_cast<float>(1 + i++ % 97));
      else if (dtype == Dtype::bfloat16)  // 0.0625 and its neighbours, two in a word
        word = 0x3d803d80 + (i++ % 97) * 0x10001;
    }
    return words;
  }

  Backend& backend_;
  MemoryKind kind_;
  std::byte* memory_;
};

// One instruction of a plan, with memory of its own.
class Kernel {
 public:
  Kernel(const Instruction& instruction, const offload::Plan& plan, Backend& backend)
      : instruction_(instruction), plan_(plan), backend_(backend) {
    MemoryKind kind =
        instruction.lane == Lane::host_compute ? MemoryKind::pinned_host : MemoryKind::device;
    auto refs = [&](const std::vector<offload::Operand>& operands) {
      std::vector<models::Ref> refs;
      for (const offload::Operand& operand : operands) {
        memory_.emplace_back(backend, kind, operand.type, operand.type.bytes(),
                             is_product() ? Contents::product : Contents::small);
        refs.push_back({memory_.back().get(), operand.type});
      }
      return refs;
    };
    in_ = refs(instruction.in);
    out_ = refs(instruction.out);
    if (!instruction.workspace) return;
    int64_t bytes = plan.buffers[instruction.workspace.buffer].bytes;
    memory_.emplace_back(backend, kind, models::Type{{}, Dtype::uint8}, bytes, Contents::small);
    workspace_ = {memory_.back().get(), static_cast<size_t>(bytes)};
  }

  void enqueue(int times) const {
    for (int i = 0; i < times; ++i)
      backend_.run(
          instruction_.lane, *instruction_.op,
          {.target = instruction_.lane == Lane::host_compute ? models::host_target(plan_.target)
                                                             : plan_.target,
           .attrs = instruction_.attrs,
           .in = in_,
           .out = out_,
           .workspace = workspace_});
  }

  double seconds() const {
    // Seconds that one timing takes at least. A GPU that was idle runs products faster for a moment
    // than its power lets it go on.
    const double least = is_product() && models::is_cuda(plan_.target) ? 50e-3 : 3e-3;
    constexpr int kTimings = 2;
    auto quickest = [&](int timings, int times) {
      return quickest_seconds(timings, [&] {
        enqueue(times);
        backend_.synchronize();
      });
    };
    quickest(1, 1);  // libraries load kernels and allocate at the first call
    double one = quickest(1, 1);
    int times = std::clamp(static_cast<int>(least / std::max(one, 1e-7)), 1, 1000);
    return quickest(kTimings, times) / times;
  }

 private:
  bool is_product() const { return instruction_.op->op_class != models::OpClass::memory; }

  const Instruction& instruction_;
  const offload::Plan& plan_;
  Backend& backend_;
  std::vector<Memory> memory_;
  std::vector<models::Ref> in_, out_;
  std::span<std::byte> workspace_;
};

// Decoders whose steps have the kernels that are measured, of small to middling sizes, and on GPUs
// of large ones too: GPUs reach their rates only with much work.
std::vector<models::DecoderConfig> decoders(Dtype dtype, models::Target target) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes{
      // width, length, batch
      {128, 128, 1},  {256, 256, 2},   {512, 512, 2},  {512, 1024, 4},
      {1024, 512, 4}, {1024, 2048, 1}, {2048, 1024, 1}};
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

struct Sample {
  models::OpClass op_class;
  double flops, bytes, seconds;
};
// By the work that a profile names, such as "linear.bf16", and within it by op and operand types.
using Samples = std::map<std::string, std::map<std::string, Sample>>;

// Adds the kernels of a step that run on the host, where `update_lane` is there, or those that do
// not. A kernel that was measured before keeps the lesser time: what else runs on a machine only
// adds to it.
void measure_step(const models::DecoderConfig& config, Lane update_lane, Backend& backend,
                  Samples& samples) {
  models::Model model = models::decoder(config);
  MemoryKind home =
      update_lane == Lane::host_compute ? MemoryKind::pinned_host : MemoryKind::device;
  offload::ParameterLayout layout = offload::lay_out(model, {.homes = {.optimizer = home}});
  StepPlans plans = plan_step(
      model, layout,
      {.policy = offload::make_policy("full", {}, scan_stage(model).programs[0]),
       .optimizer = OptimizerOptions{.adamw = {0.9, 0.95, 1e-8, 0.1}, .lane = update_lane}},
      backend.target());
  const offload::Plan& plan = plans.plans[0];
  std::set<std::string> seen;
  for (const Instruction& instruction : plan.instructions) {
    if (!instruction.op) continue;
    bool on_host = instruction.lane == Lane::host_compute;
    if (on_host != (update_lane == Lane::host_compute)) continue;
    std::vector<models::Type> in, out;
    std::string key = instruction.op->name;
    for (auto [operands, types] :
         {std::pair{&instruction.in, &in}, std::pair{&instruction.out, &out}})
      for (const offload::Operand& operand : *operands) {
        types->push_back(operand.type);
        key += " " + models::text(operand.type);
      }
    models::Cost cost = instruction.op->cost(instruction.attrs, in, out);
    std::string work = std::string(on_host ? "host." : "") + instruction.op->name + "." +
                       name(in.empty() ? out[0].dtype : in[0].dtype);
    if (!seen.insert(work + key).second) continue;
    Sample sample{instruction.op->op_class, cost.flops, cost.bytes,
                  Kernel(instruction, plan, backend).seconds()};
    auto [known, is_new] = samples[work].emplace(key, sample);
    if (!is_new) known->second.seconds = std::min(known->second.seconds, sample.seconds);
  }
}

// Sizes and rates, each the median of the points of one octave of sizes.
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

void set_rates(const Samples& samples, Hardware& hardware) {
  for (const auto& [work, kernels] : samples) {
    bool is_memory = kernels.begin()->second.op_class == models::OpClass::memory;  // all alike
    std::vector<RateCurve::Point> points;
    for (const auto& [kernel, sample] : kernels) {
      double seconds = std::max(sample.seconds - hardware.launch_seconds, 1e-8);
      double size = is_memory ? sample.bytes : sample.flops;
      if (size > 0) points.push_back({size, size / seconds});
    }
    if (points.empty()) continue;
    std::string known = work;
    // Profiles name float32 and bfloat16; other dtypes are of ops that have one.
    if (!known.ends_with(".f32") && !known.ends_with(".bf16"))
      known = known.substr(0, known.rfind('.'));
    (is_memory ? hardware.bytes_per_second : hardware.flops_per_second)[known] = curve_of(points);
  }
}

// --- copies

class Copies {
 public:
  Copies(Backend& backend, int64_t bytes)
      : backend_(backend),
        type_{{bytes}, Dtype::uint8},
        device_(backend, MemoryKind::device, type_, 2 * bytes, Contents::small),
        host_(backend, MemoryKind::pinned_host, type_, 2 * bytes, Contents::small) {}

  void enqueue(Lane lane, int times) const {
    int64_t half = lane == Lane::host_to_device ? 0 : type_.bytes();
    models::Ref device{device_.get() + half, type_}, host{host_.get() + half, type_};
    for (int i = 0; i < times; ++i)
      lane == Lane::host_to_device ? backend_.copy(lane, host, device)
                                   : backend_.copy(lane, device, host);
  }

  double seconds(std::initializer_list<Lane> lanes, int times) const {
    constexpr int kTimings = 6;
    return quickest_seconds(kTimings,
                            [&] {
                              for (Lane lane : lanes) enqueue(lane, times);
                              backend_.synchronize();
                            }) /
           times;
  }

 private:
  Backend& backend_;
  models::Type type_;
  Memory device_, host_;
};

void measure_links(Backend& backend, Hardware& hardware) {
  std::vector<RateCurve::Point> to_device, to_host;
  for (int64_t bytes : {int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 23, int64_t{1} << 26}) {
    Copies copies(backend, bytes);
    int times = static_cast<int>(std::max<int64_t>(2, (int64_t{1} << 27) / bytes));
    auto rate = [&](Lane lane) {
      return static_cast<double>(bytes) / copies.seconds({lane}, std::min(times, 200));
    };
    to_device.push_back({static_cast<double>(bytes), rate(Lane::host_to_device)});
    to_host.push_back({static_cast<double>(bytes), rate(Lane::device_to_host)});
  }
  hardware.link_to_device = RateCurve(to_device);
  hardware.link_to_host = RateCurve(to_host);
  if (hardware.takes_turns()) return;  // so copies of the two directions never run at once
  Copies copies(backend, int64_t{1} << 26);
  double alone = std::max(copies.seconds({Lane::host_to_device}, 4),
                          copies.seconds({Lane::device_to_host}, 4));
  double together = copies.seconds({Lane::host_to_device, Lane::device_to_host}, 4);
  hardware.link_both_ways = std::min(1.0, alone / together);
}

// What the caches hold, and how fast what they do not hold is fetched: by one kernel's time beside
// that of many kernels in turn, whose operands were not used for a while.
void measure_cache(Backend& backend, Dtype dtype, Hardware& hardware) {
  constexpr int64_t kMost = int64_t{1} << 28;  // beyond any cache
  models::Model model = models::decoder(decoders(dtype, backend.target())[1]);
  const offload::Plan plan =
      plan_forward(model, offload::lay_out(model), "forward", {}, backend.target());
  const Instruction& add = *std::ranges::find_if(
      plan.instructions, [](const Instruction& i) { return i.op == &models::add_op; });
  int64_t bytes = 0;
  for (const auto* operands : {&add.in, &add.out})
    for (const offload::Operand& operand : *operands) bytes += operand.type.bytes();
  std::vector<Kernel> kernels;
  while (std::ssize(kernels) * bytes < kMost) kernels.emplace_back(add, plan, backend);
  auto seconds = [&](size_t count) {
    constexpr int kTimings = 8;
    return quickest_seconds(kTimings,
                            [&] {
                              for (size_t i = 0; i < kernels.size(); ++i)
                                kernels[i % count].enqueue(1);
                              backend.synchronize();
                            }) /
           static_cast<double>(kernels.size());
  };
  const double near = seconds(1), far = seconds(kernels.size());
  if (far < 1.1 * near) return;
  size_t count = 1;  // the most kernels in turn whose time is nearer to `near` than to `far`
  for (size_t more = 2; more < kernels.size(); more += more / 2)
    if (2 * seconds(more) < near + far) count = more;
  hardware.cache_bytes = static_cast<int64_t>(count) * bytes;
  hardware.fetch_bytes_per_second = static_cast<double>(bytes) / (far - near);
}

// To be called when libraries have loaded their kernels and nothing of ours is allocated: what is
// in use then will be in use beside every plan.
void measure_memory(Backend& backend, Hardware& hardware) {
  hardware.device_reserved_bytes = backend.used_bytes(MemoryKind::device);
  hardware.device_bytes =
      hardware.device_reserved_bytes + backend.available_bytes(MemoryKind::device);
  hardware.host_bytes = backend.available_bytes(MemoryKind::pinned_host);
  if (hardware.target == models::Target::cpu)  // the same memory
    hardware.host_bytes = hardware.device_bytes;
}

}  // namespace

Hardware measure_hardware(Backend& backend, const std::string& name,
                          const std::function<void(const std::string&)>& say) {
  Hardware hardware{.name = name, .target = backend.target()};
  std::vector<Dtype> dtypes{Dtype::float32};
  if (compute_dtype(Config(), backend.target()) == Dtype::bfloat16)
    dtypes.push_back(Dtype::bfloat16);
  // On a processor several times, for somebody else's work lasts longer than a timing.
  const int rounds = models::is_cuda(backend.target()) ? 1 : 4;
  Samples samples;
  for (int round = 0; round < rounds; ++round)
    for (Dtype dtype : dtypes) {
      say(fmt::format("kernels in {}, round {} of {}", models::name(dtype), round + 1, rounds));
      for (const models::DecoderConfig& config : decoders(dtype, backend.target())) {
        measure_step(config, Lane::compute, backend, samples);
        measure_step(config, Lane::host_compute, backend, samples);
      }
    }
  // The least that any kernel takes is its launch.
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
  if (hardware.target == models::Target::cpu) {
    say("memory that is not in the caches");
    measure_cache(backend, dtypes.back(), hardware);
  }
  say("copies");
  measure_links(backend, hardware);
  measure_memory(backend, hardware);
  return hardware;
}

}  // namespace longshore::trainer
