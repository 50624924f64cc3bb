// Several devices, as threads, on the same global batch: what is sharded, replicated, kept, moved
// or computed again changes nothing of what is learned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "longshore/base/error.h"
#include "longshore/models/families/toys.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/trainer/step/memory_report.h"
#include "tests/message_of.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

constexpr MemoryKind kHost = MemoryKind::pinned_host;
const Homes kAllOnHost{.parameters = kHost, .gradients = kHost, .optimizer = kHost};

DeviceMesh mesh_of(int64_t data, int64_t fsdp) {
  return {.data = {.size = data}, .fsdp = {.size = fsdp}};
}

// Where states are divided over replicas as well, each shard's parts are at these one after the
// other.
int64_t parts_of_shard(const LayoutOptions& options, const DeviceMesh& mesh) {
  return options.shard_optimizer_over_data ? mesh.data.size : 1;
}

// A float32 copy of a bucket, from the parts of the devices that hold it.
std::vector<float> whole(const std::vector<Training>& ranks, const DeviceMesh& mesh,
                         const std::string& name, int64_t parts_of_shard = 1) {
  std::vector<float> values;
  for (int64_t shard = 0; shard < mesh.fsdp.size; ++shard)
    for (int64_t part = 0; part < parts_of_shard; ++part) {
      const std::vector<std::byte>& bytes = ranks[part * mesh.fsdp.size + shard].state.at(name);
      size_t before = values.size();
      values.resize(before + bytes.size() / sizeof(float));
      std::memcpy(values.data() + before, bytes.data(), bytes.size());
    }
  return values;
}

double relative_distance(std::span<const float> a, std::span<const float> b) {
  double distance = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return size == 0 ? distance : std::sqrt(distance / size);
}

struct Case {
  const char* name;
  int64_t data, fsdp, micro_batches;
  double threshold;
  LayoutOptions layout{.optimizers = adamw_states()};
  trainer::ClippingNorm norm = trainer::ClippingNorm::global_norm;
};

const auto kZero1 = [] {
  return LayoutOptions{.shard_optimizer_over_data = true, .optimizers = adamw_states()};
};

// Without the gradients that live from one micro-batch to the next: their gaps hold anything.
std::vector<Training> without_gradients(std::vector<Training> ranks) {
  for (Training& rank : ranks)
    std::erase_if(rank.state, [](const auto& entry) { return entry.first.ends_with(".gradient"); });
  return ranks;
}

// What a device sends, in order. Devices wait for each other, so this must be the same on all.
std::vector<std::string> collectives(const trainer::StepPlans& plans) {
  std::vector<std::string> list;
  for (const Plan* plan : plans.all())
    for (const Instruction& instruction : plan->instructions)
      if (instruction.lane == Lane::network)
        list.push_back(instruction.name.substr(0, instruction.name.find('[')) + " = " +
                       instruction.op->name + " of " + text(instruction.in[0].type));
  return list;
}

class Devices : public testing::TestWithParam<Case> {};

// After one step the first moment is the clipped gradient times 0.1.
TEST_P(Devices, GivesTheGradientsOfOneDevice) {
  const Case& c = GetParam();
  DeviceMesh mesh = mesh_of(c.data, c.fsdp);
  for (bool tied : {false, true}) {
    models::DecoderConfig config = tiny_llama();
    config.tied_embeddings = tied;
    TrainingOptions options{.model = models::decoder(config),
                            .policy = "full",
                            .micro_batches = c.micro_batches * mesh.devices(),
                            .steps = 1,
                            .clipping_threshold = c.threshold};
    Training alone = train(options);
    options.micro_batches = c.micro_batches;
    options.layout = c.layout;
    std::vector<Training> ranks = train_on(mesh, options);
    const trainer::StepResult &found = ranks[0].results[0], &expected = alone.results[0];
    EXPECT_NEAR(found.loss, expected.loss, 1e-6 * expected.loss);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-6 * expected.gradient_norm);
    ParameterLayout layout = lay_out(options.model, {.optimizers = adamw_states()});
    for (const Bucket& bucket : layout.buckets) {
      std::string name = argument_name(bucket, kFirstMoment);
      std::vector<float> shards = whole(ranks, mesh, name, parts_of_shard(c.layout, mesh));
      std::vector<float> gradient(bucket.count);
      std::memcpy(gradient.data(), alone.state.at(name).data(), alone.state.at(name).size());
      for (const Parameter& p : bucket.parameters) {
        auto part = [&](const std::vector<float>& values) {
          return std::span(values).subspan(p.offset, p.type.shape.count());
        };
        EXPECT_LT(relative_distance(part(shards), part(gradient)), 1e-6) << p.name;
      }
    }
  }
}

