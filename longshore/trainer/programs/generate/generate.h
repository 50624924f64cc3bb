// generate() continues a prompt with a model of a Hugging Face folder, or with what a run trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/decoding/sampling.h"

namespace longshore::trainer {

struct GenerateRequest {
  std::filesystem::path model;         // folder with config.json, weights and a tokenizer
  std::filesystem::path run = {};      // or a run directory
  std::filesystem::path adapter = {};  // peft's folder, of an adapter for `model`; empty: none
  std::string prompt;
  std::vector<std::filesystem::path> images = {};  // that stand before the prompt
  // As the config's chat_template; with "none" the prompt is continued as plain text. If not given,
  // the run's template, or that of the model's folder.
  std::optional<std::string> chat_template = {};
  int64_t max_tokens = 256;
  Sampling sampling = {};
  std::vector<std::string> overrides = {};  // key=value, of the keys that generate_footer() lists
};

// Writes what follows the prompt to standard output, as it comes, and the speed to standard error.
// The tokenizer's bos stands before the prompt, where it has one, unless a chat template says how
// texts begin. A model that reads images takes them before the prompt, as data::encode() writes
// them. The text ends with the tokenizer's eos, any eos_token_id of generation_config.json
// and config.json, or the assistant's turn.
//
// Throws ConfigError for the request and its keys, DataError for files, PlanError when this machine
// has not the memory, Error when the model gives no finite numbers.
void generate(const GenerateRequest& request);

// What --help says below the options.
std::string generate_footer();

}  // namespace longshore::trainer
