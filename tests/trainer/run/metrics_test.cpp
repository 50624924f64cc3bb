#include "longshore/trainer/run/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/trainer/run/faults.h"
#include "longshore/trainer/run/summary.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

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

// One that must not have to say that records wait.
MetricsFile file_at(const std::filesystem::path& path, int64_t first_step,
                    std::vector<StepMetrics>* kept = nullptr) {
  auto keep = [&](const StepMetrics& step) {
    if (kept) kept->push_back(step);
  };
  return MetricsFile(path, first_step, keep,
                     [](const std::string& line) { ADD_FAILURE() << line; });
}

TEST(MetricsFile, KeepsWhatWasBeforeTheStepThatARunGoesOnFrom) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  {
    MetricsFile file = file_at(path, 0);
    for (int64_t step = 0; step < 4; ++step) {
      file.write({.step = step});
      if (step % 2 == 0) continue;
      file.write_validation(step, 1, {.loss = 2.5 + 1 / 3.0, .sets = {}});
    }
    EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 3 3=2.8333333333333335 ");
  }
  std::ofstream(path, std::ios::app) << "{\"step\":1,\"validation_lo";  // a line that was cut off
  {
    std::vector<StepMetrics> kept;
    MetricsFile file = file_at(path, 2, &kept);
    EXPECT_EQ(kept.size(), 2u);
    EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 ");
    EXPECT_EQ(file.last_validation(kValidationLoss), 2.5 + 1 / 3.0);
    EXPECT_FALSE(file.last_validation(kChoicesAccuracy));
    // Evaluated again behind the step that it goes on from.
    EXPECT_FALSE(file.write_validation(1, 7, {.loss = 2.5 + 1 / 3.0, .sets = {}}));
    file.write({.step = 2});
    EXPECT_TRUE(file.write_validation(2, 8, {.loss = NAN, .sets = {}}));
  }
  EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 2=null ");
  MetricsFile file = file_at(path, 3);
  EXPECT_EQ(records(path), "0 1 1=2.8333333333333335 2 2=null ");
  EXPECT_FALSE(file_at(path, 1).last_validation(kValidationLoss));
}

// Of somebody else's: not read as a whole, whatever there is in one line, nor looked for elsewhere.
TEST(MetricsFile, LeavesOutLinesThatAreNoRecords) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  file_at(path, 0).write({.step = 0});
  std::ofstream(path, std::ios::app) << R"({"step":1,"keys":[)" << std::string(1 << 20, '[') << "\n"
                                     << "\n";
  file_at(path, 9).write({.step = 1});
  EXPECT_EQ(records(path), "0 1 ");
  std::filesystem::rename(path, folder / "other");
  std::filesystem::create_symlink("other", path);
  EXPECT_THAT(message_of<DataError>([&] { file_at(path, 9); }),
              HasSubstr("metrics.jsonl: found a symbolic link, expected a regular file"));
}

// Lines between records, and a last record without its break.
TEST(MetricsFile, BringsTogetherTheRecordsThatStay) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl", other = folder / "other";
  file_at(other, 0).write({.step = 3});
  std::string record = data::read_file(other);
  const auto with_step = [&](const std::string& step) {
    return R"({"step":)" + step + record.substr(record.find(','));
  };
  record.pop_back();
  std::ofstream(path) << "\n{}\n"
                      << with_step("0") << "\n"
                      << std::string(9000, '[') << "\n"
                      << with_step("7") << "\n"
                      << with_step("1") << "\n"
                      << R"({"step":1,"validation_loss":0.5})"
                      << "\n\n"
                      << with_step("2");
  std::vector<StepMetrics> kept;
  MetricsFile file = file_at(path, 3, &kept);
  EXPECT_EQ(kept.size(), 3u);
  EXPECT_EQ(records(path), "0 1 1=0.5 2 ");
  file.write({.step = 3});
  EXPECT_EQ(records(path), "0 1 1=0.5 2 3 ");
}

