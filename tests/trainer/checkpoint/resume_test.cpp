// A run that stops and goes on is the run that never stopped, to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/memory/host_memory.h"
#include "longshore/trainer/checkpoint/checkpoint_saver.h"
#include "longshore/trainer/checkpoint/load_state.h"
#include "longshore/trainer/checkpoint/save_memory.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/distributed/world.h"
#include "longshore/trainer/step/training_session.h"
#include "longshore/trainer/weights/saved_state.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"
#include "tests/offload/adamw_states.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using data::TemporaryFolder;

constexpr int kStop = 2, kSteps = 4;

// `more` above what all have.
Config config_of(const std::vector<std::string>& more) {
  std::map<std::string, std::string> values{
      {"model_type", "gemma3_text"},
      {"base_emb_dim", "32"},
      {"base_num_decoder_layers", "3"},
      {"base_num_query_heads", "2"},
      {"base_num_kv_heads", "1"},
      {"head_dim", "16"},
      {"base_mlp_dim", "48"},
      {"vocab_size", "61"},
      {"max_target_length", "16"},
      {"per_device_batch_size", "2"},
      {"sliding_window_size", "8"},
      {"full_attention_period", "3"},
      {"logits_via_embedding", "true"},
      {"dtype", "float32"},
      {"dataset_type", "synthetic"},
      {"gradient_clipping_threshold", "0.5"},
      {"seed", "3"},
  };
  for (const std::string& setting : more) {
    const size_t sign = setting.find('=');
    values[setting.substr(0, sign)] = setting.substr(sign + 1);
  }
  std::vector<std::string> settings;
  for (const auto& [key, value] : values) settings.push_back(key + "=" + value);
  return load_config("quickstart.yml", settings, default_configs_directory());
}

// One process's part of a run.
class Part {
 public:
  Part(const std::vector<std::string>& settings, const std::optional<Checkpoint>& start)
      : config_(config_of(settings)),
        plans_(plan_training({config_, models::Target::cpu})),
        model_(decoder_config(config_, models::Target::cpu)),
        session_(plans_, *backend_,
                 start ? GiveFirstValues([&](offload::Arguments& arguments) {
                   return load_state(*start, saved(), arguments);
                 })
                       : first_values(config_, plans_, models::Target::cpu)) {
    if (start) session_.step().set_clipping_norm(start->manifest.clipping_norm);
  }

  std::vector<double> train(int first, int end) {
    std::vector<double> results;
    data::BatchSource source = data::synthetic_batches(
        {config_.per_device_batch_size, config_.max_target_length},
        static_cast<int32_t>(config_.model.vocabulary), static_cast<uint64_t>(config_.seed));
    const int64_t micro_batches = config_.gradient_accumulation_steps;
    for (int i = first; i < end; ++i) {
      std::vector<data::Batch> batch;
      for (int64_t m = 0; m < micro_batches; ++m) batch.push_back(source(i * micro_batches + m));
      StepResult result =
          session_.step().run(batch, {.learning_rate = 0.01, .number = i + 1}, session_.ledger());
      results.insert(results.end(), {result.loss, result.gradient_norm});
    }
    session_.step().flush(session_.ledger());
    return results;
  }

  Manifest manifest() { return {.step = kStop, .clipping_norm = session_.step().clipping_norm()}; }

  SavedModel saved() const { return {config_, model_, plans_.layout}; }

  Checkpoint save(const fs::path& folder) {
    return {folder, write_checkpoint(folder, saved(), {}, session_.arguments(), manifest())};
  }

  // By a copy in host memory.
  Checkpoint save_behind(const fs::path& folder) {
    offload::Ledger ledger;
    Snapshot snapshot(plans_.layout, *backend_, ledger);
    snapshot.take(session_.arguments());
    EXPECT_EQ(ledger.peak_bytes(offload::MemoryKind::device), 0);
    return {folder, write_checkpoint(folder, saved(), {}, snapshot.arguments(), manifest())};
  }

  // Every copy of every bucket but gradients.
  std::map<std::string, std::vector<std::byte>> state() {
    std::map<std::string, std::vector<std::byte>> state;
    for (const offload::Bucket& bucket : plans_.layout.buckets)
      for (offload::Copy copy : bucket.copies()) {
        if (copy == offload::Copy::gradient) continue;
        const std::string name = argument_name(bucket, copy);
        state[name].resize(static_cast<size_t>(bytes(bucket, copy)));
        session_.arguments().read(name, state[name].data(), bytes(bucket, copy));
      }
    return state;
  }

  TrainingSession& session() { return session_; }
  const TrainingPlans& plans() const { return plans_; }

 private:
  Config config_;
  std::unique_ptr<offload::Backend> backend_ = offload::make_cpu_backend();
  TrainingPlans plans_;
  models::DecoderConfig model_;
  TrainingSession session_;
};

using Settings = std::vector<std::string>;

