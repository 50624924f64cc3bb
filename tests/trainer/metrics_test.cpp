#include "trainer/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

// "step" of a step's record, "step=loss" of a validation's.
std::string records(const std::filesystem::path& path) {
  std::string text;
  std::istringstream lines(data::read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    text += record.at("step").dump();
    if (record.contains("validation_loss")) text += "=" + record["validation_loss"].dump();
    text += " ";
  }
  return text;
}

TEST(MetricsFile, KeepsWhatWasBeforeTheStepThatARunGoesOnFrom) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_EQ(file.write({.step = step}), "");
      if (step % 2 == 0) continue;
      EXPECT_EQ(file.write_validation(step, 2.5 + 1 / 3.0), "");
    }
    EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 3 3=2.8333333333333335 ");
  }
  std::ofstream(path, std::ios::app) << "{\"step\":1,\"validation_lo";  // a line that was cut off
  {
    MetricsFile file(path, 2);
    EXPECT_EQ(file.kept().size(), 2u);
    EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 ");
    // Evaluated again behind the step that it goes on from.
    EXPECT_EQ(file.write_validation(1, 2.5 + 1 / 3.0), "");
    EXPECT_EQ(file.write({.step = 2}), "");
    EXPECT_EQ(file.write_validation(2, NAN), "");
  }
  EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 2=null ");
  MetricsFile file(path, 3);
  EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 2=null ");
}

// All numbers of a record come back, and those that are not finite as NaN.
TEST(MetricsFile, ReadsWhatItWrote) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  const StepMetrics written{.step = 7,
                            .seconds = 0.25,
                            .loss = NAN,
                            .gradient_norm = INFINITY,
                            .learning_rate = 1e-3,
                            .total_weights = 1000,
                            .tokens_per_second_per_device = 4000,
                            .tflops_per_device = 1.5,
                            .mfu = 0.375,
                            .device_peak_bytes = int64_t{1} << 40,
                            .pinned_host_peak_bytes = 3};
  EXPECT_EQ(MetricsFile(path, 0).write(written), "");
  const MetricsFile file(path, 8);
  ASSERT_EQ(file.kept().size(), 1u);
  const StepMetrics& kept = file.kept()[0];
  EXPECT_EQ(kept.step, 7);
  EXPECT_EQ(kept.seconds, 0.25);
  EXPECT_TRUE(std::isnan(kept.loss));
  EXPECT_TRUE(std::isnan(kept.gradient_norm));
  EXPECT_EQ(kept.learning_rate, 1e-3);
  EXPECT_EQ(kept.total_weights, 1000);
  EXPECT_EQ(kept.tokens_per_second_per_device, 4000);
  EXPECT_EQ(kept.tflops_per_device, 1.5);
  EXPECT_EQ(kept.mfu, 0.375);
  EXPECT_EQ(kept.device_peak_bytes, int64_t{1} << 40);
  EXPECT_EQ(kept.pinned_host_peak_bytes, 3);
}

TEST(MetricsFile, RefusesAFolderThatIsNotThere) {
  data::TemporaryFolder folder;
  EXPECT_THROW(MetricsFile(folder / "none" / "metrics.jsonl", 0), FileError);
}

}  // namespace
}  // namespace longshore::trainer