// Holes of gigabytes are lines of as many zeros.
TEST(MetricsFile, ReadsTheEndOfAHugeFileAlone) {
  constexpr int64_t kHole = int64_t{6} << 30;
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  file_at(path, 0).write({.step = 0});
  std::filesystem::resize_file(path, kHole);
  {
    EXPECT_THAT(
        message_of<DataError>([&] {
          MetricsFile(
              path, 3, [](const StepMetrics&) {}, [](const std::string&) {});
        }),
        testing::AllOf(HasSubstr("metrics.jsonl: found 6442450944 bytes, of which the last "),
                       HasSubstr("hold no record of a step before 3")));
    EXPECT_EQ(std::filesystem::file_size(path), kHole);
  }
  {
    MetricsFile other = file_at(folder / "other", 0);
    for (int64_t step = 1; step < 5; ++step) other.write({.step = step});
  }
  const std::string more = "\n" + data::read_file(folder / "other");
  std::ofstream(path, std::ios::app) << more;
  std::vector<std::string> said;
  std::vector<int64_t> kept;
  const auto begin = std::chrono::steady_clock::now();
  MetricsFile file(
      path, 3, [&](const StepMetrics& step) { kept.push_back(step.step); },
      [&](const std::string& line) { said.push_back(line); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(kept, testing::ElementsAre(1, 2));
  file.write({.step = 3});
  // To the byte what it was, up to the third record of four.
  const size_t size = std::filesystem::file_size(path);
  EXPECT_EQ(size, kHole + more.size() - (more.size() - 1) / 4);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("metrics.jsonl has " + std::to_string(kHole + more.size()) +
                                 " bytes, of which the last "));
}

TEST(MetricsFile, GoesOnInANewFileWhereItIsRemoved) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  std::vector<std::string> said;
  MetricsFile file(
      path, 0, [](const StepMetrics&) {}, [&](const std::string& line) { said.push_back(line); });
  file.write({.step = 0});
  std::filesystem::remove(path);
  file.write({.step = 1});
  EXPECT_EQ(records(path), "1 ");
  std::filesystem::rename(path, folder / "rotated");
  file.write({.step = 2});
  EXPECT_EQ(records(path), "2 ");
  EXPECT_THAT(said, testing::Each(path.string() + ": was removed; records go on in a new file"));
  EXPECT_EQ(said.size(), 2u);
  file.require_written();
}

// All numbers of a record come back, and those that are not finite as NaN.
TEST(MetricsFile, ReadsWhatItWrote) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  const StepMetrics written{.step = 7,
                            .time = 1764557000.125,
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
  file_at(path, 0).write(written);
  std::vector<StepMetrics> all;
  const MetricsFile file = file_at(path, 8, &all);
  ASSERT_EQ(all.size(), 1u);
  const StepMetrics& kept = all[0];
  EXPECT_EQ(kept.step, 7);
  EXPECT_EQ(kept.time, 1764557000.125);
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

// As files of before records had a time.
TEST(MetricsFile, ReadsRecordsWithoutTime) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  {
    MetricsFile file = file_at(path, 0);
    file.write({.step = 0, .time = 5, .loss = 1.5});
    file.write_validation(0, 6, {.loss = 0.5, .sets = {}});
  }
  std::string text = data::read_file(path);
  for (const std::string time : {"\"time\":5.0,", "\"time\":6.0,"}) {
    ASSERT_THAT(text, HasSubstr(time));
    text.erase(text.find(time), time.size());
  }
  std::ofstream(path) << text;
  std::vector<StepMetrics> kept;
  MetricsFile file = file_at(path, 1, &kept);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].time, 0);
  EXPECT_EQ(kept[0].loss, 1.5);
  EXPECT_FALSE(file.write_validation(0, 7, {.loss = 0.5, .sets = {}}));
  EXPECT_EQ(data::read_file(path), text);
}

TEST(StepMetrics, AreSaidInOneLine) {
  StepMetrics step{.step = 12,
                   .seconds = 0.4125,
                   .loss = 2.3171,
                   .gradient_norm = 0.914,
                   .learning_rate = 3e-4,
                   .total_weights = 8192,
                   .tokens_per_second_per_device = 9942,
                   .tflops_per_device = 401.25,
                   .mfu = 0.4058,
                   .device_peak_bytes = int64_t{5} << 29,
                   .pinned_host_peak_bytes = int64_t{1} << 28};
  EXPECT_EQ(text(step),
            "completed step: 12, seconds: 0.412, TFLOP/s/device: 401.250, MFU: 40.6 %, "
            "Tokens/s/device: 9942.0, total_weights: 8192, loss: 2.317, grad_norm: 0.91, "
            "lr: 3.0e-04, device GiB: 2.50, host GiB: 0.25");
}

