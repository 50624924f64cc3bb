// Advice is about the plans themselves: what it says of a link is so when the link is that fast.
#include "trainer/planning/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "trainer/config/hardware_file.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::Hardware;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

struct Advised {
  std::vector<std::string> lines;
  int64_t device_spare_bytes = 0;

  // The line that speaks of `what`, "" if none does.
  std::string about(const std::string& what) const {
    auto found = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(what) != std::string::npos;
    });
    return found == lines.end() ? "" : *found;
  }
};

Advised advised(const std::string& policy, const Hardware& hardware,
                std::vector<std::string> more = {}) {
  more.push_back("remat_policy=" + policy);
  Config config =
      load_config_text("model_name: llama3.2_1b\ndtype: bfloat16\nper_device_batch_size: 2\n",
                       kConfigs / "test.yml", more, kConfigs);
  TrainingPlans plans = plan_training(config, hardware.target);
  const Room left = room(analyze(plans.all()), hardware);
  return {advise(config, plans, left, hardware), left.device_spare_bytes};
}

Hardware h100(double link) {
  Hardware hardware = read_hardware("h100", kConfigs);
  if (link > 0) hardware.link_to_device = hardware.link_to_host = offload::RateCurve(link);
  return hardware;
}

TEST(Advice, SaysHowFastALinkWouldHaveToBe) {
  Advised slow = advised("full", h100(2e9));
  int checked = 0;
  for (const char* label : {"query_proj", "value_proj", "context", "mlpwi_0"}) {
    std::string what = std::string("offloading ") + label, line = slow.about(what);
    std::smatch found;
    ASSERT_TRUE(std::regex_search(line, found, std::regex("would have to reach (\\d+) GB/s")))
        << line;
    double rate = std::stod(found[1]) * 1e9;
    EXPECT_GT(rate, 2e9);
    EXPECT_NE(advised("full", h100(1.2 * rate)).about(what).find("pays, "), std::string::npos)
        << line;
    EXPECT_NE(advised("full", h100(0.8 * rate)).about(what).find("does not pay"), std::string::npos)
        << line;
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

TEST(Advice, JudgesWhatIsOffloadedAlready) {
  std::string what = "offloading value_proj saves";
  EXPECT_NE(advised("qkv_proj_offloaded", h100(0)).about(what).find("it pays"), std::string::npos);
  EXPECT_NE(advised("qkv_proj_offloaded", h100(2e9)).about(what).find("it does not pay"),
            std::string::npos);
}

// Layers that are not alike: what is tried is tried in all of them, whether or not it is read
// there.
TEST(Advice, SpeaksOfLayersThatDiffer) {
  std::vector<std::string> split{"offload_layers=3", "out_proj=remat,device",
                                 "mlpwi_0=remat,device", "query_proj=remat,device",
                                 "unlabelled=remat,device"};
  EXPECT_NE(advised("custom", h100(0), split).about("keeping query_proj"), "");
}

TEST(Advice, KnowsTheRoom) {
  std::string keeping = "keeping mlpwi_0 would save";
  const Advised large = advised("full", h100(0));
  EXPECT_NE(large.about(keeping).find("which are there"), std::string::npos);
  Hardware small = h100(0);
  small.device_bytes -= large.device_spare_bytes;
  EXPECT_NE(advised("full", small).about(keeping).find("more than there are"), std::string::npos);
  small.device_bytes -= 1;
  EXPECT_EQ(advised("full", small).about(keeping), "");
}

TEST(Advice, NamesThePriceOfHomes) {
  Advised resident = advised("full", h100(0));
  EXPECT_NE(resident.about("optimizer state in host memory would cost"), "");
  Advised offloaded = advised("full", h100(0), {"optimizer_memory_host_offload=true"});
  EXPECT_NE(offloaded.about("optimizer state in host memory cost "), "");
  // What is kept already, or never read, is not spoken of.
  EXPECT_EQ(advised("none", h100(0)).about("keeping"), "");
}

}  // namespace
}  // namespace longshore::trainer