// Replicas and shards hold the same; every rank reports the same losses.
TEST_P(Devices, KeepsDevicesTogether) {
  const Case& c = GetParam();
  DeviceMesh mesh = mesh_of(c.data, c.fsdp);
  std::vector<Training> ranks = without_gradients(train_on(mesh, {.micro_batches = c.micro_batches,
                                                                  .clipping_threshold = c.threshold,
                                                                  .clipping_norm = c.norm,
                                                                  .layout = c.layout}));
  if (parts_of_shard(c.layout, mesh) > 1)
    for (Training& rank : ranks)
      std::erase_if(rank.state,
                    [](const auto& entry) { return !entry.first.ends_with(".compute"); });
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
    EXPECT_EQ(differences(ranks[rank % mesh.fsdp.size], ranks[rank]), "") << rank;
    for (size_t i = 0; i < ranks[0].results.size(); ++i) {
      EXPECT_EQ(ranks[rank].results[i].loss, ranks[0].results[i].loss);
      EXPECT_EQ(ranks[rank].results[i].gradient_norm, ranks[0].results[i].gradient_norm);
    }
  }
  EXPECT_NE(ranks[0].results.front().loss, ranks[0].results.back().loss);
}

TEST_P(Devices, EveryPolicyWithEverythingOffloadedGivesTheBitsOfNone) {
  const Case& c = GetParam();
  DeviceMesh mesh = mesh_of(c.data, c.fsdp);
  TrainingOptions options{.micro_batches = c.micro_batches,
                          .clipping_threshold = c.threshold,
                          .clipping_norm = c.norm,
                          .layout = c.layout};
  std::vector<Training> none = without_gradients(train_on(mesh, options));
  struct Choice {
    const char* policy;
    Homes homes;
    Lane update = Lane::compute;
    double ahead = 1;
  };
  for (const Choice& choice : {Choice{"full", {}},
                               {"minimal_offloaded", {}, Lane::compute, 0},
                               {"full", {.parameters = kHost}},
                               {"save_out_proj", {.gradients = kHost}, Lane::compute, 3},
                               {"none", {.optimizer = kHost}},
                               {"qkv_proj_offloaded", kAllOnHost},
                               {"full", kAllOnHost, Lane::compute, 0},
                               {"full", kAllOnHost, Lane::compute, 3},
                               {"qkv_proj_offloaded", {.optimizer = kHost}, Lane::host_compute},
                               {"full", kAllOnHost, Lane::host_compute}}) {
    options.policy = choice.policy;
    options.layout.homes = choice.homes;
    options.update_lane = choice.update;
    options.transfers.prefetch_layers = choice.ahead;
    std::vector<Training> other = without_gradients(train_on(mesh, options));
    for (size_t rank = 0; rank < other.size(); ++rank) {
      SCOPED_TRACE(std::string(choice.policy) + ", rank " + std::to_string(rank) + ", ahead " +
                   std::to_string(choice.ahead));
      EXPECT_EQ(differences(none[rank], other[rank]), "");
      EXPECT_EQ(first_fault(other[rank].plans), "");
      const trainer::MemoryByKind planned = trainer::analyze(other[rank].plans.all());
      for (MemoryKind kind : {MemoryKind::device, kHost})
        EXPECT_EQ(other[rank].allocated_bytes[kind], planned[kind].peak_bytes) << name(kind);
      EXPECT_EQ(collectives(other[rank].plans), collectives(other[0].plans));
    }
  }
}