Settings join(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<Settings> kPlaces{
    {"remat_policy=none"},
    {"remat_policy=minimal_offloaded", "optimizer_memory_host_offload=true"},
    {"remat_policy=full", "parameter_memory_host_offload=true", "gradient_memory_host_offload=true",
     "optimizer_memory_host_offload=true", "optimizer_compute=host"},
};

struct Kind {
  const char* name;
  Settings settings;
};

const std::vector<Kind> kKinds{
    {"plain", {}},
    {"pad_token", {"pad_token_id=7"}},
    {"micro_batches", {"gradient_accumulation_steps=2"}},
    {"no_clipping", {"gradient_clipping_threshold=0"}},
    {"previous_norm", {"gradient_clipping=previous_global_norm"}},
    {"bfloat16_moments", {"moment_dtype=bfloat16"}},
    {"8bit_moments", {"moment_dtype=8bit"}},
    {"8bit_lion", {"opt_type=lion", "moment_dtype=8bit"}},
    {"sgd", {"opt_type=sgd", "sgd_nesterov=true"}},
    {"bfloat16_weights", {"dtype=bfloat16", "weight_dtype=bfloat16", "moment_dtype=8bit"}},
    {"masters", {"dtype=bfloat16"}},
    {"lora", {"lora_rank=2", "lora_targets=q_proj,v_proj"}},
    {"qlora", {"lora_rank=2", "frozen_weight_dtype=nf4", "frozen_weight_double_quantization=true"}},
    {"lora_variants",
     {"lora_rank=2", "lora_dropout=0.3", "use_dora=true", "loraplus_lr_ratio=4",
      "modules_to_save=embed_tokens"}},
    {"lora_tokens", {"lora_rank=2", "trainable_token_indices=3,5"}},
    {"lora_beside_norms", {"lora_rank=2", "trainable_parameters_mask=norm"}},
    {"a_part", {"trainable_parameters_mask=self_attn", "dtype=bfloat16"}},
};

// Whether this processor has the dtype that it computes in.
bool runs_here(const Kind& kind) {
  return has_bfloat16(models::Target::cpu) ||
         std::ranges::find(kind.settings, "dtype=bfloat16") == kind.settings.end();
}

class Resume : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "oneDNN has no bfloat16 products on this CPU";
  }
};

// Without the file that says where the checkpoint is: of an adapter for the weights beside it.
Manifest without_place(Manifest manifest) {
  std::erase_if(manifest.files,
                [](const SavedFile& file) { return file.path == "adapter/adapter_config.json"; });
  return manifest;
}

TEST_P(Resume, IsTheSameAsNeverHavingStopped) {
  const Settings& kind = GetParam().settings;
  Part undisturbed(join(kind, kPlaces[0]), {});
  const std::vector<double> expected = undisturbed.train(0, kSteps);
  for (const Settings& before : kPlaces) {
    TemporaryFolder folder;
    Part first(join(kind, before), {});
    std::vector<double> results = first.train(0, kStop);
    const Checkpoint checkpoint = first.save(folder / "1"),
                     behind = first.save_behind(folder / "2");
    EXPECT_EQ(without_place(checkpoint.manifest), without_place(behind.manifest))
        << "the same files, by their hashes";
    for (const Settings& after : kPlaces) {
      Part second(join(kind, after), checkpoint);
      std::vector<double> more = second.train(kStop, kSteps);
      more.insert(more.begin(), results.begin(), results.end());
      EXPECT_EQ(more, expected) << before[0] << ", then " << after[0];
      EXPECT_TRUE(second.state() == undisturbed.state()) << before[0] << ", then " << after[0];
      if (&before != &kPlaces[0]) break;  // files do not tell where things lived, as shown below
    }
  }
}

