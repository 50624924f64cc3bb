// The mesh of as many devices as there are processes.
#include "longshore/trainer/config/device_mesh.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longshore/base/error.h"
#include "longshore/trainer/config/load_config.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

const std::filesystem::path kConfigs = std::filesystem::path(LONGSHORE_SOURCE_DIR) / "configs";

Config config_of(const std::vector<std::string>& axes) {
  return load_config_text("model_name: llama3.2_1b\n", kConfigs / "test.yml", axes, kConfigs);
}

TEST(DeviceMesh, AnOpenAxisTakesTheDevicesThatOthersLeave) {
  struct Case {
    std::vector<std::string> axes;
    int64_t devices, data, fsdp;
  };
  for (const Case& c : {Case{{}, 1, 1, 1},
                        {{}, 6, 1, 6},
                        {{"dcn_data_parallelism=2"}, 6, 2, 3},
                        {{"ici_data_parallelism=-1", "ici_fsdp_parallelism=2"}, 6, 3, 2},
                        {{"dcn_fsdp_parallelism=3", "ici_fsdp_parallelism=2"}, 6, 1, 6}}) {
    const offload::DeviceMesh mesh = device_mesh(with_devices(config_of(c.axes), c.devices));
    EXPECT_EQ(mesh.data.size, c.data) << c.axes.size();
    EXPECT_EQ(mesh.fsdp.size, c.fsdp) << c.axes.size();
  }
}

TEST(DeviceMesh, ARefusalNamesTheAxesThatWereSet) {
  auto message = [](const std::vector<std::string>& axes, int64_t devices) {
    return message_of<ConfigError>([&] { with_devices(config_of(axes), devices); });
  };
  EXPECT_EQ(message({"dcn_data_parallelism=2"}, 3),
            "dcn_data_parallelism = 2 (command line): found a mesh of a multiple of 2 devices, "
            "expected 3, as many as there are processes");
  EXPECT_EQ(message({"dcn_data_parallelism=1", "ici_fsdp_parallelism=1"}, 2),
            "dcn_data_parallelism = 1 (command line), ici_fsdp_parallelism = 1 (command line): "
            "found a mesh of 1 device, expected 2, as many as there are processes");
}

}  // namespace
}  // namespace longshore::trainer
