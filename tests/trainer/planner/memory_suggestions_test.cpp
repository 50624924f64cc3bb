// What a run that does not fit is told.
#include "longshore/trainer/planner/advice/memory_suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <sstream>

#include "longshore/offload/backends/virtual_backend.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/run_spec.h"
#include "longshore/trainer/planner/room.h"
#include "tests/data/temporary_folder.h"
#include "tests/offload/forwarding_backend.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

using offload::MemoryKind;

constexpr int64_t kPlenty = int64_t{1} << 40;

// A device with so much memory beside what so many processes take of the host's.
class SmallBackend : public offload::ForwardingBackend {
 public:
  SmallBackend(offload::Backend& other, std::map<MemoryKind, int64_t> available,
               int64_t processes = 1)
      : ForwardingBackend(other), available_(std::move(available)), processes_(processes) {}

  int64_t available_bytes(MemoryKind kind) override {
    const bool is_of_host = kind != MemoryKind::device || !models::is_cuda(target());
    return available_.at(kind) + (is_of_host ? processes_ * kProcessBytes : 0);
  }

 private:
  std::map<MemoryKind, int64_t> available_;
  int64_t processes_;
};

Config config_of(std::vector<std::string> overrides) {
  overrides.push_back("enable_checkpointing=false");  // whose memory is no plan's
  return load_config("quickstart.yml", overrides, default_configs_directory());
}

MemoryByKind memory_of(const Config& config) {
  return analyze(plan_training({config, models::Target::cuda}).all());
}

// The lines below "with": a setting, and what it would need.
std::map<std::string, std::string> choices_of(const std::string& message) {
  std::map<std::string, std::string> choices;
  std::istringstream lines(message.substr(message.find("; with\n") + 7));
  for (std::string line; std::getline(lines, line);) {
    std::string setting;
    std::istringstream words(line);
    words >> setting;
    size_t needs = line.find_first_not_of(' ', line.find(setting) + setting.size());
    choices[setting] = line.substr(needs);
  }
  return choices;
}

TEST(WhatHelps, NamesTheKindAndTheKeysThatHelp) {
  std::vector<std::string> overrides{"remat_policy=minimal_offloaded",
                                     "optimizer_memory_host_offload=true",
                                     "gradient_accumulation_steps=2"};
  Config config = config_of(overrides);
  TrainingPlans plans = plan_training({config, models::Target::cuda});
  MemoryByKind memory = analyze(plans.all());
  int64_t device = memory[MemoryKind::device].peak_bytes,
          pinned = memory[MemoryKind::pinned_host].peak_bytes;
  auto device_without_memory =
      offload::make_virtual_backend(offload::nominal_hardware(models::Target::cuda));

  SmallBackend just_enough(*device_without_memory,
                           {{MemoryKind::device, device}, {MemoryKind::pinned_host, pinned}});
  EXPECT_EQ(explain_out_of_memory({config, just_enough.target()}, plans, just_enough), "");

  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host}) {
    std::map<MemoryKind, int64_t> available{{MemoryKind::device, kPlenty},
                                            {MemoryKind::pinned_host, kPlenty}};
    available[kind] = memory[kind].peak_bytes - 1;
    SmallBackend small(*device_without_memory, available);
    std::string message = explain_out_of_memory({config, small.target()}, plans, small);
    for (const std::string& words :
         {std::string("does not fit"), "pinned_host   needs " + offload::bytes_text(pinned),
          "device        needs " + offload::bytes_text(device),
          "available " + offload::bytes_text(available[kind])})
      EXPECT_THAT(message, HasSubstr(words));

    // Each choice needs what it is said to need, and some need less of what is short.
    std::map<std::string, std::string> choices = choices_of(message);
    EXPECT_GE(choices.size(), 6u) << message;
    int helpful = 0;
    for (const auto& [setting, needs] : choices) {
      std::string key = setting.substr(0, setting.find('=') + 1);
      std::vector<std::string> changed{setting};
      for (const std::string& other : overrides)
        if (!other.starts_with(key)) changed.push_back(other);
      MemoryByKind tried = memory_of(config_of(changed));
      const bool fits =
          tried[MemoryKind::device].peak_bytes <= available[MemoryKind::device] &&
          tried[MemoryKind::pinned_host].peak_bytes <= available[MemoryKind::pinned_host];
      EXPECT_EQ(needs, "device " + offload::bytes_text(tried[MemoryKind::device].peak_bytes) +
                           ", pinned_host " +
                           offload::bytes_text(tried[MemoryKind::pinned_host].peak_bytes) +
                           (fits ? ": fits" : ""))
          << setting;
      helpful += tried[kind].peak_bytes <= available[kind];
    }
    EXPECT_GE(helpful, 3) << message;
    EXPECT_TRUE(choices.contains("remat_policy=full")) << message;
  }
}