// What is in the files depends on neither policy nor homes.
TEST_P(Resume, FilesAreTheSameWhereverThingsLive) {
  TemporaryFolder folder;
  std::optional<Manifest> expected;
  for (const Settings& place : kPlaces) {
    Part part(join(GetParam().settings, place), {});
    part.train(0, kStop);
    const Manifest manifest = without_place(part.save(folder / place[0]).manifest);
    if (!expected) expected = manifest;
    EXPECT_GE(manifest.files.size(), 2u);
    const fs::path adapter = folder / place[0] / "adapter/adapter_config.json";
    // Beside weights that train, too, an adapter is for these.
    if (fs::exists(adapter) && fs::exists(folder / place[0] / "model")) {
      const auto config = nlohmann::json::parse(data::read_file(adapter));
      EXPECT_EQ(config["base_model_name_or_path"], (folder / place[0] / "model").string());
    }
    EXPECT_EQ(manifest, *expected) << place[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Resume, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string("_") + info.param.name; });

// What same_run.h lets through is still not read as something else.
TEST(Checkpoint, IsNotReadAsAnotherOptimizersState) {
  const std::string weight = "model.embed_tokens.weight", few = "base_num_decoder_layers=1";
  for (const auto& [saved, read, found] :
       {std::tuple{"moment_dtype=float32", "moment_dtype=bfloat16",
                   weight + ".first_moment is F32 [61,32], expected BF16 [61,32]"},
        {"moment_dtype=float32", "moment_dtype=8bit", "missing " + weight + ".first_scale"},
        {"opt_type=adamw", "opt_type=lion", "missing " + weight + ".momentum"},
        {"moment_dtype=8bit", "moment_dtype=float32",
         "not expected: " + weight + ".first_scale"}}) {
    TemporaryFolder folder;
    const Checkpoint checkpoint = Part({few, saved}, {}).save(folder / "1");
    const std::string message = message_of<DataError>([&] { Part({few, read}, checkpoint); });
    EXPECT_THAT(message, HasSubstr(found));
  }
}

// Snapshot and save's buffers are planned to the byte, and the rest of the run is what it was.
TEST(Saving, TakesWhatWasPlanned) {
  for (const Kind& kind : kKinds) {
    if (!runs_here(kind)) continue;
    const Settings settings = join(kind.settings, {"steps=4", "checkpoint_period=2"});
    const TrainingPlans with = plan_training({config_of(settings), models::Target::cpu});
    for (const auto& [off, bytes] : {std::pair{"async_checkpointing=false", kSaveBytes},
                                     {"checkpoint_period=4", kSaveBytes},
                                     {"enable_checkpointing=false", int64_t{0}}}) {
      const TrainingPlans plans =
          plan_training({config_of(join(settings, {off})), models::Target::cpu});
      EXPECT_EQ(analyze(plans)[offload::MemoryKind::unpinned_host].peak_bytes, bytes) << off;
    }
    const offload::MemoryAnalysis planned = analyze(with)[offload::MemoryKind::unpinned_host];
    auto backend = offload::make_cpu_backend();
    offload::Ledger ledger;
    const SaveMemory memory(*backend, ledger);
    const Snapshot snapshot(with.layout, *backend, ledger);
    EXPECT_GT(planned.peak_bytes, 0);
    EXPECT_EQ(ledger.peak_bytes(offload::MemoryKind::unpinned_host), planned.peak_bytes);
    EXPECT_EQ(ledger.at_peak(offload::MemoryKind::unpinned_host), planned.by_category);
    for (offload::MemoryKind kind : {offload::MemoryKind::device, offload::MemoryKind::pinned_host})
      EXPECT_EQ(analyze(with)[kind].peak_bytes, analyze(with.all())[kind].peak_bytes);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take memory, too
TEST(Saving, TakesNoMoreThanPlannedOnTheMachine) {
  std::ofstream forget("/proc/self/clear_refs");
  if (!(forget << 5 << std::flush)) GTEST_SKIP() << "the kernel keeps the peak";
  TemporaryFolder folder;
  Part part({"vocab_size=100000", "dtype=bfloat16", "base_num_decoder_layers=1"}, {});
  const int64_t before = offload::resident_bytes();
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
  part.save(folder / "1");
  const int64_t taken = offload::peak_resident_bytes() - before;
  EXPECT_LE(taken, kSaveBytes);
  EXPECT_GE(taken, kSaveBytes / 4) << "pieces of full size";
}
#endif

// Tensors and buckets that are copied, written and read in several pieces.
TEST(Checkpoint, HasLargeTensorsWhole) {
  const Settings settings = join({"vocab_size=140000", "base_num_decoder_layers=1"}, kPlaces[0]);
  TemporaryFolder folder;
  Part first(settings, {});
  first.train(0, 1);
  const Checkpoint checkpoint = first.save(folder / "1"), behind = first.save_behind(folder / "2");
  EXPECT_EQ(checkpoint.manifest, behind.manifest);
  Part second(settings, checkpoint);
  EXPECT_TRUE(second.state() == first.state());
}

// A value that is not finite is in no checkpoint, wherever it stands.
TEST(Checkpoint, HasFiniteValuesOnly) {
  for (const Kind& kind : kKinds) {
    if (!runs_here(kind)) continue;
    Part part(join(kind.settings, kPlaces[0]), {});
    part.train(0, 1);
    for (const offload::Bucket& bucket : part.plans().layout.buckets) {
      if (bucket.trainable == models::Trainable::no) continue;
      const offload::Copy weights =
          bucket.has(offload::Copy::master) ? offload::Copy::master : offload::Copy::compute;
      const offload::Copy last_state = offload::state_copy(bucket.states.size() - 1);
      for (offload::Copy copy : {weights, offload::kFirstMoment, last_state}) {
        if (!bucket.has(copy) || dtype(bucket, copy) == models::Dtype::uint8) continue;
        const std::string name = argument_name(bucket, copy);
        const int64_t size = models::size_bytes(dtype(bucket, copy));
        std::vector<std::byte> before(static_cast<size_t>(size)), all_set(before.size());
        std::fill(all_set.begin(), all_set.end(), std::byte{0xff});  // NaN
        part.session().arguments().read_part(name, 0, before.data(), size);
        part.session().arguments().write_part(name, 0, all_set.data(), size);
        TemporaryFolder folder;
        EXPECT_THAT(message_of<DataError>([&] { part.save(folder / "it"); }),
                    HasSubstr("infinite or NaN"))
            << kind.name << " " << name;
        EXPECT_EQ(folder.file_count(), 0u);
        part.session().arguments().write_part(name, 0, before.data(), size);
      }
      break;
    }
  }
}

}  // namespace
}  // namespace longshore::trainer
