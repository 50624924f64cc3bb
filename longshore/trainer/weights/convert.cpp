#include "longshore/trainer/weights/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/weights/merged_weights.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/source_model.h"
#include "longshore/trainer/weights/stored_weights.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using data::SafetensorsDtype;
using offload::Parameter;

std::string hf_name(SafetensorsDtype dtype) {
  switch (dtype) {
    case SafetensorsDtype::float32:
      return "float32";
    case SafetensorsDtype::bfloat16:
      return "bfloat16";
    case SafetensorsDtype::float16:
      return "float16";
    default:
      throw InternalError(std::string("nothing is converted to ") + data::name(dtype));
  }
}

// The base model's tensors, the first layer's before the second's; what is no parameter (a tied
// model's lm_head) at the end.
std::vector<std::string> in_order(const offload::ParameterLayout& layout,
                                  const StoredWeights& weights) {
  const SavedTensors saved(layout, SavedIn::model);
  std::vector<std::string> names;
  for (const SavedTensor& tensor : saved.all()) names.push_back(tensor.name);
  for (const std::string& name : weights.names())
    if (!saved.find(name)) names.push_back(name);
  return names;
}

// A piece of a tensor, as the dtype that is wanted.
void append_floats(const data::SafetensorsInfo& info, std::span<const float> values,
                   data::SafetensorsWriter& writer) {
  const data::SafetensorsInfo wide{
      .name = info.name, .dtype = SafetensorsDtype::float32, .shape = {}};
  append_converted({wide, std::as_bytes(values)}, info.dtype, writer);
}

void append_dequantized(const StoredWeights& weights, const data::SafetensorsInfo& info,
                        data::SafetensorsWriter& writer) {
  for_each_piece(info.element_count(), kWeightPieceElements, [&](int64_t first, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    weights.read(info.name, first, values);
    append_floats(info, values, writer);
  });
}

void append_merged(MergedWeights& merged, const data::SafetensorsInfo& info,
                   data::SafetensorsWriter& writer) {
  MergedWeights::Reader reader(merged);
  merged.saved().find(info.name)->for_each_piece(
      kWeightPieceElements,
      [&](const Parameter& parameter, int64_t first, int64_t count) {
        return reader.read(parameter, first, count);
      },
      [&](std::span<const float> values) { append_floats(info, values, writer); });
}

// What is written of each tensor.
std::vector<data::SafetensorsInfo> converted_infos(const std::vector<std::string>& names,
                                                   const StoredWeights& weights,
                                                   std::optional<SafetensorsDtype> dtype) {
  std::vector<data::SafetensorsInfo> infos;
  for (const std::string& name : names) {
    infos.push_back(weights.info(name));
    if (dtype) infos.back().dtype = *dtype;
  }
  return infos;
}

// A sum is float32, which F64 would only seem to be more precise than.
void check_merged_dtypes(const fs::path& folder, const MergedWeights& merge,
                         std::span<const data::SafetensorsInfo> tensors) {
  for (const data::SafetensorsInfo& info : tensors)
    if (merge.changes(info.name) && info.dtype == SafetensorsDtype::float64)
      throw DataError(
          fmt::format("{}: {} is F64, which an adapter is not merged into; expected "
                      "--dtype float32, bfloat16 or float16",
                      path_text(folder), info.name));
}

std::string summary(const fs::path& to, std::span<const data::SafetensorsInfo> tensors) {
  std::set<std::string> dtypes;
  int64_t bytes = 0;
  for (const data::SafetensorsInfo& info : tensors) {
    dtypes.insert(data::name(info.dtype));
    bytes += info.bytes();
  }
  return fmt::format("{}: {}, {:.1f} MB of {}", path_text(to),
                     plural(std::ssize(tensors), "tensor"), static_cast<double>(bytes) / 1e6,
                     fmt::join(dtypes, ", "));
}

}  // namespace

std::string convert(const Conversion& conversion) {
  const SourceModel source({.from = conversion.from,
                            .run = conversion.run,
                            .adapter = conversion.adapter,
                            .unknown_keys = conversion.unknown_keys,
                            .images = conversion.images});
  const StoredWeights weights = source.weights();
  ModelFiles files = source.files();
  if (conversion.dtype)
    files.config = models::with_hf_dtype(files.config, hf_name(*conversion.dtype));
  if (weights.has_quantized()) files.config = models::without_hf_quantization(files.config);
  const std::vector<data::SafetensorsInfo> tensors =
      converted_infos(in_order(source.layout(), weights), weights, conversion.dtype);
  std::optional<MergedWeights> merge;
  if (!source.adapter().empty()) {
    merge.emplace(source.adapter(), source.config().decoder, source.layout(), weights);
    check_merged_dtypes(source.folder(), *merge, tensors);
  }

  const StopSignal listening;
  int64_t elements = 0;
  for (const data::SafetensorsInfo& info : tensors) elements += info.element_count();
  Progress progress("writing weights", elements);
  auto append_data = [&](const data::SafetensorsInfo& info, data::SafetensorsWriter& writer) {
    if (StopSignal::is_there())
      throw Error(path_text(conversion.to) + ": " + StopSignal::name() +
                  " ended the conversion; nothing is left of it");
    const data::SafetensorsTensor* tensor = weights.find_plain(info.name);
    if (merge && (merge->changes(info.name) || merge->dequantizes(info.name)))
      append_merged(*merge, info, writer);
    else if (tensor)
      append_converted(*tensor, info.dtype, writer);
    else
      append_dequantized(weights, info, writer);
    progress.add(info.element_count());
  };
  write_hf_folder(conversion.to, {.files = std::move(files),
                                  .tensors = tensors,
                                  .append_data = append_data,
                                  .max_shard_bytes = conversion.max_shard_bytes});
  std::string said = summary(conversion.to, tensors);
  if (merge)
    said += fmt::format(
        "; {} of them merged with {}",
        std::ranges::count_if(tensors, [&](const auto& info) { return merge->changes(info.name); }),
        path_text(source.adapter()));
  if (merge && source.frozen())
    said += fmt::format("; frozen weights are what {} made of them", name(source.frozen()->format));
  if (const std::string ignored = unknown_keys_text(source.config()); !ignored.empty())
    said += "; " + ignored;
  if (const std::string left_out = weights.left_out_text(); !left_out.empty())
    said += "; " + left_out;
  return said;
}

}  // namespace longshore::trainer
