// What devices have of parameters that are split among them is saved, loaded and drawn as whole
// tensors: files do not say how many devices there were.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/data/files/small_file.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/models/ir/trace.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/checkpoint/optimizer_state.h"
#include "longshore/trainer/checkpoint/shared_state.h"
#include "longshore/trainer/distributed/connect.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/saved_state.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/offload/adamw_states.h"
#include "tests/trainer/distributed/store_worlds.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::Bucket;
using offload::Copy;
using offload::DeviceMesh;
using offload::ParameterLayout;

constexpr uint64_t kSeed = 3;

// Weights alone, in two layers. Over data some are split, by rows or by columns. What trains has an
// adapter's names, or none has.
models::Model model_of(int64_t parts, bool adapters) {
  using enum models::Trainable;
  models::Trace t("layer");
  t.output(t.input("x", {{2, 2}}));
  auto add = [&](const std::string& name, models::Shape shape, models::Trainable trainable,
                 std::optional<int> dimension = {}) {
    models::Weight weight{.trainable = trainable, .init = {models::Init::Kind::normal, 1}};
    weight.of_adapter = trainable == yes && adapters;
    if (dimension) {
      weight.split = {{.dimension = *dimension, .parts = parts}};
      shape = shape.with(*dimension, shape[*dimension] / parts);
    }
    t.weight(weight.of_adapter ? models::lora_a_name(name) : name, {shape}, weight);
  };
  add("rows", {6, 257}, yes, 0);
  add("columns", {7, 1024}, yes, 1);
  add("whole", {5, 33}, yes);
  add("frozen_rows", {6, 9}, no, 0);
  add("frozen_columns", {7, 10}, no, 1);
  add("frozen", {5, 3}, no);
  return {.name = "split",
          .stages = {{.name = "layers",
                      .weight_prefix = "layers.{}.",
                      .programs = {t.finish()},
                      .layers = {0, 0},
                      .inputs = {}}}};
}

struct Choice {
  models::Dtype states;
  bool adapters;
};

ParameterLayout layout_of(const DeviceMesh& mesh, const Choice& choice, bool shard_optimizer) {
  return offload::lay_out(model_of(mesh.data.size, choice.adapters),
                          {.homes = {},
                           .mesh = mesh,
                           .shard_optimizer_over_data = shard_optimizer,
                           .optimizers = offload::adamw_states(choice.states)});
}

// What is saved, and a hash of what is frozen.
struct Saved {
  std::map<std::string, std::vector<float>> weights;  // by the tensors' names
  std::string states;                                 // the file
  std::string frozen;

  bool operator==(const Saved&) const = default;
};

Saved save(const ParameterLayout& layout, const offload::ArgumentReader& arguments,
           const fs::path& file) {
  Saved saved;
  for (const Bucket& bucket : layout.buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (!saved_copies(layout, bucket).empty()) {
        std::vector<float>& values = saved.weights[parameter.name];
        constexpr int64_t kWithinRows = 100;
        for_each_piece(parameter.tensor_shape().count(), kWithinRows,
                       [&](int64_t first, int64_t count) {
                         const std::vector<float> piece =
                             read_weights(layout, parameter, arguments, {first, count});
                         values.insert(values.end(), piece.begin(), piece.end());
                       });
      }
  write_optimizer_state(file, layout, arguments);
  saved.states = data::read_small_file(file, 1);
  return saved;
}

// With numbers that are finite, whatever their dtype is.
void fill_states(const ParameterLayout& layout, offload::Arguments& arguments) {
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : bucket.copies()) {
      if (!offload::is_state(copy)) continue;
      const std::string name = argument_name(bucket, copy);
      std::vector<uint8_t> numbers(static_cast<size_t>(bytes(bucket, copy)));
      for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<uint8_t>((i * 7 + i / 251 + name.size()) % 61);
      arguments.write(name, numbers.data(), std::ssize(numbers));
    }
}

class SplitState : public testing::TestWithParam<Choice> {};

// One device draws, fills in and saves; devices that share the parameters load that, and save.
TEST_P(SplitState, IsSavedAsOneDeviceSavesIt) {
  const Choice choice = GetParam();
  const data::TemporaryFolder folder;
  const auto backend = offload::make_cpu_backend();
  offload::Ledger ledger;
  offload::Arguments alone(*backend, ledger);
  const ParameterLayout layout = layout_of({}, choice, false);
  initialize(layout, kSeed, alone);
  fill_states(layout, alone);
  const fs::path file = folder / "alone.safetensors";
  Saved expected = save(layout, alone, file);
  expected.frozen = frozen_weights_hash(layout, alone, *connect({}, models::Target::cpu));
  EXPECT_EQ(expected.frozen.empty(), !choice.adapters);

  for (const auto& [data, fsdp, shard_optimizer] :
       {std::tuple{2, 1, false}, {1, 2, false}, {2, 2, false}, {2, 2, true}})
    on_ranks(data * fsdp, [&](World& world) {
      const ParameterLayout held = layout_of({.data = {.size = data, .rank = world.rank() / fsdp},
                                              .fsdp = {.size = fsdp, .rank = world.rank() % fsdp}},
                                             choice, shard_optimizer);
      const auto own = offload::make_cpu_backend();
      offload::Ledger of_own;
      offload::Arguments arguments(*own, of_own);
      initialize(held, kSeed, arguments);
      read_optimizer_state(file, held, arguments);
      const std::string frozen = frozen_weights_hash(held, arguments, world);
      if (!world.is_first()) return give_state(held, arguments, world);
      Saved found =
          save(whole(held), SharedState(held, arguments, world), folder / "shared.safetensors");
      found.frozen = frozen;
      EXPECT_EQ(found.weights, expected.weights);
      EXPECT_TRUE(found == expected) << data << " " << fsdp << " " << shard_optimizer;
    });
}

INSTANTIATE_TEST_SUITE_P(Of, SplitState,
                         testing::Values(Choice{models::Dtype::float32, false},
                                         Choice{models::Dtype::bfloat16, true}));

TEST(SplitLayout, LetsNoPartsShareTheScaleOf8Bits) {
  EXPECT_EQ(message_of<ConfigError>([] {
              layout_of({.data = {.size = 2}}, {models::Dtype::uint8, false}, false);
            }),
            "optimizer states of 8 bits: layers.0.rows is split over data: dimension 0 in 2 parts, "
            "of rows of 771 elements; expected a multiple of 256");
}

}  // namespace
}  // namespace longshore::trainer
