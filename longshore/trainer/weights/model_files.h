// ModelFiles holds what a model's folder has beside its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "longshore/models/hf/config.h"

namespace longshore::trainer {

// What each of these files may have, and one of which a tree is made in memory.
inline constexpr uint64_t kMostMib = 64, kMostParsedMib = 16;

struct SmallFile {
  std::string name;  // within the folder; may have a folder of its own before it
  std::string text;
};

struct ModelFiles {
  std::string config;  // config.json; where empty, it is written from the model
  std::vector<SmallFile> others;

  // The text of one of the others; null where there is none.
  const std::string* find(const std::string& name) const;
  // Adds one of the others, or replaces its text.
  void set(const std::string& name, std::string text);
};

// Writes the others into `folder`.
void write_others(const ModelFiles& files, const std::filesystem::path& folder);

// Of the folder `source`: config.json, with RoPE in both spellings (models::with_both_spellings)
// and of a model with images as `images` says, then also what its images are made ready by
// (preprocessor_config.json, processor_config.json); generation_config.json, and files named
// LICENSE, NOTICE or USE_POLICY in any case and with any ending. Of `tokenizer`, a folder or a
// tokenizer's file in it: the tokenizer under its usual name, vocab.json, merges.txt,
// tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja and
// additional_chat_templates/*.jinja. Those that are there; an empty path: none of it. Throws what
// read_hf_config throws, and a DataError that names the file where one cannot be read or has more
// than 64 MiB.
ModelFiles read_model_files(const std::filesystem::path& source,
                            const std::filesystem::path& tokenizer,
                            models::Images images = models::Images::needed);

}  // namespace longshore::trainer
