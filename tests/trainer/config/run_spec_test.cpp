#include "longshore/trainer/config/run_spec.h"

#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/trainer/small_model_on.h"

namespace longshore::trainer {
namespace {

// Products would take no time, or would have no MFU.
TEST(RunSpec, RefusesAProfileWithoutRatesOfThePlansDtype) {
  const std::string profile = data::read_file(default_configs_directory() / "hardware/h100.yml");
  for (const std::string missing : {"flops_per_second.matmul", "peak_flops_per_second"}) {
    std::string without = profile;
    const size_t at = without.find("\n" + missing + ".bf16");
    ASSERT_NE(at, std::string::npos);
    without.insert(at + 1, "#");
    data::TemporaryFolder folder;
    Config config = small_model_on("h100", {});
    config.hardware = folder.write("slow.yml", without).string();
    const std::string said = message_of<ConfigError>([&] { RunSpec::on_profile(config); });
    EXPECT_TRUE(
        said.ends_with("slow has no " + missing + " for bf16, in which this config computes"))
        << said;
    config.dtype = ComputeDtype::float32;
    EXPECT_NO_THROW(RunSpec::on_profile(config));
  }
}

// Updates would take no time.
TEST(RunSpec, RefusesAProfileWithoutAMemorysRateForUpdates) {
  std::string profile = data::read_file(default_configs_directory() / "hardware/h100.yml");
  const std::string rate = "bytes_per_second.memory:";
  const size_t at = profile.find("\n" + rate);
  ASSERT_NE(at, std::string::npos);
  profile.replace(at + 1, rate.size(), "bytes_per_second.memory.bf16:");
  data::TemporaryFolder folder;
  Config config = small_model_on("h100");
  config.hardware = folder.write("half.yml", profile).string();
  const std::string said = message_of<ConfigError>([&] { RunSpec::on_profile(config); });
  EXPECT_TRUE(said.ends_with(
      "half has no bytes_per_second.memory for f32, in which parameters are updated"))
      << said;
}

TEST(RunSpec, KeepsItsProfileAndItsTargetWhereOtherChoicesAreMade) {
  data::TemporaryFolder folder;
  Config config = small_model_on("h100");
  const std::string profile = data::read_file(default_configs_directory() / "hardware/h100.yml");
  config.hardware = folder.write("mine.yml", profile).string();
  const RunSpec spec = RunSpec::on_profile(config);
  folder.write("mine.yml", "no profile");  // nobody reads it again
  const RunSpec other = spec.changed([](Config& one) { one.steps = 7; });
  EXPECT_EQ(other.config().steps, 7);
  EXPECT_NE(spec.config().steps, 7);
  EXPECT_EQ(other.hardware()->name, "mine");
  EXPECT_EQ(other.target(), models::Target::cuda);
  // Another profile is another file.
  EXPECT_EQ(spec.changed([](Config& one) { one.hardware = "h200"; }).hardware()->name, "h200");
  EXPECT_FALSE(spec.changed([](Config& one) { one.hardware = ""; }).hardware());
}

// Devices of a node share its links to the host.
TEST(RunSpec, HasTheHardwareThatOneOfItsDevicesSees) {
  const RunSpec alone = RunSpec::on_profile(small_model_on("rtx4090"));
  const RunSpec eight = alone.changed([](Config& one) { one.ici_fsdp_parallelism = 8; });
  constexpr double kLargeCopy = 1e9;
  EXPECT_LE(eight.hardware()->link_to_host.at(kLargeCopy),
            alone.hardware()->link_to_host.at(kLargeCopy));
  const RunSpec composed = RunSpec::on_profile(small_model_on("h100", {"backend=cuda_composed"}));
  EXPECT_EQ(composed.target(), models::Target::cuda_composed);
}

}  // namespace
}  // namespace longshore::trainer
