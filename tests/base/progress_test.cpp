#include "longshore/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

namespace longshore {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;
using testing::StrEq;

TEST(ProgressLine, HasABarWhereThereIsRoom) {
  EXPECT_EQ(progress_line("saving", 0.5, {"50 %", "0:04 left"}, 80, false),
            "saving [====================                    ] 50 %, 0:04 left");
  EXPECT_EQ(progress_line("", 1, {"8/8", "0:00 left"}, 33, false),
            "[===============] 8/8, 0:00 left");
  EXPECT_EQ(progress_line("saving", 0.5, {"50 %", "0:04 left"}, 30, false),
            "saving: 50 %, 0:04 left");
  EXPECT_EQ(progress_line("saving", 0.5, {"50 %", "0:04 left"}, 20, false), "saving: 50 %");
  EXPECT_EQ(progress_line("saving", 0.5, {"50 %", "0:04 left"}, 5, false), "savi");
}

TEST(ProgressLine, NeverReachesTheLastColumn) {
  const std::vector<std::vector<std::string>> all{
      {}, {"3 %"}, {"120000/1000000", "123:14:05 left", "loss 12.345", "saving 100 %"}};
  for (int columns = 0; columns <= 200; ++columns)
    for (const std::string what : {"", "reading the weights that the adapter is for"})
      for (const std::vector<std::string>& notes : all)
        for (const double part : {0.0, 0.3, 1.0}) {
          const std::string line = progress_line(what, part, notes, columns, false);
          EXPECT_LE(std::ssize(line), std::max(columns - 1, 0)) << line;
          EXPECT_EQ(line.find('\033'), line.npos);
        }
}

// All of training's notes have room where a terminal is as narrow as that.
TEST(ProgressLine, HasAllOfATrainingIn60Columns) {
  const std::string line =
      progress_line("", 0.12, {"120/1000", "1:14:05 left", "loss 3.214"}, 60, false);
  EXPECT_THAT(line, StartsWith("[=="));
  EXPECT_THAT(line, HasSubstr("] 120/1000, 1:14:05 left, loss 3.214"));
}

TEST(ProgressLine, IsTheSameInColours) {
  std::string line = progress_line("a", 0.5, {"50 %"}, 60, true);
  for (const std::string code : {"\033[32m", "\033[0m"}) {
    ASSERT_NE(line.find(code), line.npos);
    line.erase(line.find(code), code.size());
  }
  EXPECT_EQ(line, progress_line("a", 0.5, {"50 %"}, 60, false));
}

TEST(TimeLeft, IsReadAsOnAClock) {
  EXPECT_EQ(time_left_text(0), "0:00 left");
  EXPECT_EQ(time_left_text(-1), "0:00 left");
  EXPECT_EQ(time_left_text(65.4), "1:05 left");
  EXPECT_EQ(time_left_text(3723), "1:02:03 left");
  EXPECT_EQ(time_left_text(std::numeric_limits<double>::quiet_NaN()), "0:00 left");
  EXPECT_EQ(time_left_text(std::numeric_limits<double>::infinity()), "277777:46:40 left");
}

class Recorder : public ProgressDisplay {
 public:
  explicit Recorder(bool draws) : draws_(draws), before_(show_progress_on(this)) {}
  ~Recorder() override { show_progress_on(before_); }

  bool draws() const override { return draws_; }
  void draw(const std::string& what, double part, const std::vector<std::string>& notes) override {
    note(progress_line(what, part, notes, 40, false));
  }
  void erase() override { note("erased"); }
  void print_line(const std::string& text) override { note(text); }

  // Once there are so many.
  std::vector<std::string> events(size_t count = 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return events_.size() >= count; });
    return events_;
  }

 private:
  void note(const std::string& event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }

  bool draws_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  ProgressDisplay* before_;
};

TEST(Progress, IsDrawnAndTakenBack) {
  Recorder recorder(true);
  {
    Progress progress("reading", 4, {.first = 5ms, .period = 1h});
    progress.add(3);
    Progress inner("within", 1, {.first = 1ms, .period = 1h});
    recorder.events(2);
  }
  const std::vector<std::string> events = recorder.events();
  EXPECT_THAT(events.back(), StrEq("erased"));
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_THAT(events[i], StartsWith("reading ["));
    EXPECT_THAT(events[i], HasSubstr("] 75 %, 0:0"));
  }
}

TEST(Progress, MakesWayForWhatIsPrinted) {
  Recorder recorder(true);
  erase_progress();  // there is nothing yet
  const Progress progress("reading", 4, {.first = 5ms, .period = 1h});
  recorder.events(1);
  erase_progress();
  const std::vector<std::string> events = recorder.events();
  EXPECT_EQ(std::ranges::count(events, "erased"), 1);
  EXPECT_GT(recorder.events(events.size() + 1).size(), events.size());  // drawn anew
}

TEST(Progress, IsALineEachPeriodWhereNothingCanBeDrawn) {
  Recorder recorder(false);
  const auto start = std::chrono::steady_clock::now();
  Progress progress("reading", 4, {.first = 1ms, .period = 300ms});
  progress.add(1);
  const std::vector<std::string> events = recorder.events(3);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 900ms);
  for (const std::string& event : events) EXPECT_THAT(event, StartsWith("reading: 25 %, 0:0"));
}

TEST(Progress, IsNotShownOfWhatIsShort) {
  Recorder recorder(true);
  for (int i = 0; i < 100; ++i) Progress("reading", 4).add(1);
  EXPECT_TRUE(recorder.events().empty());
}

TEST(Progress, OfBytesThatNobodyKnowsTheTotalOf) {
  Recorder recorder(true);
  Progress progress("tokenizing", 0, {.first = 5ms, .period = 1h});
  progress.add(12'000'000);
  EXPECT_EQ(recorder.events(1)[0], "tokenizing: 12 MB");
}

}  // namespace
}  // namespace longshore
