// Converts a Hugging Face folder into another one, of the same model, or with an adapter merged
// into it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/trainer/weights/hf_folder.h"

namespace longshore::trainer {

struct Conversion {
  std::filesystem::path from = {};  // a model's folder
  std::filesystem::path run = {};   // or a run's: what it trained, its adapter merged
  std::filesystem::path to;
  std::filesystem::path adapter = {};  // peft's folder of one to merge into `from`; empty: none
  models::UnknownKeys unknown_keys = models::UnknownKeys::refuse;  // of config.json
  models::Images images = models::Images::needed;  // of `from`; a run's are those it read
  std::optional<data::SafetensorsDtype> dtype;  // F32, BF16 or F16; none: each tensor keeps its own
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
};

// Reads and checks `from`, or the model that `run` trained, as training would, writes `to` as
// write_hf_folder does, and says what it wrote. Files hold tensors in the model's order.
// config.json is that of `from`, with the keys that models::with_both_spellings adds, and the new
// dtype where tensors do not keep theirs (see models::with_hf_dtype); of a model that also reads
// images, all is its text model's unless `images` says otherwise. The other files are those of
// read_model_files, and of a run also those of add_text_files. The same folder, dtype and shard
// size give the same bytes, and without a dtype so does what was written.
//
// With an adapter, the weights it is for become weight + scale·B·A, computed in float32 and rounded
// to the dtype that is written. Memory: a piece of a weight, and A and B of one.
//
// Throws what weights_of_run, read_hf_config, check_tensors, read_adapter_config, Adapter,
// data::convert_floats and write_hf_folder throw.
std::string convert(const Conversion& conversion);

}  // namespace longshore::trainer
