#include "longshore/trainer/report/step_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "longshore/base/error.h"
#include "longshore/data/files/small_file.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/planner/policy_plan.h"
#include "longshore/trainer/report/step_drawing.h"
#include "longshore/trainer/step/trace_file.h"
#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using offload::Category;
using offload::Lane;
using offload::MemoryKind;

// A step that offloads, recomputes and updates on the host.
class StepPictures : public testing::Test {
 protected:
  static PolicyPlan planned() {
    return plan_policy(RunSpec::on_profile(
        load_config("llama3_8b.yml",
                    std::vector<std::string>{"hardware=h100", "base_num_decoder_layers=4",
                                             "remat_policy=qkv_proj_offloaded",
                                             "optimizer_memory_host_offload=true"},
                    default_configs_directory())));
  }

  const PolicyPlan plan_ = planned();
  const std::vector<offload::Event> events_ = offload::events_of(plan_.estimate->runs);
  const std::vector<MemorySample> samples_ =
      memory_samples(events_, plan_.plans.step, MemoryKind::device);
  const StepPicture picture_ = step_picture(events_, samples_);
};

TEST_F(StepPictures, SecondsAndBytesAreThoseOfThePlan) {
  EXPECT_NEAR(picture_.seconds, plan_.estimate->step_seconds, 1e-9);
  for (const LanePicture& lane : picture_.lanes) {
    double busy = 0;
    for (const offload::Event& event : events_)
      if (lane.name == name(event.lane)) busy += event.span.end - event.span.begin;
    EXPECT_NEAR(lane.busy_seconds(), busy, 1e-9) << lane.name;
  }
  double ops = 0, recomputed = 0;
  for (const OpTime& op : picture_.ops) {
    ops += op.seconds;
    if (op.kind == WorkKind::recomputed) recomputed += op.seconds;
  }
  EXPECT_NEAR(ops, plan_.estimate->busy_seconds[Lane::compute], 1e-9);
  EXPECT_NEAR(recomputed, plan_.estimate->phases.recompute, 1e-9);
  int64_t live = 0;
  for (const MemorySample& sample : samples_)
    live = std::max(live, std::accumulate(sample.live.begin(), sample.live.end(), int64_t{0}));
  EXPECT_EQ(picture_.device.most_bytes(), live);
}

// A lane's coloured columns are as much of the width as it is busy, up to a column for each bar.
TEST_F(StepPictures, BarsAreAsWideAsTheLaneIsBusy) {
  for (const LanePicture& lane : picture_.lanes) {
    int columns = 0, end = 0;
    for (const LaneBar& bar : lane.bars) {
      EXPECT_GE(bar.begin, end);
      end = bar.end;
      columns += bar.end - bar.begin;
    }
    EXPECT_NEAR(columns, StepPicture::kColumns * lane.busy_seconds() / picture_.seconds,
                0.05 * StepPicture::kColumns)
        << lane.name;
  }
}

TEST_F(StepPictures, ATraceFileGivesTheSamePicture) {
  const data::TemporaryFolder folder;
  write_trace({{.step = 3, .begin = 0, .events = events_}}, plan_.plans.step,
              folder / "trace.json");
  const StepPicture read = read_trace(data::read_small_file(folder / "trace.json", 64));
  EXPECT_NEAR(read.seconds, picture_.seconds, 1e-8);
  ASSERT_EQ(read.lanes.size(), picture_.lanes.size());
  for (size_t i = 0; i < read.lanes.size(); ++i) {
    EXPECT_EQ(read.lanes[i].name, picture_.lanes[i].name);
    for (int kind = 0; kind < kWorkKinds; ++kind)
      EXPECT_NEAR(read.lanes[i].seconds[kind], picture_.lanes[i].seconds[kind], 1e-5);
  }
  EXPECT_EQ(read.device.most_bytes(), picture_.device.most_bytes());
}

TEST_F(StepPictures, JsonGivesTheSamePicture) {
  const nlohmann::ordered_json written = json(picture_);
  EXPECT_EQ(json(read_step_picture(written)), written);
  EXPECT_EQ(lanes_html(read_step_picture(written)), lanes_html(picture_));
}

TEST_F(StepPictures, CurvesHaveThePlansPeak) {
  for (MemoryKind kind : offload::kMemoryKinds) {
    const std::vector<MemorySample> samples = memory_by_kernel(plan_.plans.step, kind);
    int64_t live = 0;
    for (const offload::Plan* plan : plan_.plans.step.of_step())
      for (size_t i = 0; i < plan->instructions.size(); ++i)
        if (plan->instructions[i].lane == Lane::compute)
          live = std::max(live, live_bytes_by_instruction(*plan, kind)[i]);
    if (plan_.plans.step.of_step().size() == 1) {
      EXPECT_EQ(memory_picture(samples, static_cast<double>(samples.size())).most_bytes(), live);
    }
  }
}

TEST_F(StepPictures, TheSvgHasEachLaneAndSaysWhatItShows) {
  const std::string svg = step_svg(picture_, "a <step>");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("a &lt;step&gt;"), std::string::npos);
  for (const char* part : {"host to device", "recomputed", "optimizer", "device memory", "GiB"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

TEST(StepPicture, FilesOfOthersAreRefused) {
  for (
      const char* text :
      {"", "[]", "{}", R"({"traceEvents":[{"ph":1}]})",
       R"({"traceEvents":[{"ph":"X","args":{"step":0},"tid":5,"ts":0,"dur":1,"cat":"a","name":"b"}]})",
       R"({"traceEvents":[{"ph":"C","name":"device bytes","ts":0,"args":{"sugar":1}}]})"})
    EXPECT_THROW(read_trace(text), DataError) << text;
  EXPECT_EQ(read_trace(R"({"traceEvents":[]})").lanes.size(), 0u);
}

}  // namespace
}  // namespace longshore::trainer
