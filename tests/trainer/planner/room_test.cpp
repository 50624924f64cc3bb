#include "longshore/trainer/planner/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "longshore/offload/backends/virtual_backend.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/step/gradient_norm.h"
#include "longshore/trainer/step/training_plans.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;
using testing::HasSubstr;

TEST(Room, CountsWhatTheDriverTakes) {
  const std::vector<std::string> overrides{"remat_policy=minimal_offloaded"};
  const Config config = load_config("quickstart.yml", overrides, default_configs_directory());
  const MemoryByKind memory = analyze(plan_training({config, models::Target::cuda}).all());
  const int64_t device = memory[MemoryKind::device].peak_bytes, host = host_peak_bytes(memory);
  ASSERT_GT(host, 0);
  for (models::Target target : {models::Target::cuda, models::Target::cpu}) {
    const bool is_one_memory = target == models::Target::cpu;
    offload::Hardware hardware = offload::nominal_hardware(target);
    hardware.device_reserved_bytes = 700;
    const int64_t used = used_device_bytes(memory, hardware);
    EXPECT_EQ(used, 700 + device + (is_one_memory ? host : 0));
    hardware.device_bytes = used;
    hardware.host_bytes = is_one_memory ? used : host;
    EXPECT_TRUE(room(memory, hardware).fits());
    (is_one_memory ? hardware.host_bytes : hardware.device_bytes) -= 1;
    EXPECT_EQ(room(memory, hardware).device_spare_bytes, -1);
    EXPECT_EQ(room(memory, hardware).host_spare_bytes, is_one_memory ? -1 : 0);
  }
}

// Of every plan they are a part, and all of its arguments but gradients, batch and results.
TEST(Room, StatesAreTheLeastThatPlansTake) {
  using Settings = std::vector<std::string>;
  for (const std::string homes : {"000", "100", "010", "001", "111"})
    for (const Settings& more : std::initializer_list<Settings>{
             {"moment_dtype=8bit"},
             {"weight_dtype=bfloat16"},
             {"lora_rank=2"},
             {"lora_rank=2", "frozen_weight_dtype=nf4"},
             {"trainable_parameters_mask=self_attn"},
             {"ici_fsdp_parallelism=2"},
             {"ici_data_parallelism=2", "shard_optimizer_over_data=true"}})
      for (models::Target target : {models::Target::cuda, models::Target::cpu}) {
        SCOPED_TRACE(homes + " " + more[0]);
        Settings settings = more;
        for (const auto& [i, key] : {std::pair{0, "parameter"}, {1, "gradient"}, {2, "optimizer"}})
          settings.push_back(key + std::string("_memory_host_offload=") +
                             (homes[static_cast<size_t>(i)] == '1' ? "true" : "false"));
        const Config config = load_config("quickstart.yml", settings, default_configs_directory());
        const TrainingPlans plans = plan_training({config, target});
        const MemoryByKind states = memory_of_states({config, target});
        for (MemoryKind kind : offload::kMemoryKinds) {
          std::map<std::string, int64_t> held;
          for (const offload::Plan* plan : plans.all())
            for (const offload::Buffer& buffer : plan->buffers)
              if (buffer.owner == offload::Owner::caller && buffer.kind == kind &&
                  (buffer.category == offload::Category::parameters ||
                   buffer.category == offload::Category::optimizer) &&
                  buffer.name != kClipFactor)
                held[buffer.name] = offload::align_up(buffer.bytes);
          int64_t bytes = 0;
          for (const auto& [name, of_buffer] : held) bytes += of_buffer;
          EXPECT_EQ(states[kind].peak_bytes, bytes) << name(kind);
        }
      }
}

// What one memory lacks, both of its kinds lack: it counts once.
TEST(Room, CountsWhatIsMissingOnce) {
  const Room one{-5, -5, true}, two{-5, -7, false};
  EXPECT_EQ(missing_bytes(one), 5);
  EXPECT_EQ(missing_bytes(two), 12);
  EXPECT_EQ(fits_text(one), "no: memory 5 bytes short");
  EXPECT_EQ(fits_text(two), "no: device 5 bytes, host 7 bytes short");
}

// A limit of the config's own is not a card that is too small.
TEST(Room, NamesTheLimitThatIsExceeded) {
  const std::vector<std::string> overrides{"optimizer_memory_host_offload=true"};
  const Config config = load_config("quickstart.yml", overrides, default_configs_directory());
  const MemoryByKind memory = analyze(plan_training({config, models::Target::cuda}));
  const int64_t device = memory[MemoryKind::device].peak_bytes, host = host_peak_bytes(memory);
  for (models::Target target : {models::Target::cuda, models::Target::cpu}) {
    offload::Hardware hardware = offload::nominal_hardware(target);
    hardware.device_reserved_bytes = 0;
    hardware.device_bytes = hardware.host_bytes = int64_t{1} << 40;
    EXPECT_EQ(fits_text(room(memory, hardware, {device - 3, host - 4})),
              "no: 3 bytes over device_memory_limit, 4 bytes over host_memory_limit");
    EXPECT_EQ(spare_text(room(memory, hardware, {device + 3, std::nullopt}))
                  .find("device 3 bytes "
                        "of device_memory_limit"),
              0u);
    // The machine has less than the limit leaves.
    hardware.device_bytes = device - 5;
    hardware.host_bytes = target == models::Target::cpu ? device + host - 5 : host;
    EXPECT_EQ(fits_text(room(memory, hardware, {device, host - 1})),
              target == models::Target::cpu
                  ? "no: memory 5 bytes short"
                  : "no: device 5 bytes short, 1 bytes over host_memory_limit");
    EXPECT_EQ(fits_text(room(memory, hardware, {device - 9, std::nullopt})),
              target == models::Target::cpu
                  ? "no: memory 5 bytes short, 9 bytes over device_memory_limit"
                  : "no: 9 bytes over device_memory_limit");
  }
}

// Each kind of host memory by itself is there; both together are not.
TEST(Room, ShowsWhatIsShortWhereEachKindFits) {
  const std::vector<std::string> overrides{"optimizer_memory_host_offload=true",
                                           "checkpoint_period=10"};
  const Config config = load_config("quickstart.yml", overrides, default_configs_directory());
  const MemoryByKind memory = analyze(plan_training({config, models::Target::cuda}));
  ASSERT_GT(memory[MemoryKind::unpinned_host].peak_bytes, 0);
  const int64_t host = host_peak_bytes(memory);
  auto backend = offload::make_virtual_backend(offload::nominal_hardware(models::Target::cuda));
  const std::string table = shortage(memory, *backend, {.host_bytes = host - 1});
  EXPECT_THAT(table,
              HasSubstr("  the host      needs " + offload::bytes_text(host) + ", available " +
                        offload::bytes_text(host - 1) + " by host_memory_limit\n"));
  EXPECT_EQ(shortage(memory, *backend, {.host_bytes = host}), "");
}

}  // namespace
}  // namespace longshore::trainer