// Whoever updates a weight, it becomes the same.
TEST(Sharding, OverDataOfTheOptimizerChangesNoBit) {
  for (const DeviceMesh& mesh : {mesh_of(2, 1), mesh_of(2, 2), mesh_of(3, 1)})
    for (int64_t micro_batches : {1, 3})
      for (models::Dtype dtype : {models::Dtype::float32, models::Dtype::bfloat16}) {
        SCOPED_TRACE(std::to_string(mesh.data.size) + " x " + std::to_string(mesh.fsdp.size) +
                     ", " + std::to_string(micro_batches) + ", " + models::name(dtype));
        TrainingOptions options{.micro_batches = micro_batches};
        options.layout.optimizers = adamw_states(dtype);
        const std::vector<Training> replicated = train_on(mesh, options);
        options.layout.shard_optimizer_over_data = true;
        const std::vector<Training> divided = train_on(mesh, options);
        for (size_t rank = 0; rank < divided.size(); ++rank) {
          for (size_t i = 0; i < divided[rank].results.size(); ++i) {
            EXPECT_EQ(divided[rank].results[i].loss, replicated[rank].results[i].loss);
            EXPECT_EQ(divided[rank].results[i].gradient_norm,
                      replicated[rank].results[i].gradient_norm);
          }
        }
        for (const auto& [name, state] : divided[0].state) {
          if (!name.ends_with(".compute")) continue;
          std::vector<float> found = whole(divided, mesh, name),
                             expected = whole(replicated, mesh, name);
          found.resize(expected.size());  // buckets are filled up to a multiple of the parts
          EXPECT_EQ(found, expected) << name;
        }
      }
}

// Each replica's share of the states; weights, and gradients that several micro-batches add up, are
// whole.
TEST(Sharding, OverDataDividesTheOptimizersStates) {
  TrainingOptions options{.micro_batches = 2, .steps = 1};
  options.layout.weight_dtype = models::Dtype::float32;
  auto states = [&](bool divides) {
    options.layout.shard_optimizer_over_data = divides;
    const Training rank = train_on(mesh_of(4, 1), options)[3];
    std::map<std::string, int64_t> bytes;
    for (const auto& [name, state] : rank.state)
      bytes[name.substr(name.rfind('.'))] += std::ssize(state);
    return bytes;
  };
  const std::map<std::string, int64_t> whole = states(false), divided = states(true);
  const int64_t kFill = 5 * 4 * 256 * 4;  // five buckets, filled up to 256 each
  for (const char* copy : {".first_moment", ".second_moment"}) {
    EXPECT_GE(divided.at(copy) * 4, whole.at(copy));
    EXPECT_LE(divided.at(copy) * 4, whole.at(copy) + kFill);
  }
  EXPECT_GE(divided.at(".compute"), whole.at(".compute"));
}

// A table, and a bias behind it that is split over data, if it has parts.
models::Model biased_model(int64_t parts, int64_t vocabulary = 29) {
  constexpr int64_t kRows = 2, kLength = 6, kWidth = 16;
  using enum models::Init::Kind;
  models::Trace embed("embed");
  const models::Type ids{{kRows, kLength}, models::Dtype::int32};
  models::Var table = embed.weight("table", {{vocabulary, kWidth}}, {.init = {normal, 0.5}});
  embed.output(models::embedding(embed.batch("tokens", ids), table));
  models::Trace head("head");
  models::Weight bias{.init = {normal, 0.5}};
  if (parts > 1) bias.split = {{.dimension = 0, .parts = parts}};
  models::Var part = head.weight("bias", {{kWidth / parts}}, bias);
  const models::Collective replicas{models::Axis::data, parts};
  models::Var x = models::add_bias(head.input("x", {{kRows, kLength, kWidth}}),
                                   parts > 1 ? all_gather(part, replicas) : part);
  models::Var w = head.weight("w", {{vocabulary, kWidth}}, {.init = {normal, 0.5}});
  head.output(models::linear_cross_entropy(x, w, head.batch("targets", ids, {.value = -1})),
              models::OutputRole::loss);
  models::Model model{.name = "biased",
                      .stages = {{.name = "embed",
                                  .weight_prefix = "",
                                  .programs = {embed.finish()},
                                  .layers = {0},
                                  .inputs = {}},
                                 {.name = "head",
                                  .weight_prefix = "",
                                  .programs = {head.finish()},
                                  .layers = {0},
                                  .inputs = {{0, 0}}}}};
  connect(model);
  return model;
}

// The table is filled up to two parts of which the first device has just it, and updates what it
// then reads.
TEST(Sharding, OverDataUpdatesAllThatALayerReads) {
  TrainingOptions options{
      .model = biased_model(1, 16), .unnamed_policy = keep_all(), .micro_batches = 2};
  options.layout.homes.parameters = kHost;
  const std::vector<Training> replicated = train_on(mesh_of(2, 1), options);
  options.layout.shard_optimizer_over_data = true;
  const std::vector<Training> divided = train_on(mesh_of(2, 1), options);
  for (size_t rank = 0; rank < divided.size(); ++rank) {
    EXPECT_EQ(first_fault(divided[rank].plans), "");
    for (size_t i = 0; i < divided[rank].results.size(); ++i) {
      EXPECT_EQ(divided[rank].results[i].loss, replicated[rank].results[i].loss);
      EXPECT_EQ(divided[rank].results[i].gradient_norm, replicated[rank].results[i].gradient_norm);
    }
  }
}

