// A folder that holds a model as Hugging Face publishes them: config.json, safetensors files, and
// what a tokenizer reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/safetensors_checkpoint.h"
#include "models/decoder.h"
#include "offload/parameter_layout.h"

namespace longshore::trainer {

struct HfConfig {
  std::string text;  // of a model that also reads images, its text model's
  models::DecoderConfig decoder;
  std::optional<int64_t> max_position_embeddings;
};

// Its config.json. Throws a DataError that names the file.
HfConfig read_hf_config(const std::filesystem::path& folder);

// Its weights under the names that read_hf_config's model has for them; those that read images are
// left out. Throws what data::Checkpoint throws.
data::Checkpoint open_weights(const std::filesystem::path& folder);

// The files that a model of the folder is read from: config.json, and data::checkpoint_files.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& folder);

// Throws a DataError that lists everything that keeps `checkpoint`, found in `folder`, from being
// the weights of the model that `layout` is of: tensors that are missing, not expected, of another
// shape, or no floating-point numbers. A tied model's lm_head.weight may be there, adapters'
// weights are not.
void check_tensors(const std::filesystem::path& folder, const offload::ParameterLayout& layout,
                   const data::Checkpoint& checkpoint, bool is_tied);

// A shape as files have it.
std::vector<int64_t> sizes(const models::Shape& shape);

// Appends data of a tensor of floating-point numbers, all of it or a part, as `dtype` (F32, BF16 or
// F16), piece by piece. Throws what data::convert_floats throws.
void append_converted(const data::SafetensorsTensor& tensor, data::SafetensorsDtype dtype,
                      data::SafetensorsWriter& writer);

// As in transformers, and as in "5GB": 10^9.
inline constexpr int64_t kDefaultMaxShardBytes = 5'000'000'000;

struct SmallFile {
  std::string name, text;
};

// What stands beside the weights.
struct ModelFiles {
  std::string config;  // config.json; empty: the model's is to be written
  std::vector<SmallFile> tokenizer;
};

// The config.json in the folder `source`, and what `tokenizer`, a folder or a file in it, has for a
// tokenizer: tokenizer.json, tokenizer.model, vocab.json, merges.txt, tokenizer_config.json,
// special_tokens_map.json, added_tokens.json, chat_template.jinja and generation_config.json, those
// that are there. An empty path: none of it. Throws what read_hf_config throws, and a DataError
// that names the file where one cannot be read.
ModelFiles read_model_files(const std::filesystem::path& source,
                            const std::filesystem::path& tokenizer);

struct HfFolder {
  ModelFiles files;
  std::span<const data::SafetensorsInfo> tensors;  // in the order in which files are filled
  data::AppendData append_data;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// Writes a new folder, of which nothing is to be seen until all of it is there; see AtomicFolder,
// also for what stands under the name already, and data::write_checkpoint. Memory: what
// `append_data` needs.
void write_hf_folder(const std::filesystem::path& to, const HfFolder& folder);

}  // namespace longshore::trainer
