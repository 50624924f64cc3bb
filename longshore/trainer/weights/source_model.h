// A SourceModel is the model that is to be converted: a Hugging Face folder's, or what a run
// trained.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "longshore/data/text/chat_template.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/weights/model_files.h"
#include "longshore/trainer/weights/run_weights.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {

struct ModelSource {
  std::filesystem::path from = {};     // a model's folder
  std::filesystem::path run = {};      // or a run's
  std::filesystem::path adapter = {};  // peft's folder of one for `from`; empty: none
  models::UnknownKeys unknown_keys = models::UnknownKeys::refuse;  // of config.json
  models::Images images = models::Images::needed;  // of `from`; a run's are those it read
};

class SourceModel {
 public:
  // Throws what weights_of_run, read_model_files, read_hf_config and read_adapter_config throw.
  explicit SourceModel(const ModelSource& source);

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& adapter() const { return adapter_; }  // empty: none
  // What goes along with the weights: read_model_files, and of a run also add_text_files.
  const ModelFiles& files() const { return files_; }
  // With the adapter, and with rows added to the vocabulary.
  const HfConfig& config() const { return config_; }
  // Of the decoder, as training had it.
  const offload::ParameterLayout& layout() const { return layout_; }
  // What matrices beside the adapter were stored in, if not as the folder has them.
  const std::optional<models::Quantization>& frozen() const { return frozen_; }

  // The folder's weights. Throws what StoredWeights and check_tensors throw.
  StoredWeights weights() const;

  // How the model reads and writes texts; no tokenizer where there is none.
  struct Text {
    std::unique_ptr<data::Tokenizer> tokenizer = {};
    std::optional<data::ChatTemplate> chat_template = {};
  };
  Text text() const;

 private:
  void read_run(const std::filesystem::path& run);

  std::filesystem::path folder_, adapter_;
  std::optional<RunWeights> run_;
  ModelFiles files_;
  HfConfig config_;
  std::optional<models::Quantization> frozen_;
  AddedRows added_rows_;
  offload::ParameterLayout layout_;
};

}  // namespace longshore::trainer
