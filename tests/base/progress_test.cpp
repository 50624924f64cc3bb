#include "longshore/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace longshore {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ProgressLine, HasABarWhereThereIsRoom) {
  EXPECT_EQ(progress_line("saving", 0.5, {"50 %", "0:04 left"}, 80, false),
            "saving [====================                    ] 50 %, 0:04 left");
  EXPECT_EQ(progress_line("", 1, {"8/8", "0:00 left"}, 33, false),
            "[=================] 8/8, 0:00 left");
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
    events.push_back(progress_line(what, part, notes, 40, false));
  }
  void erase() override { events.push_back("erased"); }
  void print_line(const std::string& text) override { events.push_back(text); }

  std::vector<std::string> events;

 private:
  bool draws_;
  ProgressDisplay* before_;
};

TEST(Progress, IsDrawnAndTakenBack) {
  Recorder recorder(true);
  {
    Progress progress("reading", 4, {.first = 5ms, .period = 1h});
    progress.add(3);
    Progress inner("within", 1, {.first = 5ms, .period = 1h});
    std::this_thread::sleep_for(100ms);
  }
  ASSERT_GE(recorder.events.size(), 2u);
  EXPECT_THAT(recorder.events.front(), StartsWith("reading ["));
  EXPECT_THAT(recorder.events.front(), HasSubstr("] 75 %, 0:00 left"));
  EXPECT_EQ(recorder.events.back(), "erased");
  for (const std::string& event : recorder.events) EXPECT_EQ(event.find("within"), event.npos);
}

TEST(Progress, MakesWayForWhatIsPrinted) {
  Recorder recorder(true);
  const Progress progress("reading", 4, {.first = 5ms, .period = 1h});
  std::this_thread::sleep_for(100ms);
  ASSERT_EQ(recorder.events.size(), 1u);
  erase_progress();
  erase_progress();  // nothing is left
  EXPECT_EQ(recorder.events.size(), 2u);
  EXPECT_EQ(recorder.events.back(), "erased");
}

TEST(Progress, IsALineEachPeriodWhereNothingCanBeDrawn) {
  Recorder recorder(false);
  {
    Progress progress("reading", 4, {.first = 1ms, .period = 500ms});
    progress.add(1);
    std::this_thread::sleep_for(1300ms);
  }
  ASSERT_FALSE(recorder.events.empty());
  EXPECT_LE(recorder.events.size(), 2u);  // at 0.5 s or later, and at 1 s or later
  EXPECT_THAT(recorder.events.front(), StartsWith("reading: 25 %, 0:0"));
}

TEST(Progress, IsNotShownOfWhatIsShort) {
  Recorder recorder(true);
  for (int i = 0; i < 100; ++i) Progress("reading", 4).add(1);
  EXPECT_TRUE(recorder.events.empty());
}

TEST(Progress, OfBytesThatNobodyKnowsTheTotalOf) {
  Recorder recorder(true);
  Progress progress("tokenizing", 0, {.first = 5ms, .period = 1h});
  progress.add(12'000'000);
  std::this_thread::sleep_for(100ms);
  ASSERT_EQ(recorder.events.size(), 1u);
  EXPECT_THAT(recorder.events[0], HasSubstr("12 MB"));
  EXPECT_EQ(recorder.events[0].find('%'), std::string::npos);
}

}  // namespace
}  // namespace longshore
