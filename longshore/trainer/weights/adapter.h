// Reads, writes and merges LoRA adapters in peft's folders (see
// longshore/trainer/weights/adapter_format.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/weights/adapter_targets.h"
#include "longshore/trainer/weights/saved_tensors.h"

namespace longshore::trainer {

// The files that an adapter is read from.
std::vector<std::filesystem::path> adapter_files(const std::filesystem::path& folder);

// The model as adapters know it.
AdapterBase adapter_base(const models::DecoderConfig& model);

// The adapter in `folder`. Throws DataError, naming the file, as parse_adapter_config does.
models::LoraConfig read_adapter_config(const std::filesystem::path& folder,
                                       const AdapterBase& base);

// The config with what rank_pattern and alpha_pattern make of its adapters, and what the folder
// load_adapter_path says where lora_rank, lora_alpha, lora_targets or use_rslora are not set, and
// with its lora_modules; where it is gone, and a run goes on, what that run has saved. Throws
// ConfigError, naming each key with both values, where they are set to something else, and for what
// peft could not load; and DataError for a folder that cannot be read.
Config with_adapter(Config config);

// The weights of an adapter, mapped.
class Adapter {
 public:
  // Throws DataError, naming the file, as check_adapter_tensors does: `layout`, which outlives it,
  // has the adapter weights that are expected.
  Adapter(const std::filesystem::path& folder, const offload::ParameterLayout& layout);

  // Values of an adapter weight from element `first` on, as float32. Throws DataError for a value
  // that is not finite.
  void read(const offload::Parameter& parameter, int64_t first, std::span<float> values) const;

 private:
  std::string name_in_file(const std::string& tensor) const;
  void require_same(const std::string& embedding, const std::string& head) const;
  void read(const SavedRun& run, std::span<float> values) const;

  data::SafetensorsFile file_;
  SavedTensors tensors_;
};

// Writes the model's adapter weights, in float32, from their masters where there are any.
// `base_model` says what they belong to: the name or folder of a checkpoint, or "". The folder is
// made if need be; DataError where it holds an adapter already, and for a weight that is not
// finite.
void write_adapter(const std::filesystem::path& folder, const models::DecoderConfig& model,
                   const std::string& base_model, const offload::ParameterLayout& layout,
                   const offload::ArgumentReader& arguments);

// The adapter of a matrix [p,q], or of each of [E,p,q] its own: A [E,rank,q] and B [E,p,rank], or
// `transposed` A [E,rank,p] and B [E,q,rank].
struct LoraPair {
  std::span<const float> a, b;
  int64_t rank = 0;
  double scale = 0;
  int64_t matrices = 1;  // E
  bool transposed = false;
  // With magnitudes: by what each row of the sum counts then.
  std::vector<float> row_factors = {};
};

// Elements of a weight from `first` on, row-major, and to each what scale·B·A has there, or its
// transpose, in float32, times its row's factor: what the base model's weight becomes when the
// adapter is merged into it.
// Round it to the dtype that is wanted.
std::vector<float> merged(std::span<const float> weight, const LoraPair& adapter,
                          int64_t first = 0);

}  // namespace longshore::trainer
