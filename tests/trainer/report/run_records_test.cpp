#include "longshore/trainer/report/run_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "longshore/base/error.h"
#include "longshore/trainer/report/run_page.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RunRecordsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }
  void append(const std::string& text) {
    std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << text;
  }

  data::TemporaryFolder folder_;
};

TEST_F(RunRecordsTest, ReadsWhatHasComeSinceAndNothingTwice) {
  write("metrics.jsonl", R"({"step":0,"seconds":1,"loss":4})"
                         "\n"
                         R"({"step":1,"seconds":0.5,"loss":3})"
                         "\n"
                         R"({"step":2,"seconds":0.5,"lo)");
  RunRecords run(folder_ / "");
  EXPECT_EQ(run.steps_done(), 2);
  append(R"(ss":null})"
         "\n"
         R"({"step":2,"validation_loss":2.5,"validation_losses":{"wiki":2}})"
         "\n");
  run.update();
  run.update();
  EXPECT_EQ(run.steps_done(), 3);
  EXPECT_EQ(run.find("loss")->count, 3);
  EXPECT_TRUE(std::isnan(run.find("loss")->last.y));
  EXPECT_EQ(run.median("seconds"), 0.5);
  EXPECT_EQ(run.find("validation_losses/wiki")->last.y, 2);
  EXPECT_THAT(run.evaluations(), ElementsAre(2));
}

// A run that resumes cuts off what it will write again.
TEST_F(RunRecordsTest, BeginsAnewWhereTheFileWasCut) {
  write("metrics.jsonl", R"({"step":0,"seconds":1,"loss":4})"
                         "\n"
                         R"({"step":1,"seconds":1,"loss":3})"
                         "\n");
  RunRecords run(folder_ / "");
  write("metrics.jsonl", R"({"step":0,"seconds":1,"loss":4})"
                         "\n");
  run.update();
  EXPECT_EQ(run.steps_done(), 1);
  EXPECT_EQ(run.find("loss")->count, 1);
}

TEST_F(RunRecordsTest, PausesFollowFromTheTimesOfTwoRecords) {
  write("metrics.jsonl", R"({"step":0,"seconds":1,"time":100})"
                         "\n"
                         R"({"step":0,"validation_loss":2,"time":103})"
                         "\n"
                         R"({"step":1,"seconds":1,"time":104.5})"
                         "\n");
  const RunRecords run(folder_ / "");
  EXPECT_NEAR(run.find(kPauseSeconds)->last.y, 3.5, 1e-9);
  EXPECT_THAT(run_page(run, {}), HasSubstr("before step 1: 3.5 s; evaluation"));
}

// A night on which the run lay still is no time of its.
TEST_F(RunRecordsTest, NoPauseIsBeforeAResumedRun) {
  write("metrics.jsonl", R"({"step":0,"seconds":1,"time":100})"
                         "\n"
                         R"({"step":1,"seconds":9,"time":50000,"resumed":true})"
                         "\n"
                         R"({"step":2,"seconds":1,"time":50002})"
                         "\n");
  const RunRecords run(folder_ / "");
  EXPECT_EQ(run.find(kPauseSeconds)->count, 1);
  EXPECT_EQ(run.find(kPauseSeconds)->last.y, 1);
  EXPECT_EQ(run.quantile("seconds", 1), 1);
}

// Each slow step is named by its cause where there is a record of one.
TEST_F(RunRecordsTest, SlowStepsAreNamed) {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += "{\"step\":" + std::to_string(i) + ",\"loss\":1,\"seconds\":" +
            (i == 0    ? "9"
             : i == 20 ? "3,\"data_wait_seconds\":1.9"
             : i == 30 ? "2,\"saving\":true"
             : i == 35 ? "6,\"resumed\":true"
             : i == 40 ? "2.5"
             : i == 45 ? "4"
                       : "1") +
            "}\n";
  write("metrics.jsonl", text);
  write("trace.json",
        R"({"traceEvents":[{"ph":"M","name":"thread_name","tid":1,"args":{"name":"compute"}},
{"ph":"X","name":"a","cat":"forward","tid":1,"ts":0,"dur":1,"args":{"op":"a","stage":"layers","step":44}},
{"ph":"X","name":"a","cat":"forward","tid":1,"ts":9,"dur":1,"args":{"op":"a","stage":"layers","step":45}}]})");
  const std::string page = run_page(RunRecords(folder_ / ""), {});
  EXPECT_THAT(page, HasSubstr("step 0: 9 s, 9.0 times the median; the first step"));
  EXPECT_THAT(page, HasSubstr("step 20: 3 s, 3.0 times the median; waited 1.9 s for data"));
  EXPECT_THAT(page, HasSubstr("step 30: 2 s, 2.0 times the median; a save was being written"));
  EXPECT_THAT(page,
              HasSubstr("step 35: 6 s, 6.0 times the median; the first step of a resumed run"));
  EXPECT_THAT(page, HasSubstr("step 40: 2.5 s, 2.5 times the median; no cause is known"));
  EXPECT_THAT(page, HasSubstr("step 45: 4 s, 4.0 times the median; the profiler recorded it"));
  EXPECT_THAT(page, Not(HasSubstr("step 41:")));
}

