#include "longshore/trainer/run/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "longshore/base/error.h"
#include "tests/data/read_events.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::ReadEvent;
using testing::ElementsAre;
using testing::HasSubstr;

void no_line(const std::string& line) { ADD_FAILURE() << line; }

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::vector<ReadEvent> events_of(const fs::path& file) {
  return data::read_events(data::read_file(file));
}

TEST(EventFile, HasMaxTextsTags) {
  const data::TemporaryFolder folder;
  EventFile file(folder / "runs" / "a", 5, no_line);
  file.write({.step = 5,
              .time = 1764557000.125,
              .seconds = 0.25,
              .loss = 2.5,
              .gradient_norm = 3,
              .learning_rate = 1e-3,
              .expert_load = 1.5,
              .total_weights = 1000,
              .tokens_per_second_per_device = 4000,
              .tflops_per_device = 1.5,
              .mfu = 0.375,
              .device_peak_bytes = 4096,
              .checkpoint_stall_seconds = 0.5});
  file.write_validation(
      5, 1764557001.5,
      {.loss = 2, .sets = {{"wiki", 0}}, .choices = ChoicesAccuracy{0.25, 0.5, 1}});
  file.write_text(5, "sample", "Once\n*upon*");
  file.write_samples(5,
                     "{\"prompt\": \"Where?\", \"text\": \" Here.\"}\n"
                     "{\"messages\": [], \"text\": null}\n");
  const std::vector<fs::path> files = files_of(folder / "runs" / "a");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0].filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::vector<ReadEvent> events = events_of(files[0]);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i].step, 5);
  EXPECT_EQ(events[2].time, 1764557000.125);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"learning/loss", 2.5f},
                                          {"learning/grad_norm", 3},
                                          {"learning/current_learning_rate", 1e-3f},
                                          {"learning/total_weights", 1000},
                                          {"learning/expert_load", 1.5f},
                                          {"perf/step_time_seconds", 0.25f},
                                          {"perf/data_wait_seconds", 0},
                                          {"perf/per_device_tokens_per_sec", 4000},
                                          {"perf/per_device_tflops_per_sec", 1.5f},
                                          {"perf/mfu", 0.375f},
                                          {"perf/device_peak_bytes", 4096},
                                          {"perf/pinned_host_peak_bytes", 0},
                                          {"perf/checkpoint_stall_seconds", 0.5f}}));
  EXPECT_EQ(events[3].time, 1764557001.5);
  EXPECT_EQ(events[3].scalars,
            (std::map<std::string, float>{{"eval/avg_loss", 2},
                                          {"eval/avg_loss/wiki", 0},
                                          {"eval/avg_perplexity/wiki", 1},
                                          {"eval/choices_accuracy", 0.25f},
                                          {"eval/choices_accuracy_over_characters", 0.5f},
                                          {"eval/choices_accuracy_over_bytes", 1}}));
  EXPECT_THAT(events[4].texts.at("sample"), ElementsAre("    Once\n    *upon*"));
  EXPECT_THAT(events[5].texts.at("samples"),
              ElementsAre("prompt", "text", "    Where?", "     Here.",
                          "    {\n      \"messages\": []\n    }", "    (null)"));
  EXPECT_THAT(events[5].shape, ElementsAre(3, 2));
}

// TensorBoard reads files in the order of their names.
TEST(EventFile, IsBehindThoseOfProcessesBefore) {
  const data::TemporaryFolder folder;
  std::ofstream(folder / "events.out.tfevents.4000000000.other.1") << "of a clock that is ahead";
  std::ofstream(folder / "events.out.tfevents.99999999999999999999.x");
  std::ofstream(folder / "events.out.tfevents.");
  std::vector<std::string> said;
  const Log log = [&](const std::string& line) { said.push_back(line); };
  for (int64_t first : {0, 3}) EventFile(folder / "", first, log).write({.step = first});
  EXPECT_THAT(said, ElementsAre(HasSubstr(" has events of another run of that name")));
  std::vector<fs::path> files = files_of(folder / "");
  std::erase_if(files, [](const fs::path& file) { return fs::file_size(file) < 40; });
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[0].string(), HasSubstr("tfevents.4000000001."));
  EXPECT_THAT(files[1].string(), HasSubstr("tfevents.4000000002."));
  const std::vector<ReadEvent> events = events_of(files[1]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[1].starts);
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[2].step, 3);
}

TEST(EventFile, BeginsAnewWhereItIsRemoved) {
  const data::TemporaryFolder folder;
  std::vector<std::string> said;
  EventFile file(folder / "a", 0, [&](const std::string& line) { said.push_back(line); });
  const fs::path path = files_of(folder / "a").at(0);
  fs::remove(path);
  file.write({.step = 7});
  const std::vector<ReadEvent> events = events_of(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[1].scalars.at("perf/checkpoint_stall_seconds"), 0);
  EXPECT_THAT(said, ElementsAre(HasSubstr(": was removed; records go on in a new file")));
}

TEST(EventFile, RefusesAFolderThatCannotBeMade) {
  const data::TemporaryFolder folder;
  std::ofstream(folder / "file");
  EXPECT_THAT(
      message_of<FileError>([&] { EventFile(folder / "file" / "run", 0, no_line); }),
      testing::AllOf(HasSubstr("file/run: cannot be made: "), HasSubstr("Not a directory")));
}

}  // namespace
}  // namespace longshore::trainer
