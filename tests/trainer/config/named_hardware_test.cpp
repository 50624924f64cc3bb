#include "trainer/config/named_hardware.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/small_model_on.h"

namespace longshore::trainer {
namespace {

// Products would take no time, or would have no MFU.
TEST(NamedHardware, RefusesAProfileWithoutRatesOfThePlansDtype) {
  const std::string profile = data::read_file(default_configs_directory() / "hardware/h100.yml");
  for (const std::string missing : {"flops_per_second.matmul", "peak_flops_per_second"}) {
    std::string without = profile;
    const size_t at = without.find("\n" + missing + ".bf16");
    ASSERT_NE(at, std::string::npos);
    without.insert(at + 1, "#");
    data::TemporaryFolder folder;
    Config config = small_model_on("h100", {});
    config.hardware = folder.write("slow.yml", without).string();
    const std::string said = message_of<ConfigError>([&] { named_hardware(config); });
    EXPECT_TRUE(
        said.ends_with("slow has no " + missing + " for bf16, in which this config computes"))
        << said;
    config.dtype = ComputeDtype::float32;
    EXPECT_NO_THROW(named_hardware(config));
  }
}

// Updates would take no time.
TEST(NamedHardware, RefusesAProfileWithoutAMemorysRateForUpdates) {
  std::string profile = data::read_file(default_configs_directory() / "hardware/h100.yml");
  const std::string rate = "bytes_per_second.memory:";
  const size_t at = profile.find("\n" + rate);
  ASSERT_NE(at, std::string::npos);
  profile.replace(at + 1, rate.size(), "bytes_per_second.memory.bf16:");
  data::TemporaryFolder folder;
  Config config = small_model_on("h100");
  config.hardware = folder.write("half.yml", profile).string();
  const std::string said = message_of<ConfigError>([&] { named_hardware(config); });
  EXPECT_TRUE(said.ends_with(
      "half has no bytes_per_second.memory for f32, in which parameters are updated"))
      << said;
}

}  // namespace
}  // namespace longshore::trainer
