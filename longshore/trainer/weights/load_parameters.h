// load_parameters() starts a model from a checkpoint that somebody published.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "longshore/models/families/decoder.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/weights/initialize.h"

namespace longshore::trainer {

// Where weights come from.
struct WeightSources {
  std::filesystem::path folder;   // Hugging Face's
  std::filesystem::path adapter;  // peft's; empty: a model's adapters start as their Init says
  uint64_t seed = 0;              // of that
  AddedRows added_rows = {};      // to the folder's matrices of the vocabulary
};

// Tensors of files, mapped and converted piece by piece, straight into these copies where they
// live, as far as this device holds them; what optimizers keep zero. Says what it read, and how
// many values of this device's are not finite. Throws DataError when tensors are missing, not
// expected or of another shape, all of a file listed at once, and for values of an adapter that are
// not finite. With tied embeddings the folder may hold lm_head.weight as well.
// With `writes` only into the buckets of which it says so.
using ChooseBucket = std::function<bool(const offload::Bucket&)>;
std::string load_weights(const WeightSources& from, const models::DecoderConfig& model,
                         const offload::ParameterLayout& layout, offload::Arguments& arguments,
                         Copies copies = Copies::all, const ChooseBucket& writes = nullptr);

// The same for `load_parameters_path` and `load_adapter_path`, into all copies. Throws also
// ConfigError when the folder's config.json describes another model, listing each key with both
// values.
std::string load_parameters(const Config& config, const models::DecoderConfig& model,
                            const offload::ParameterLayout& layout, offload::Arguments& arguments,
                            const ChooseBucket& writes = nullptr);

// Throws what load_parameters() would, as far as config.json and the files' headers tell. It reads
// nothing else, so that what is wrong is known before anything takes long.
void require_weights(const Config& config, const models::DecoderConfig& model,
                     const offload::ParameterLayout& layout);

}  // namespace longshore::trainer
