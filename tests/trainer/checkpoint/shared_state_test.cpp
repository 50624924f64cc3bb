#include "longshore/trainer/checkpoint/shared_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/weights/saved_state.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/toy_models.h"
#include "tests/trainer/distributed/store_worlds.h"

namespace longshore::trainer {
namespace {

using offload::Bucket;
using offload::Copy;
using offload::ParameterLayout;

// Byte number i of an argument.
std::byte value(const std::string& name, int64_t i) {
  return static_cast<std::byte>(std::hash<std::string>()(name) + i * 7 + i / 251);
}

ParameterLayout layout_of(const offload::DeviceMesh& mesh, bool shard_optimizer_over_data) {
  return offload::lay_out(models::decoder(offload::tiny_llama()),
                          {.homes = {},
                           .mesh = mesh,
                           .shard_optimizer_over_data = shard_optimizer_over_data,
                           .optimizers = offload::adamw_states(models::Dtype::uint8)});
}

void fill(offload::Arguments& arguments, const ParameterLayout& layout) {
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : saved_copies(layout, bucket)) {
      const std::string name = argument_name(bucket, copy);
      const int64_t held = bytes(bucket, copy);
      const int64_t before = offload::elements(bucket, copy, bucket.part(copy).first) *
                             models::size_bytes(dtype(bucket, copy));
      std::byte* memory =
          arguments.at(name, held, offload::MemoryKind::device, offload::category(copy));
      for (int64_t i = 0; i < held; ++i) memory[i] = value(name, before + i);
    }
}

void expect_part(const SharedState& state, const std::string& name, int64_t first, int64_t bytes) {
  std::vector<std::byte> found(bytes), expected(bytes);
  for (int64_t i = 0; i < bytes; ++i) expected[i] = value(name, first + i);
  state.read_part(name, first, found.data(), bytes);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), bytes), 0) << name << " from " << first;
}

// Parts across the borders of shards, read by two threads; with replicas, and several times, as
// checkpoints follow each other.
class SharedStateOf : public testing::TestWithParam<bool> {};

TEST_P(SharedStateOf, IsWhatAllHoldTogether) {
  constexpr int kData = 2, kFsdp = 2;
  on_ranks(kData * kFsdp, [](World& world) {
    const ParameterLayout layout =
        layout_of({.data = {.size = kData, .rank = world.rank() / kFsdp},
                   .fsdp = {.size = kFsdp, .rank = world.rank() % kFsdp}},
                  GetParam());
    auto backend = offload::make_cpu_backend();
    offload::Ledger ledger;
    offload::Arguments arguments(*backend, ledger);
    fill(arguments, layout);
    for (int save = 0; save < 2; ++save) {
      if (!world.is_first()) {
        give_state(layout, arguments, world);
        continue;
      }
      const SharedState state(layout, arguments, world);
      const ParameterLayout all = whole(layout);
      auto read = [&](bool moments) {
        for (const Bucket& bucket : all.buckets)
          for (Copy copy : saved_copies(all, bucket)) {
            if ((copy != weights_copy(bucket)) != moments) continue;
            const std::string name = argument_name(bucket, copy);
            const int64_t total = bytes(bucket, copy);
            expect_part(state, name, 0, total);
            expect_part(state, name, total / 2 - 3, 7);
            expect_part(state, name, total - 5, 5);
          }
      };
      std::jthread other([&] { read(true); });
      read(false);
    }
    EXPECT_EQ(world.sum(1), kData * kFsdp);
  });
}

INSTANTIATE_TEST_SUITE_P(Optimizer, SharedStateOf, testing::Bool(), [](const auto& info) {
  return info.param ? "divided_over_data" : "replicated";
});

}  // namespace
}  // namespace longshore::trainer
