// ConfigTest writes configs in a folder of their own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/load_config.h"
#include "tests/message_of.h"

namespace longshore::trainer {

namespace fs = std::filesystem;

// A valid model in eleven lines. The lines that a test adds begin at line 12.
inline const std::string kModelLines =
    "model_type: llama\n"
    "base_emb_dim: 64\n"
    "base_num_decoder_layers: 2\n"
    "base_num_query_heads: 4\n"
    "base_num_kv_heads: 2\n"
    "head_dim: 16\n"
    "base_mlp_dim: 96\n"
    "vocab_size: 100\n"
    "normalization_layer_epsilon: 1e-5\n"
    "rope_max_timescale: 10000\n"
    "logits_via_embedding: false\n";

// The overrides without which a shipped recipe has no model: some train what a folder holds.
inline std::vector<std::string> overrides_of_recipe(const std::string& name) {
  if (name != "finetune.yml" && name != "lora.yml") return {};
  const fs::path goldens = default_configs_directory().parent_path() / "tests/goldens";
  return {"load_parameters_path=" + (goldens / "models/qwen3_qknorm").string(),
          "tokenizer_path=" + (goldens / "tokenizers/bytelevel_bpe_llama3").string()};
}

inline void write_file(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string read_file(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// A source tree for one test: root/configs, root/configs/models, and the files that the test
// writes.
class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    std::string name = (fs::temp_directory_path() / "config_test_XXXXXX").string();
    root = mkdtemp(name.data());
    write_file(root / "configs/models/small.yml", kModelLines);
    write_file(root / "configs/models/large.yml",
               "base_emb_dim: 128\nbase_num_decoder_layers: 3\nbase_num_query_heads: 8\n"
               "base_num_kv_heads: 8\nhead_dim: 32\nbase_mlp_dim: 256\nvocab_size: 200\n");
  }
  ~ConfigTest() override { fs::remove_all(root); }

  Config load(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    return load_config(name, overrides, root / "configs");
  }

  Config load_text(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return load_config_text(text, root / "configs/test.yml", overrides, root / "configs");
  }

  std::string text_error(const std::string& text,
                         const std::vector<std::string>& overrides = {}) const {
    return message_of<ConfigError>([&] { load_text(text, overrides); });
  }

  // The error for `lines` that follow a valid model, from line 12.
  std::string error(const std::string& lines,
                    const std::vector<std::string>& overrides = {}) const {
    return text_error(kModelLines + lines, overrides);
  }

  fs::path root;
};

// The values of all keys as config.yml writes them.
inline std::map<std::string, std::string> values_of(const Config& config) {
  std::map<std::string, std::string> values;
  for (const Key& key : config_keys()) values[key.name] = value_text(key, config);
  return values;
}

}  // namespace longshore::trainer
