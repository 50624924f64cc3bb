// weights_of_run() finds what a run has trained, by the run's directory.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/text/find_chat_template.h"
#include "longshore/data/tokenizers/add_bos_eos.h"
#include "longshore/models/families/quantize_weights.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/added_rows.h"

namespace longshore::trainer {

struct RunWeights {
  std::filesystem::path model;               // Hugging Face's folder
  std::filesystem::path adapter = {};        // peft's, of an adapter for the model; empty: none
  std::filesystem::path tokenizer;           // a folder, or a file
  std::vector<std::string> add_tokens = {};  // to that
  AddedRows added_rows = {};                 // to the matrices of the folder's vocabulary
  data::ChatTemplateChoice chat_template = {};
  std::filesystem::path templates = {};  // the folder of them; empty: the tokenizer's
  // Of a run with a RoPE of its own, of which the folder knows nothing.
  std::optional<models::DecoderConfig> turned_as = {};
  models::Images images = models::Images::needed;  // whether it reads them
  // What matrices beside the adapter were stored in, if not as the folder has them.
  std::optional<models::Quantization> frozen = {};
  data::AddBosEos add_bos_eos = data::AddBosEos::missing;  // around the texts that it trained on
};

// The directory of the run, where `run` is that, or a checkpoint in it, such as what its link
// `best` leads to. Throws a ConfigError where it is neither, a DataError for a link that leads out
// of the run.
std::filesystem::path run_directory(const std::filesystem::path& run);

// model/ of the run, or of a checkpoint in it, with adapter/ where it has both; or adapter/, and
// the folder that the run began from. Throws as run_directory() does, and a DataError where neither
// was saved.
RunWeights weights_of_run(const std::filesystem::path& run);

}  // namespace longshore::trainer
