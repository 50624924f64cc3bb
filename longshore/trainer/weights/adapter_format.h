// Reads and writes the format of a LoRA adapter's folder as peft keeps it
// (https://huggingface.co/docs/peft): adapter_config.json, and the names and shapes in
// adapter_model.safetensors. Adapters that exist are in longshore/trainer/weights/adapter.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/trainer/weights/adapter_targets.h"

namespace longshore::trainer {

// Which modules of a model have an adapter of which size, by an adapter_config.json. Throws a
// DataError that lists the keys, but does not name the file, for anything that would change results
// and is not supported: DoRA, biases, targets that are no projections of layers, and keys nobody
// knows.
models::LoraConfig parse_adapter_config(std::string_view text, const AdapterBase& base);

// The adapter_config.json that parse_adapter_config reads as `config`. `base_model` says what the
// adapter belongs to: the name or folder of a checkpoint, or "".
std::string write_adapter_config(const models::LoraConfig& config, const AdapterBase& base,
                                 const std::string& base_model);

// The targets in the order of models::all_lora_targets, each once; only the set counts.
std::vector<std::string> ordered_targets(std::span<const std::string> targets);

// What files call an adapter weight: "base_model.model." and our name, or, of a model that reads
// images, in two spellings (see peft_modules), of which the first is written.
std::vector<std::string> peft_names(std::string_view weight);

// Throws a DataError, which does not name the file, when tensors are missing, not expected, of
// another shape or no floating-point numbers, all listed at once. `expected`: shapes by name.
void check_adapter_tensors(std::span<const data::SafetensorsTensor> tensors,
                           const std::map<std::string, std::vector<int64_t>>& expected);

}  // namespace longshore::trainer