// Its bucket is too small for two shards, so one device has no part of what is split.
TEST(Sharding, CountsWhatIsSplitOnce) {
  TrainingOptions options{.model = biased_model(1), .unnamed_policy = keep_all()};
  const std::vector<Training> replicated = train_on(mesh_of(2, 2), options);
  options.model = biased_model(2);
  const std::vector<Training> split = train_on(mesh_of(2, 2), options);
  for (size_t rank = 0; rank < split.size(); ++rank)
    for (size_t step = 0; step < split[rank].results.size(); ++step) {
      const trainer::StepResult &found = split[rank].results[step],
                                &expected = replicated[rank].results[step];
      EXPECT_NEAR(found.loss, expected.loss, 1e-6 * expected.loss);
      EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-6 * expected.gradient_norm);
    }
}

// The norm behind the layers is a bucket of its own where embeddings are tied, too small for all.
TEST(Sharding, LeavesDevicesWithoutPartOfABucket) {
  models::DecoderConfig config = tiny_llama();
  config.tied_embeddings = true;
  TrainingOptions options{
      .model = models::decoder(config), .policy = "full", .clipping_threshold = 0.1};
  const DeviceMesh mesh = mesh_of(1, 3);
  const std::vector<Training> on_device = without_gradients(train_on(mesh, options));
  for (Homes homes : {Homes{.optimizer = kHost}, {.parameters = kHost}, {.gradients = kHost}}) {
    options.layout.homes = homes;
    const std::vector<Training> offloaded = without_gradients(train_on(mesh, options));
    for (size_t rank = 0; rank < offloaded.size(); ++rank) {
      EXPECT_EQ(differences(on_device[rank], offloaded[rank]), "") << rank;
      EXPECT_EQ(first_fault(offloaded[rank].plans), "");
    }
  }
  options.layout.mesh = mesh;
  options.layout.mesh.fsdp.rank = 2;
  EXPECT_TRUE(
      std::ranges::any_of(lay_out(options.model, options.layout).buckets,
                          [](const Bucket& bucket) { return bucket.decay_ranges().empty(); }));
}

// Ring collectives over n devices send (n - 1) / n of what is gathered or scattered, and twice that
// of what is reduced for all. Each bucket is gathered for the forward and for the backward pass,
// and its gradient scattered once.
TEST(Wire, BytesAreThoseOfRingCollectives) {
  constexpr double kDevices = 4;
  TrainingOptions options{.policy = "full", .steps = 1};
  options.layout.mesh = mesh_of(1, 4);
  ParameterLayout layout = lay_out(options.model, options.layout);
  trainer::StepPlans plans = train_on(options.layout.mesh, options)[0].plans;
  std::map<std::string, double> found, expected;
  for (const Instruction& instruction : plans.plans[0].instructions)
    if (instruction.lane == Lane::network) {
      EXPECT_EQ(std::any_cast<const Collective&>(instruction.attrs).ranks, kDevices);
      found[instruction.op->name] +=
          models::wire_bytes(*instruction.op, instruction.attrs, instruction.in[0].type);
    }
  for (const Bucket& bucket : layout.buckets) {
    double part = bucket.count * (kDevices - 1) / kDevices;
    // The embedding's backward pass reads no weights, and the head runs forward and back at once.
    int gathers = bucket.name.starts_with("decoder") ? 2 : 1;
    expected["all_gather"] += gathers * part * models::size_bytes(bucket.dtype);
    expected["reduce_scatter"] += part * sizeof(float);
  }
  // The loss and the sum of squares.
  expected["all_reduce"] = 2 * (kDevices - 1) / kDevices * (sizeof(float) + sizeof(double));
  EXPECT_EQ(found, expected);
}

