#include "trainer/planning/room.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/load_config.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;

TEST(Room, CountsWhatTheDriverTakes) {
  const std::vector<std::string> overrides{"remat_policy=minimal_offloaded"};
  const Config config = load_config("quickstart.yml", overrides, default_configs_directory());
  const MemoryByKind memory = analyze(plan_training(config, models::Target::cuda).all());
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

}  // namespace
}  // namespace longshore::trainer
