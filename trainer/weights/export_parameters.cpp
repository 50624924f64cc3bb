#include "trainer/weights/export_parameters.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/pieces.h"
#include "data/safetensors/safetensors_float.h"
#include "models/hf/config.h"
#include "trainer/weights/read_floats.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;
using models::Dtype;

std::string config_text(const TrainedModel& trained, Dtype dtype) {
  if (std::string text = trained.files.config; !text.empty()) {
    // Where the run was told another than the folder that it began from has.
    const std::optional<int64_t> pad_token = trained.model.pad_token;
    const models::DecoderConfig described =
        models::parse_hf_config(text, models::UnknownKeys::ignore, models::Images::read);
    if (described.pad_token != pad_token) text = models::with_hf_pad_token(text, pad_token);
    return models::with_hf_dtype(text, dtype == Dtype::float32 ? "float32" : "bfloat16");
  }
  models::DecoderConfig model = trained.model;
  model.dtype = dtype;
  return models::write_hf_config(model);
}

}  // namespace

void export_parameters(const std::filesystem::path& to, const TrainedModel& trained, Dtype dtype,
                       int64_t max_shard_bytes) {
  const offload::ParameterLayout& layout = trained.layout;
  std::vector<data::SafetensorsInfo> tensors;
  for (const offload::Bucket& bucket : layout.buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (!models::is_lora_weight(parameter.name))
        tensors.push_back({.name = parameter.name,
                           .dtype = file_dtype(dtype),
                           .shape = parameter.tensor_shape().sizes()});
  auto append_data = [&](const data::SafetensorsInfo& info, data::SafetensorsWriter& writer) {
    const offload::Parameter& parameter = layout.parameter(layout.by_name.at(info.name));
    const bool trains =
        layout.bucket(layout.by_name.at(info.name)).trainable == models::Trainable::yes;
    for_each_piece(info.element_count(), kWeightPieceElements, [&](int64_t first, int64_t count) {
      const std::vector<float> values =
          read_weights(layout, parameter, trained.arguments, {first, count});
      const data::SafetensorsTensor piece{{.name = info.name, .shape = {}},
                                          std::as_bytes(std::span(values))};
      if (trains) data::require_finite(piece);
      append_converted(piece, info.dtype, writer);
    });
  };
  write_hf_folder(to, {.files = {config_text(trained, dtype), trained.files.others},
                       .tensors = tensors,
                       .append_data = append_data,
                       .max_shard_bytes = max_shard_bytes});
}

}  // namespace longshore::trainer
