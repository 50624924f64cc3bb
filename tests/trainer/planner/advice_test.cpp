// Advice is about the plans themselves: what it says of a link is so when the link is that fast.
#include "longshore/trainer/planner/advice/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "longshore/trainer/config/hardware_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/planner/advice/choose_policy.h"
#include "longshore/trainer/planner/policy_plan.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;
using offload::Hardware;

const fs::path kConfigs = fs::path(LONGSHORE_SOURCE_DIR) / "configs";

Config config_of(const std::string& policy, std::vector<std::string> more = {}) {
  more.push_back("remat_policy=" + policy);
  return load_config_text("model_name: llama3.2_1b\ndtype: bfloat16\nper_device_batch_size: 2\n",
                          kConfigs / "test.yml", more, kConfigs);
}

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
                const std::vector<std::string>& more = {}) {
  const Config config = config_of(policy, more);
  TrainingPlans plans = plan_training({config, hardware.target});
  const Room left = room(analyze(plans.all()), hardware);
  return {advise({config, hardware.target, hardware}, plans, left), left.device_spare_bytes};
}

int64_t device_peak(const Config& config) {
  return analyze(plan_training({config, models::Target::cuda}))[offload::MemoryKind::device]
      .peak_bytes;
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
    EXPECT_THAT(advised("full", h100(1.2 * rate)).about(what), HasSubstr("pays, ")) << line;
    EXPECT_THAT(advised("full", h100(0.8 * rate)).about(what), HasSubstr("does not pay")) << line;
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

// A plan that sends much already takes as little of the faster link as what is tried.
TEST(Advice, ComparesPlansOnTheSameLink) {
  const std::vector<std::string> more{"optimizer_memory_host_offload=true"};
  const Advised slow = advised("qkv_proj_offloaded", h100(1e10), more);
  int checked = 0;
  for (const char* label : {"context", "mlpwi_0", "mlpwi_1"}) {
    std::string what = std::string("offloading ") + label, line = slow.about(what);
    std::smatch found;
    if (!std::regex_search(line, found, std::regex("would have to reach (\\d+) GB/s"))) continue;
    double rate = std::stod(found[1]) * 1e9;
    const std::string faster = advised("qkv_proj_offloaded", h100(1.2 * rate), more).about(what);
    EXPECT_THAT(faster, Not(HasSubstr("does not pay"))) << line;
    const std::string slower = advised("qkv_proj_offloaded", h100(0.5 * rate), more).about(what);
    EXPECT_THAT(slower, Not(HasSubstr("it pays"))) << line;
    ++checked;
  }
  EXPECT_GE(checked, 2);
}

double step_seconds(const Config& config, const Hardware& hardware) {
  return plan_chosen_policy({config, hardware.target, hardware}).estimate->step_seconds;
}

// What the change that a line speaks of would gain, in percent of the step.
std::optional<double> gain_of(const std::string& line) {
  auto says = [&](const char* words) { return line.find(words) != std::string::npos; };
  if (says("makes no difference") || says("make no difference")) return 0;
  std::smatch found;
  if (!std::regex_search(line, found, std::regex("([-0-9.]+) % of a step"))) return {};
  const bool is_loss = says("would cost") || (says(" saves ") && says("it pays"));
  return (is_loss ? -1 : 1) * std::stod(found[1]);
}

struct Followed {
  const char* policy;
  std::vector<std::string> actions, more;
};

TEST(Advice, PredictsWhatFollowingItGives) {
  const Hardware hardware = h100(0);
  const std::string profile = "hardware=" + (kConfigs / "hardware/h100.yml").string();
  const std::vector<Followed> cases{
      {"full", {}, {}},
      {"full", {}, {"gradient_accumulation_steps=12", "gradient_memory_host_offload=true"}},
      {"qkv_proj_offloaded",
       {"query_proj=offload", "key_proj=offload", "value_proj=offload"},
       {"optimizer_memory_host_offload=true", "max_target_length=1024"}}};
  const std::map<std::string, std::string> homes{{"parameters", "parameter_memory_host_offload"},
                                                 {"gradients", "gradient_memory_host_offload"},
                                                 {"optimizer", "optimizer_memory_host_offload"}};
  const std::regex about_label("^(keeping|offloading) (\\w+) (would|saves)"),
      about_home("^(\\w+).* in host memory (would )?(cost|save|make)"),
      about_setting("^(\\w+=\\S*(?: \\w+=\\S*)*) would save ");
  int settings_followed = 0;
  for (auto [policy, actions, more] : cases) {
    more.push_back(profile);
    const double before = step_seconds(config_of(policy, more), hardware);
    int followed = 0;
    for (const std::string& line : advised(policy, hardware, more).lines) {
      const std::optional<double> gain = gain_of(line);
      if (!gain) continue;  // it says what link it would take
      std::vector<std::string> changed = more;
      std::string name = policy;
      std::smatch found;
      if (std::regex_search(line, found, about_setting)) {
        std::istringstream settings(found[1].str());
        for (std::string setting; settings >> setting;) {
          const std::string key = setting.substr(0, setting.find('=') + 1);
          std::erase_if(changed, [&](const std::string& one) { return one.starts_with(key); });
          if (key == "remat_policy=")
            name = setting.substr(key.size());
          else
            changed.push_back(setting);
        }
        ++settings_followed;
      } else if (std::regex_search(line, found, about_label)) {
        name = "custom";
        changed.insert(changed.end(), actions.begin(), actions.end());
        std::erase_if(
            changed, [&](const std::string& key) { return key.starts_with(found[2].str() + "="); });
        const bool is_offloaded = found[3] == "saves";
        changed.push_back(found[2].str() + (found[1] == "keeping" ? "=device"
                                            : is_offloaded        ? "=remat"
                                                                  : "=offload"));
      } else {
        ASSERT_TRUE(std::regex_search(line, found, about_home)) << line;
        const std::string& key = homes.at(found[1]);
        if (std::erase(changed, key + "=true") == 0) changed.push_back(key + "=true");
      }
      const double after = step_seconds(config_of(name, changed), hardware);
      const double found_gain = 100 * (1 - after / before);
      // What `auto` finds at first sight is what it gains at least.
      const double more = name == offload::kAuto ? 3 : 1;
      EXPECT_LE(*gain, found_gain + 1) << policy << ": " << line;
      EXPECT_GE(*gain, found_gain - more) << policy << ": " << line;
      ++followed;
    }
    EXPECT_GE(followed, 5) << policy;
  }
  EXPECT_GE(settings_followed, 6);
}

// Where there is room, another policy gains more than any label.
TEST(Advice, NamesFasterPoliciesFirst) {
  const std::string profile = "hardware=" + (kConfigs / "hardware/h100.yml").string();
  const Advised full = advised("full", h100(0), {profile});
  ASSERT_GE(full.lines.size(), 2u);
  std::vector<std::string> first(full.lines.begin(), full.lines.begin() + 2);
  EXPECT_THAT(first, testing::UnorderedElementsAre(HasSubstr("remat_policy=none would save"),
                                                   HasSubstr("remat_policy=auto would save")));
  EXPECT_EQ(advised("none", h100(0)).about("remat_policy="), "");
  // A named one, where `none` does not fit.
  Hardware small = h100(0);
  small.device_bytes =
      small.device_reserved_bytes +
      std::max(device_peak(config_of("full")), device_peak(config_of("save_out_proj")));
  const Advised less = advised("full", small);
  EXPECT_THAT(less.lines.at(0), testing::ContainsRegex("^remat_policy=[a-z_]*save_"));
  EXPECT_EQ(less.about("remat_policy=none"), "");
}

TEST(Advice, NamesWhatUpdatesWaitFor) {
  const Hardware hardware = h100(0);
  const std::vector<std::string> on_host{"optimizer_memory_host_offload=true",
                                         "gradient_memory_host_offload=true"};
  const Advised clipped = advised("full", hardware, on_host);
  for (const char* setting :
       {"gradient_clipping=previous_global_norm would save",
        "gradient_clipping_threshold=0 would save", "moment_dtype=8bit would save"})
    EXPECT_NE(clipped.about(setting), "") << setting;
  std::vector<std::string> more = on_host;
  more.insert(more.end(), {"gradient_clipping=previous_global_norm", "moment_dtype=8bit"});
  const Advised followed = advised("full", hardware, more);
  EXPECT_EQ(followed.about("gradient_clipping"), "");
  EXPECT_EQ(followed.about("moment_dtype"), "");
  // A step can only be skipped if its update waits.
  more = on_host;
  more.push_back("on_non_finite=skip");
  EXPECT_EQ(advised("full", hardware, more).about("gradient_clipping"), "");
  // Nothing waits on the device.
  EXPECT_EQ(advised("full", hardware).about("gradient_clipping"), "");
}

// A change that costs time saves none.
TEST(Advice, SaysWhatCostsAndWhatSaves) {
  const std::vector<std::string> on_host{"optimizer_memory_host_offload=true"};
  for (const Advised& advice :
       {advised("qkv_proj_offloaded", h100(2e9), on_host), advised("full", h100(2e9), on_host)})
    for (const std::string& line : advice.lines)
      for (const char* words : {"save -", "cost -", "save 0.0 %", "cost 0.0 %"})
        EXPECT_THAT(line, Not(HasSubstr(words)));
}

TEST(Advice, JudgesWhatIsOffloadedAlready) {
  std::string what = "offloading value_proj saves";
  EXPECT_THAT(advised("qkv_proj_offloaded", h100(0)).about(what), HasSubstr("it pays"));
  EXPECT_THAT(advised("qkv_proj_offloaded", h100(2e9)).about(what), HasSubstr("it does not pay"));
}

// Layers that are not alike: what is tried is tried in all of them, whether or not it is read
// there.
TEST(Advice, SpeaksOfLayersThatDiffer) {
  std::vector<std::string> split{"offload_layers=3", "out_proj=remat,device",
                                 "mlpwi_0=remat,device", "query_proj=remat,device",
                                 "unlabelled=remat,device"};
  EXPECT_NE(advised("custom", h100(0), split).about("keeping query_proj"), "");
}

TEST(Advice, SaysHowManyBytesAreMissing) {
  std::string keeping = "keeping mlpwi_0 would save";
  const Advised large = advised("full", h100(0));
  EXPECT_THAT(large.about(keeping), HasSubstr("which is there"));
  Hardware small = h100(0);
  small.device_bytes -= large.device_spare_bytes;
  const std::string too_much = advised("full", small).about(keeping);
  const int64_t missing =
      device_peak(config_of("custom", {"mlpwi_0=device"})) - device_peak(config_of("full"));
  EXPECT_THAT(too_much, HasSubstr(offload::bytes_text(missing) + " more than there is"));
  // At the peak, in the first layer's backward pass, little of it is still there.
  EXPECT_THAT(large.about("keeping value_proj"), HasSubstr("nothing more"));
  small.device_bytes -= 1;
  EXPECT_EQ(advised("full", small).about(keeping), "");
}

TEST(Advice, NamesThePriceOfHomes) {
  Advised resident = advised("full", h100(0));
  EXPECT_NE(resident.about("optimizer state in host memory would cost"), "");
  Advised offloaded = advised("full", h100(0), {"optimizer_memory_host_offload=true"});
  EXPECT_NE(offloaded.about("optimizer state in host memory costs "), "");
  // What is kept already, or never read, is not spoken of.
  EXPECT_EQ(advised("none", h100(0)).about("keeping"), "");
}

}  // namespace
}  // namespace longshore::trainer
