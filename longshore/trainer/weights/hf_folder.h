// A folder that holds a model as Hugging Face publishes them: config.json, safetensors files, and
// what a tokenizer reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/safetensors/safetensors_folder.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/weights/model_files.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {

// The files that a model of the folder is read from: config.json, and data::safetensors_files.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& folder);

// Throws a DataError that lists everything that keeps `weights`, found in `folder`, from being
// those of `model`, whose layout `layout` is: tensors that are missing, not expected, of another
// shape, or no floating-point numbers; else for scales that are not finite. A tied model's
// lm_head.weight may be there as a copy of the embeddings; weights of adapters are not asked for.
void check_tensors(const std::filesystem::path& folder, const offload::ParameterLayout& layout,
                   const StoredWeights& weights, const models::DecoderConfig& model);

// Throws InternalError for a dtype in which no file holds states: those are float32, bfloat16 and
// uint8.
data::SafetensorsDtype file_dtype(models::Dtype dtype);

// Appends data of a tensor of floating-point numbers, all of it or a part, as `dtype` (F32, BF16 or
// F16), piece by piece. Throws what data::convert_floats throws.
void append_converted(const data::SafetensorsTensor& tensor, data::SafetensorsDtype dtype,
                      data::SafetensorsWriter& writer);

// The default of transformers, "5GB" with a GB of 10^9 bytes.
inline constexpr int64_t kDefaultMaxShardBytes = 5'000'000'000;

struct HfFolder {
  ModelFiles files;
  std::span<const data::SafetensorsInfo> tensors;  // in the order in which files are filled
  data::AppendData append_data;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// Writes a new folder, of which nothing is to be seen until all of it is there; see AtomicFolder,
// also for what stands under the name already, and data::write_safetensors_folder. Memory: what
// `append_data` needs.
void write_hf_folder(const std::filesystem::path& to, const HfFolder& folder);

}  // namespace longshore::trainer