// What reduces a layer's gradients runs beside the next layer's kernels: none waits for it before.
TEST(Sharding, NoKernelWaitsForACollectiveThatWasJustBegun) {
  for (const DeviceMesh& mesh : {mesh_of(1, 2), mesh_of(2, 1), mesh_of(2, 2)}) {
    const trainer::StepPlans plans =
        train_on(mesh, {.policy = "full", .micro_batches = 2, .steps = 1})[0].plans;
    int reductions = 0;
    for (const Plan* plan : plans.all())
      for (auto begun = plan->instructions.begin(); begun != plan->instructions.end(); ++begun) {
        // After the embedding's there is no kernel to wait for.
        const bool reduces =
            begun->op == &models::reduce_scatter_op || begun->op == &models::all_reduce_op;
        if (!reduces || begun->scope.phase != Phase::backward || begun->scope.stage == "embed")
          continue;
        ++reductions;
        bool is_beside_another_layer = false;
        for (auto later = begun + 1; later != plan->instructions.end(); ++later) {
          if (later->lane != Lane::compute) continue;
          const bool reads = std::ranges::find(later->in, begun->out[0].buffer, &Operand::buffer) !=
                             later->in.end();
          if (reads) break;
          is_beside_another_layer |=
              later->scope.phase == Phase::backward && later->scope != begun->scope;
        }
        EXPECT_TRUE(is_beside_another_layer) << plan->name << ": " << begun->name << " of "
                                             << begun->scope.stage << "." << begun->scope.layer;
      }
    EXPECT_GE(reductions, 3);
  }
}

// A device's states are its share of them.
TEST(Sharding, DividesStates) {
  TrainingOptions options;
  auto states = [&](int64_t fsdp) {
    options.layout.mesh = mesh_of(1, fsdp);
    int64_t sum = 0;
    for (const Bucket& bucket : lay_out(options.model, options.layout).buckets)
      for (Copy copy : bucket.copies()) sum += bytes(bucket, copy);
    return sum;
  };
  EXPECT_EQ(states(1) % 4, 0);
  EXPECT_LT(states(4), states(1) / 4 + 5 * 4 * 256 * 4);  // five buckets, filled up to 256 each
  EXPECT_GE(states(4), states(1) / 4);
}

INSTANTIATE_TEST_SUITE_P(Cases, Devices,
                         testing::Values(Case{"fsdp_2", 1, 2, 1, 0.5},
                                         Case{"fsdp_2_unclipped", 1, 2, 1, 0},
                                         Case{"fsdp_2_twice", 1, 2, 2, 0.5},
                                         Case{"fsdp_4", 1, 4, 1, 0.5}, Case{"data_2", 2, 1, 1, 0.5},
                                         Case{"data_2_thrice", 2, 1, 3, 0},
                                         Case{"data_2_fsdp_2", 2, 2, 2, 0.5},
                                         Case{"data_2_fsdp_2_previous_norm",
                                              2,
                                              2,
                                              2,
                                              0.5,
                                              {.optimizers = adamw_states()},
                                              trainer::ClippingNorm::previous_global_norm},
                                         Case{"zero1_2", 2, 1, 1, 0.5, kZero1()},
                                         Case{"zero1_2_unclipped", 2, 1, 1, 0, kZero1()},
                                         Case{"zero1_2_thrice", 2, 1, 3, 0.5, kZero1()},
                                         Case{"zero1_3_twice", 3, 1, 2, 0, kZero1()},
                                         Case{"zero1_2_fsdp_2", 2, 2, 2, 0.5, kZero1()}),
                         [](const auto& info) { return info.param.name; });

// Each of two weights has 4 elements, padded to 256; so only two of four devices hold one.
TEST(Sharding, RefusesADeviceThatWouldTrainNothing) {
  const models::Model model = models::toy_a({.rows = 2, .width = 2, .inner = 2, .layers = 1});
  const trainer::StepOptions options{
      .policy = keep_all(),
      .optimizer = trainer::OptimizerOptions{.optimizers = {models::adamw({0.9, 0.95, 1e-8, 0.1})},
                                             .clipping_threshold = 1}};
  auto plan = [&](int64_t rank) {
    const ParameterLayout layout =
        lay_out(model, {.mesh = {.fsdp = {.size = 4, .rank = rank}}, .optimizers = adamw_states()});
    (void)trainer::plan_step(model, layout, options, models::Target::cpu);
  };
  plan(1);
  EXPECT_EQ(
      message_of<ConfigError>([&] { plan(2); }),
      "this device would hold no parameter that is trained; expected fewer devices along fsdp, "
      "or more that is trained");
}

}  // namespace
}  // namespace longshore::offload