TEST_F(RunRecordsTest, WhatOthersPutThereIsNamedAndLeftOut) {
  write("config.yml",
        "# run\nsteps: 7  # command line\n\nrun_name: \"a # b\"  # x.yml:3\nbroken\n");
  write("metrics.jsonl", std::string(3 << 20, 'x') + "\n[1]\n{\"step\":\"a\"}\n{\"step\":1e300}\n" +
                             std::string(100'000, '[') + "\n{\"step\":0,\"seconds\":1}\n");
  write("plan.json", "{\"environment\":");
  write("trace.json", R"({"traceEvents":[{"ph":"X"}]})");
  write("summary.json", "[]");
  write("samples/step-00000040.jsonl",
        R"({"prompt":"A","text":"</pre><script>alert(1)</script>"})");
  const RunRecords run(folder_ / "");
  EXPECT_EQ(run.steps_done(), 1);
  EXPECT_EQ(run.config_value("steps"), "7");
  EXPECT_EQ(run.config_value("run_name"), "a # b");
  EXPECT_EQ(run.troubles().at("metrics.jsonl"),
            "metrics.jsonl: 5 lines that no run writes, the first of them line 1, were left out");
  EXPECT_TRUE(run.troubles().contains("plan.json"));
  EXPECT_TRUE(run.troubles().contains("trace.json"));
  EXPECT_TRUE(run.troubles().contains("summary.json"));
  const std::string page = run_page(run, {});
  EXPECT_THAT(page, HasSubstr("after 40 steps"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
}

TEST_F(RunRecordsTest, WhatIsNoFileIsNamed) {
  write("metrics.jsonl", "{\"step\":0,\"seconds\":1}\n");
  std::filesystem::create_directory(folder_ / "config.yml");
  std::filesystem::create_symlink("nothing", folder_ / "plan.txt");
  ASSERT_EQ(mkfifo((folder_ / "trace.json").c_str(), 0600), 0);
  const RunRecords run(folder_ / "");
  EXPECT_EQ(run.troubles().at("config.yml"), "config.yml: found a folder, expected a file");
  EXPECT_EQ(run.troubles().at("plan.txt"), "plan.txt: found a link to nothing, expected a file");
  EXPECT_EQ(run.troubles().at("trace.json"), "trace.json: found no regular file, expected a file");
  EXPECT_EQ(run.troubles().size(), 3u);
}

TEST_F(RunRecordsTest, MoreKeysThanARunHasAreNamedAndLeftOut) {
  std::string line = "{\"step\":0,\"seconds\":1";
  for (int i = 0; i < 500; ++i) line += ",\"k" + std::to_string(i) + "\":1";
  write("metrics.jsonl", line + "}\n");
  const RunRecords run(folder_ / "");
  EXPECT_EQ(run.numbers().size(), 400u);
  EXPECT_EQ(run.troubles().at("metrics.jsonl"),
            "metrics.jsonl: more than 400 keys; k399 and others are left out");
}

// Numbers of others may be any.
TEST_F(RunRecordsTest, NumbersOfAnySizeAreDrawnOrLeftOut) {
  write("metrics.jsonl",
        R"({"step":0,"seconds":1e308,"loss":1e308,"grad_norm":-1e308,"device_peak_bytes":1e300})"
        "\n"
        R"({"step":1,"seconds":1e-320,"loss":-1e308,"grad_norm":1e-320,"device_peak_bytes":-1})"
        "\n");
  write("summary.json", R"({"memory":{"device":{"peak_bytes":1e300}}})");
  write("plan.json",
        R"({"environment":{},"memory":{},"curve_axis":"x","curves":{"device":{"columns":1,)"
        R"("categories":{"parameters":[1]}}}})");
  const std::string page = run_page(RunRecords(folder_ / ""), {});
  EXPECT_THAT(page, HasSubstr("measured peak"));
  for (const char* no_number : {"\"-?inf", "[ LMHVv]-?inf", "nan"})
    EXPECT_THAT(page.substr(0, page.find("<script>")), Not(testing::ContainsRegex(no_number)));
}

TEST_F(RunRecordsTest, AFolderOfNoRunIsRefused) {
  EXPECT_THROW(RunRecords(folder_ / ""), DataError);
  EXPECT_THROW(RunRecords(folder_ / "none"), DataError);
}

TEST_F(RunRecordsTest, SeveralRunsDifferInKeysAndResults) {
  write("a/config.yml", "steps: 7  # default\nlearning_rate: 0.1  # command line\n");
  write("b/config.yml", "steps: 7  # command line\nlearning_rate: 0.2  # command line\n");
  write("a/metrics.jsonl", "{\"step\":0,\"seconds\":1,\"loss\":4}\n");
  write("b/metrics.jsonl", "{\"step\":0,\"seconds\":1,\"loss\":3,\"validation_loss\":5}\n");
  std::vector<RunRecords> runs;
  runs.emplace_back(folder_ / "a");
  runs.emplace_back(folder_ / "b/");
  EXPECT_THAT(differing_keys(runs), ElementsAre(ElementsAre("key", "a", "b"),
                                                ElementsAre("learning_rate", "0.1", "0.2")));
  const Table table = results(runs);
  EXPECT_THAT(table, testing::Contains(ElementsAre("last loss", "4.0000", "3.0000")));
  EXPECT_THAT(table, testing::Contains(ElementsAre("validation loss", "", "5.0000")));
  EXPECT_THAT(runs_page(runs), HasSubstr("Validation loss"));
}

// However many steps there are.
TEST_F(RunRecordsTest, LongRunsTakeBoundedMemoryAndKeepTheirExtremes) {
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text += "{\"step\":" + std::to_string(i) + ",\"seconds\":" + (i == 31'415 ? "7" : "1") + "}\n";
  write("metrics.jsonl", text);
  const RunRecords run(folder_ / "");
  EXPECT_EQ(run.steps_done(), 60'000);
  EXPECT_LE(run.find("seconds")->points.size(), 8'192u);
  EXPECT_THAT(run_page(run, {}), HasSubstr("step 31415: 7 s"));
}

}  // namespace
}  // namespace longshore::trainer
