#include "longshore/trainer/weights/export_parameters.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/saved_tensors.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;
using models::Dtype;

bool turns_as(const models::DecoderConfig& one, const models::DecoderConfig& other) {
  const models::DecoderConfig a = with_defaults_written_out(one),
                              b = with_defaults_written_out(other);
  return a.rope_base == b.rope_base && a.rope_scaling == b.rope_scaling &&
         a.window_rope_base == b.window_rope_base &&
         (!one.max_position_embeddings ||
          one.max_position_embeddings == other.max_position_embeddings);
}

std::string config_text(const TrainedModel& trained, Dtype dtype) {
  if (std::string text = trained.files.config; !text.empty()) {
    // Where the run was told another than the folder that it began from has.
    const std::optional<int64_t> pad_token = trained.model.pad_token;
    const models::DecoderConfig described =
        models::parse_hf_config(text, models::UnknownKeys::ignore, models::Images::read);
    if (described.pad_token != pad_token) text = models::with_hf_pad_token(text, pad_token);
    if (described.vocabulary != trained.model.vocabulary)
      text = models::with_hf_vocabulary(text, trained.model.vocabulary);
    if (!turns_as(trained.model, described)) text = models::with_hf_rope(text, trained.model);
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
  const SavedTensors saved(layout, SavedIn::model);
  std::vector<data::SafetensorsInfo> tensors;
  for (const SavedTensor& tensor : saved.all())
    tensors.push_back(
        {.name = tensor.name, .dtype = file_dtype(dtype), .shape = tensor.shape.sizes()});
  auto trains = [&](const SavedPart& part) {
    return layout.bucket(layout.by_name.at(part.parameter->name)).trainable ==
           models::Trainable::yes;
  };
  auto append_data = [&](const data::SafetensorsInfo& info, data::SafetensorsWriter& writer) {
    const SavedTensor& tensor = *saved.find(info.name);
    const bool is_trained = std::ranges::any_of(tensor.parts, trains);
    tensor.for_each_piece(
        kWeightPieceElements,
        [&](const offload::Parameter& parameter, int64_t first, int64_t count) {
          return read_weights(layout, parameter, trained.arguments, {first, count});
        },
        [&](std::span<const float> values) {
          const data::SafetensorsTensor piece{{.name = info.name, .shape = {}},
                                              std::as_bytes(values)};
          if (is_trained) data::require_finite(piece);
          append_converted(piece, info.dtype, writer);
        });
  };
  write_hf_folder(to, {.files = {config_text(trained, dtype), trained.files.others},
                       .tensors = tensors,
                       .append_data = append_data,
                       .max_shard_bytes = max_shard_bytes});
}

}  // namespace longshore::trainer