// On a processor, too, a limit of the device's part is kept by what moves to the host's.
TEST(WhatHelps, NamesOnlyWhatLessensWhatIsShort) {
  for (models::Target target : {models::Target::cuda, models::Target::cpu}) {
    offload::Hardware hardware = offload::nominal_hardware(target);
    hardware.device_bytes = hardware.host_bytes = kPlenty;
    const Config short_of_device = config_of({"remat_policy=full", "device_memory_limit=0.01"}),
                 short_of_host =
                     config_of({"host_memory_limit=0.0001", "optimizer_memory_host_offload=true"});
    const std::string for_device = memory_suggestions({short_of_device, hardware.target, hardware}),
                      for_host = memory_suggestions({short_of_host, hardware.target, hardware});
    for (const char* home : {"optimizer", "gradient", "parameter"}) {
      const std::string setting = std::string(home) + "_memory_host_offload=true";
      EXPECT_THAT(for_device, HasSubstr(setting));
      EXPECT_THAT(for_host, Not(HasSubstr(setting)));
    }
    EXPECT_THAT(for_device, Not(HasSubstr("remat_policy=full"))) << "it is full already";
    EXPECT_THAT(for_device, Not(HasSubstr("prefetch_layers=0"))) << "nothing moves";
    EXPECT_THAT(for_host, HasSubstr("moment_dtype=8bit"));
    EXPECT_THAT(memory_suggestions({short_of_device, hardware.target, hardware}, {"moment_dtype"}),
                Not(HasSubstr("moment_dtype")));
  }
}

// What is offered for a file can be put on a command line beside it.
TEST(WhatHelps, OffersSettingsThatTheFileTakes) {
  data::TemporaryFolder folder;
  const std::string file =
      folder
          .write("own.yml",
                 "base_config: quickstart.yml\nremat_policy: custom\ncontext: device\n"
                 "offload_layers: 5\n")
          .string();
  auto load = [&](const std::vector<std::string>& overrides) {
    return load_config(file, overrides, default_configs_directory());
  };
  const offload::Hardware nothing = offload::nominal_hardware(models::Target::cuda);
  const std::string help =
      memory_suggestions({load({"device_memory_limit=0.01"}), nothing.target, nothing});
  EXPECT_THAT(help, HasSubstr("remat_policy=full context= "));
  EXPECT_THAT(help, HasSubstr("base_num_decoder_layers=3 offload_layers=-1 "));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find(" device ")));
    const std::vector<std::string> overrides{std::istream_iterator<std::string>(words), {}};
    EXPECT_NO_THROW(plan_training({load(overrides), models::Target::cuda})) << line;
  }
}

// No choice alone makes room here, and none of those that do so together could be left out.
TEST(WhatHelps, NamesWhatFitsTogether) {
  offload::Hardware hardware = offload::nominal_hardware(models::Target::cuda);
  auto room_of = [&](const std::vector<std::string>& overrides) {
    return room(memory_of(config_of(overrides)), hardware);
  };
  const MemoryByKind least = memory_of(
      config_of({"remat_policy=full", "prefetch_layers=0", "optimizer_memory_host_offload=true",
                 "gradient_memory_host_offload=true", "moment_dtype=8bit"}));
  hardware.device_bytes = hardware.device_reserved_bytes + least[MemoryKind::device].peak_bytes;
  hardware.host_bytes = host_peak_bytes(least);
  const std::string help =
      memory_suggestions({config_of({"remat_policy=none"}), hardware.target, hardware});
  const size_t end = help.find(" device ", help.rfind('\n', help.size() - 2));
  std::istringstream words(help.substr(0, end).substr(help.rfind('\n', end) + 1));
  const std::vector<std::string> settings{std::istream_iterator<std::string>(words), {}};
  ASSERT_TRUE(help.ends_with(": fits, all together\n")) << help;
  EXPECT_THAT(help, Not(HasSubstr(": fits\n")));
  ASSERT_GE(settings.size(), 2u) << help;
  auto with = [&](size_t left_out) {
    std::vector<std::string> overrides = settings;
    if (left_out < settings.size())
      overrides.erase(overrides.begin() + static_cast<std::ptrdiff_t>(left_out));
    if (std::ranges::find(overrides, "remat_policy=full") == overrides.end())
      overrides.push_back("remat_policy=none");
    return overrides;
  };
  EXPECT_TRUE(room_of(with(settings.size())).fits()) << help;
  for (size_t i = 0; i < settings.size(); ++i)
    EXPECT_FALSE(room_of(with(i)).fits()) << settings[i] << "\n" << help;
}