// As on a full disk, files of this process can take no more for the lifetime of this object.
class FilesAreFull {
 public:
  explicit FilesAreFull(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FilesAreFull() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST(MetricsFile, KeepsRecordsUntilThereIsRoomForThem) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  std::vector<std::string> lines;
  MetricsFile file(
      path, 0, [](const StepMetrics&) {}, [&](const std::string& line) { lines.push_back(line); });
  file.write({.step = 0});
  {
    const FilesAreFull full(std::filesystem::file_size(path) + 10);  // which a record's start fits
    file.write({.step = 1});
    file.write({.step = 2});
    ASSERT_EQ(lines.size(), 1u);  // not for each record
    EXPECT_THAT(lines[0], HasSubstr("cannot be written: File too large"));
    EXPECT_THROW(file.require_written(), FileError);
  }
  file.sync();
  file.require_written();
  EXPECT_EQ(records(path), "0 1 2 ");
  file.write_validation(2, 1, {.loss = 0.5, .sets = {}});
  EXPECT_EQ(records(path), "0 1 2 2=0.5 ");
  EXPECT_EQ(lines.size(), 1u);
}

TEST(MetricsFile, RefusesToTakeForEmptyWhatItCannotRead) {
  data::TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  std::filesystem::create_symlink(path, path);  // which nobody can open, not even root
  EXPECT_THROW(file_at(path, 0), DataError);
}

TEST(MetricsFile, RefusesAFolderThatIsNotThere) {
  data::TemporaryFolder folder;
  EXPECT_THROW(file_at(folder / "none" / "metrics.jsonl", 0), FileError);
}

// The first step is left out; of the peak the last step's counts.
TEST(StepFigures, AreExactWhereStepsAreFew) {
  StepFigures figures;
  EXPECT_EQ(figures.summary().median_step_seconds, 0);
  figures.add({.seconds = 9, .tokens_per_second_per_device = 1, .tflops_per_device = 1});
  EXPECT_EQ(figures.summary().median_step_seconds, 9);
  for (double seconds : {1, 2, 3})
    figures.add({.seconds = seconds,
                 .tokens_per_second_per_device = 60 / seconds,
                 .tflops_per_device = 6 / seconds,
                 .mfu = 0.25});
  const Summary summary = figures.summary();
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.median_step_seconds, 2);
  EXPECT_DOUBLE_EQ(summary.p90_step_seconds, 2.8);
  EXPECT_EQ(summary.tokens_per_second_per_device, 30);
  EXPECT_DOUBLE_EQ(summary.mfu, 3 * 0.25 / 2);
}

// A long run takes no more memory than a short one.
TEST(StepFigures, TakeTheSameMemoryHoweverManyStepsThereAre) {
  StepFigures figures;
  const size_t before = mallinfo2().uordblks;
  for (int64_t step = 0; step < 100'000; ++step)
    figures.add({.seconds = 1 + 1e-5 * static_cast<double>(step)});
  EXPECT_EQ(mallinfo2().uordblks, before);
  EXPECT_EQ(figures.steps(), 100'000);
  EXPECT_NEAR(figures.summary().median_step_seconds, 1.5, 0.05);
}

TEST(NonFiniteSteps, AreToldByEachOfTheirNumbers) {
  const data::TemporaryFolder folder;
  NonFiniteSteps steps(folder / "batches");
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(steps.account({.step = 3, .loss = 1, .gradient_norm = 2, .auxiliary_loss = 4}, {}), "");
  EXPECT_THAT(steps.account({.step = 3, .loss = infinite, .gradient_norm = 2}, {}),
              HasSubstr("step 3: loss inf, grad_norm 2"));
  EXPECT_THAT(steps.account({.step = 3, .loss = 1, .gradient_norm = infinite}, {}),
              HasSubstr("grad_norm inf"));
  EXPECT_THAT(steps.account({.step = 3, .loss = 1, .auxiliary_loss = infinite}, {}),
              HasSubstr("grad_norm 0, auxiliary loss inf"));
}

}  // namespace
}  // namespace longshore::trainer
