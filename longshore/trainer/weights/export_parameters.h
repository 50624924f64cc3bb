// export_parameters() writes what was trained for others to load: the way back from
// longshore/trainer/weights/load_parameters.h.
#pragma once

#include <cstdint>
#include <filesystem>

#include "longshore/models/families/decoder.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/weights/hf_folder.h"

namespace longshore::trainer {

struct TrainedModel {
  const models::DecoderConfig& model;
  const offload::ParameterLayout& layout;    // of `model`
  const offload::ArgumentReader& arguments;  // with the weights
  ModelFiles files = {};                     // to go along; the config.json with its dtype changed
};

// Writes a Hugging Face folder, as write_hf_folder does, with every weight but an adapter's (see
// write_adapter for these): under its Hugging Face name, in `dtype` (float32 or bfloat16), rounded
// to nearest from its master copy where it has one; tied weights once. load_parameters reads the
// same weights back, to the bit where `dtype` is not narrower than what is trained. Host memory: a
// piece of one weight.
//
// Throws a DataError that names the weight where one that trains is not finite, and what
// write_hf_config, data::convert_floats and write_hf_folder throw.
void export_parameters(const std::filesystem::path& to, const TrainedModel& trained,
                       models::Dtype dtype, int64_t max_shard_bytes = kDefaultMaxShardBytes);

}  // namespace longshore::trainer