// Seven rows where eight do not fit, not one; and as many layers as there is room for.
TEST(WhatHelps, NamesTheLeastChangeThatFits) {
  offload::Hardware hardware = offload::nominal_hardware(models::Target::cuda);
  hardware.host_bytes = kPlenty;
  const std::string policy = "remat_policy=none";
  for (const std::string setting :
       {"per_device_batch_size=7", "max_target_length=200", "base_num_decoder_layers=5"}) {
    hardware.device_bytes = hardware.device_reserved_bytes +
                            memory_of(config_of({policy, setting}))[MemoryKind::device].peak_bytes;
    const std::string help = memory_suggestions({config_of({policy}), hardware.target, hardware});
    EXPECT_THAT(help, testing::ContainsRegex("  " + setting + " .*: fits\n")) << help;
  }
}

TEST(WhatHelps, NamesTheFewestDevicesThatAreEnough) {
  const Config config =
      load_config("llama2_7b.yml", std::vector<std::string>{"hardware=h100", "remat_policy=full"},
                  default_configs_directory());
  const std::string help = memory_suggestions(RunSpec::on_profile(config));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      help, found, std::regex("  ici_fsdp_parallelism=(\\d+) .*: fits, on (\\d+) devices\n")))
      << help;
  EXPECT_EQ(found[1], found[2]);
  for (int fewer : {0, 1}) {
    Config one = config;
    one.ici_fsdp_parallelism = std::stoi(found[1]) - fewer;
    EXPECT_EQ(room(analyze(plan_training({one, models::Target::cuda})),
                   *RunSpec::on_profile(one).hardware())
                  .fits(),
              fewer == 0);
  }
}

// Only where there are replicas to divide the states among.
TEST(WhatHelps, DividesTheStatesOfReplicas) {
  auto nominal = offload::make_virtual_backend(offload::nominal_hardware(models::Target::cuda));
  SmallBackend small(*nominal,
                     {{MemoryKind::device, 100 << 20}, {MemoryKind::pinned_host, kPlenty}});
  auto offers = [&](const std::string& mesh) {
    const Config config = config_of({mesh, "ici_fsdp_parallelism=1"});
    const std::string message = explain_out_of_memory(
        {config, small.target()}, plan_training({config, models::Target::cuda}), small);
    EXPECT_THAT(message, HasSubstr("does not fit"));
    return choices_of(message).contains("shard_optimizer_over_data=true");
  };
  EXPECT_TRUE(offers("ici_data_parallelism=4"));
  EXPECT_FALSE(offers("ici_data_parallelism=1"));
}

// Each device has memory of its own, and a part of the host's; on a processor all is the host's.
TEST(WhatHelps, IsSharedByTheDevicesOfAHost) {
  for (models::Target target : {models::Target::cuda, models::Target::cpu}) {
    const Config config = config_of({"remat_policy=minimal_offloaded", "ici_fsdp_parallelism=2",
                                     "ici_data_parallelism=2", "dcn_data_parallelism=3"});
    const TrainingPlans plans = plan_training({config, target});
    const MemoryByKind memory = analyze(plans);
    const bool is_one_memory = target == models::Target::cpu;
    auto nominal = offload::make_virtual_backend(offload::nominal_hardware(target));
    const int64_t device = is_one_memory ? 4 * total_peak_bytes(memory)
                                         : memory[MemoryKind::device].peak_bytes,
                  host = is_one_memory ? device : 4 * host_peak_bytes(memory);
    ASSERT_GT(host, 0);
    const std::map<MemoryKind, int64_t> taken{{MemoryKind::device, device},
                                              {MemoryKind::pinned_host, host}};
    SmallBackend enough(*nominal, taken, 4);
    EXPECT_EQ(explain_out_of_memory({config, enough.target()}, plans, enough), "");
    SmallBackend without_processes(*nominal, taken, 3);
    EXPECT_NE(explain_out_of_memory({config, without_processes.target()}, plans, without_processes),
              "");
    SmallBackend small(*nominal,
                       {{MemoryKind::device, device}, {MemoryKind::pinned_host, host - 1}}, 4);
    const std::string message = explain_out_of_memory({config, small.target()}, plans, small);
    EXPECT_THAT(message, HasSubstr("available " + offload::bytes_text((host - 1) / 4) +
                                   " for each of 4 devices of this host"));
  }
}

}  // namespace
}  // namespace longshore::trainer
