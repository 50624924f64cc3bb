// tiny_train() gives the command of the train program on a model that takes milliseconds a step.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/config/run_files.h"
#include "tests/base/process.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {

inline std::string tiny_train(const std::filesystem::path& output, const std::string& settings,
                              int length = 32) {
  return std::string(TRAIN_PROGRAM) +
         " --config quickstart.yml backend=cpu base_emb_dim=32 base_num_decoder_layers=2 "
         "base_num_query_heads=2 base_num_kv_heads=1 head_dim=16 base_mlp_dim=48 vocab_size=61 "
         "per_device_batch_size=2 dtype=float32 dataset_type=synthetic "
         "eval_dataset_path= sample_tokens=0 tokenizer_path= peak_tflops_per_device=1 "
         "learning_rate_schedule_steps=40 base_output_directory=" +
         output.string() + " max_target_length=" + std::to_string(length) + " " + settings;
}

// What a run computed: losses and norms by step.
inline std::map<int64_t, std::pair<double, double>> losses(const std::filesystem::path& run) {
  std::map<int64_t, std::pair<double, double>> losses;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains("validation_loss")) continue;
    const bool is_new =
        losses.emplace(record.at("step"), std::pair(record.at("loss"), record.at("grad_norm")))
            .second;
    if (!is_new) throw std::runtime_error("a step twice in " + run.string());
  }
  return losses;
}

// What a run left: the hashes of all files of its checkpoint after that step.
inline std::vector<SavedFile> saved_files(const std::filesystem::path& run, int64_t step) {
  return open_checkpoint(run / kCheckpointsFolder / checkpoint_name(step)).manifest.files;
}

// Files that are being written, or were when the process ended.
inline std::vector<std::string> half_written(const std::filesystem::path& run) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run, error))
    if (entry.path().filename().string().find(".partial") != std::string::npos)
      found.push_back(entry.path());
  return found;
}

}  // namespace longshore::trainer
