// What is told of a run's memory is what the ledger and the plans count.
#include "longshore/trainer/step/live_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/data/rows/batches.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/step/batch_arguments.h"

namespace longshore::trainer {
namespace {

using offload::Category;
using offload::MemoryKind;
using testing::HasSubstr;

class TrainedFor {
 public:
  explicit TrainedFor(const std::vector<std::string>& settings)
      : config_(config(settings)),
        plans_(plan_training(RunSpec(config_, models::Target::cpu))),
        session_(plans_, *backend_, first_values(config_, plans_, models::Target::cpu)) {
    const data::BatchSource source = data::synthetic_batches(
        batch_schema(plans_.model, {config_.per_device_batch_size, config_.max_target_length}),
        static_cast<int32_t>(config_.model.vocabulary), 1);
    for (int i = 0; i < 2; ++i)
      session_.step().run({source(i)}, {.learning_rate = 0.01, .number = i + 1}, session_.ledger());
  }

  const TrainingPlans& plans() const { return plans_; }
  TrainingSession& session() { return session_; }
  offload::Backend& backend() { return *backend_; }
  std::vector<LiveMemory> live(MemoryKind kind) {
    return live_memory(plans_, session_.planned(), session_.ledger(), session_.step().is_deferred(),
                       kind);
  }

 private:
  static Config config(std::vector<std::string> settings) {
    const std::vector<std::string> small{"dataset_type=synthetic",
                                         "dataset_path=",
                                         "eval_dataset_path=",
                                         "tokenizer_path=",
                                         "sample_tokens=0",
                                         "base_emb_dim=32",
                                         "base_num_decoder_layers=3",
                                         "base_num_query_heads=2",
                                         "base_num_kv_heads=1",
                                         "head_dim=16",
                                         "base_mlp_dim=32",
                                         "max_target_length=64",
                                         "per_device_batch_size=2",
                                         "vocab_size=257",
                                         "dtype=float32",
                                         "enable_checkpointing=false"};
    settings.insert(settings.begin(), small.begin(), small.end());
    return load_config("quickstart.yml", settings, default_configs_directory());
  }

  Config config_;
  std::unique_ptr<offload::Backend> backend_ = offload::make_cpu_backend();
  TrainingPlans plans_;
  TrainingSession session_;
};

const std::vector<std::vector<std::string>> kSettings{
    {"remat_policy=none"},
    {"remat_policy=full", "parameter_memory_host_offload=true"},
    {"remat_policy=minimal_offloaded", "optimizer_memory_host_offload=true"},
    {"gradient_memory_host_offload=true", "optimizer_memory_host_offload=true"},
};

TEST(LiveMemory, AddsUpToTheLedgerAndToThePlan) {
  bool is_any_deferred = false;
  for (const std::vector<std::string>& settings : kSettings) {
    TrainedFor trained(settings);
    const bool is_deferred = trained.session().step().is_deferred();
    is_any_deferred |= is_deferred;
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host}) {
      offload::Ledger::ByCategory now{}, peak{};
      int64_t left = 0;
      for (const LiveMemory& row : trained.live(kind)) {
        EXPECT_NE(row.name, "beside the plans");
        EXPECT_EQ(row.now_bytes == 0, row.now_buffers == 0) << row.name;
        EXPECT_EQ(row.peak_bytes == 0, row.peak_buffers == 0) << row.name;
        now[row.category] += row.now_bytes;
        peak[row.category] += row.peak_bytes;
      }
      for (const Category category : offload::kCategories) {
        const int64_t counted = trained.session().ledger().now(kind)[category];
        EXPECT_GE(now[category], counted) << name(category);
        left += now[category] - counted;
        EXPECT_EQ(peak[category], trained.session().planned()[kind].by_category[category])
            << settings[0] << " " << name(kind) << " " << name(category);
      }
      // What waits in the arena for the next step's update.
      if (!is_deferred) {
        EXPECT_EQ(left, 0);
      }
    }
  }
  EXPECT_TRUE(is_any_deferred);
}

TEST(LiveMemory, JoinsLayersAndNamesWhatPoliciesKnow) {
  TrainedFor trained({"remat_policy=none"});
  std::map<std::string, LiveMemory> rows;
  for (const LiveMemory& row : trained.live(MemoryKind::device))
    rows[std::string(name(row.category)) + "/" + row.stage + "/" + row.name] = row;
  ASSERT_TRUE(rows.contains("optimizer/decoder/first_moment"));
  const LiveMemory& moment = rows["optimizer/decoder/first_moment"];
  EXPECT_EQ(moment.now_buffers, 3);
  EXPECT_EQ(moment.now_bytes, moment.peak_bytes);
  ASSERT_TRUE(rows.contains("kept/decoder/query_proj"));
  EXPECT_EQ(rows["kept/decoder/query_proj"].now_bytes, 0);
  EXPECT_GT(rows["kept/decoder/query_proj"].peak_bytes, 0);
}

TEST(LiveMemory, TellsWhatNoPlanKnows) {
  TrainedFor trained({"remat_policy=none"});
  trained.session().ledger().take(MemoryKind::unpinned_host, Category::saving, 4096);
  const std::vector<LiveMemory> rows = trained.live(MemoryKind::unpinned_host);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "beside the plans");
  EXPECT_EQ(rows[0].now_bytes, 4096);
  EXPECT_EQ(rows[0].peak_bytes, 0);
  trained.session().ledger().give(MemoryKind::unpinned_host, Category::saving, 4096);
}

TEST(LiveMemory, IsATableOf80Columns) {
  for (const std::vector<std::string>& settings : kSettings) {
    TrainedFor trained(settings);
    const std::string text =
        live_memory_text(trained.plans(), trained.session(), trained.backend());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    const MemoryByKind& planned = trained.session().planned();
    EXPECT_THAT(text, HasSubstr("; planned " +
                                offload::bytes_text(planned[MemoryKind::device].peak_bytes)));
    EXPECT_THAT(text,
                HasSubstr(offload::bytes_text(planned[MemoryKind::device].live_bytes) + "\n"));
  }
}

}  // namespace
}  // namespace longshore::trainer
