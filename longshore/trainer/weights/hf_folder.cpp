#include "longshore/trainer/weights/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/atomic_folder.h"
#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/text.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/saved_tensors.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

std::string head_of(const models::DecoderConfig& model) {
  return decoder_prefix(model) + "lm_head.weight";
}
std::string embeddings_of(const models::DecoderConfig& model) {
  return decoder_prefix(model) + "model.embed_tokens.weight";
}

// transformers 5 computes with both, older releases with the embeddings alone.
bool is_copy_of_embeddings(const models::DecoderConfig& model, const StoredWeights& weights) {
  return !weights.contains(embeddings_of(model)) ||  // which is said elsewhere
         weights.are_alike(head_of(model), embeddings_of(model));
}

}  // namespace

std::vector<fs::path> model_files(const fs::path& folder) {
  std::vector<fs::path> files = data::safetensors_files(folder);
  files.push_back(folder / kHfConfigFile);
  return files;
}

void check_tensors(const fs::path& folder, const offload::ParameterLayout& layout,
                   const StoredWeights& weights, const models::DecoderConfig& model) {
  const std::vector<std::string> names = weights.names();
  ProblemList problems;
  const SavedTensors expected(layout, SavedIn::model);
  for (const SavedTensor& tensor : expected.all()) {
    const std::string& name = tensor.name;
    if (!weights.contains(name)) {
      // A hostile config.json can make all of its names be missing.
      std::string close = problems.is_full() ? "" : nearest(name, names);
      problems.add("missing " + name + nearest_help(close));
    } else if (weights.info(name).shape != tensor.shape.sizes()) {
      std::string shape;
      for (int64_t size : weights.info(name).shape)
        shape += (shape.empty() ? "" : ",") + std::to_string(size);
      problems.add(
          fmt::format("{} is [{}], expected {}", excerpt(name), shape,
                      models::text({tensor.shape, tensor.parts[0].parameter->type.dtype})));
    }
  }
  for (const std::string& name : names) {
    const data::SafetensorsDtype dtype = weights.info(name).dtype;
    const bool is_weight = expected.find(name) != nullptr;
    const bool is_tied_head = model.tied_embeddings && name == head_of(model);
    if (!is_weight && !is_tied_head)
      problems.add("not expected: " + excerpt(name));
    else if (!data::is_floating_point(dtype))
      problems.add(fmt::format("{} is {}, expected F32, BF16, F16 or F64", excerpt(name),
                               data::name(dtype)));
    else if (is_tied_head && !is_copy_of_embeddings(model, weights))
      problems.add(name + " differs from " + embeddings_of(model) +
                   ", expected a copy of it, or tie_word_embeddings: false");
  }
  if (!problems.empty())
    throw DataError(path_text(folder) + ": is not this model's:\n  " + problems.text());
  weights.require_finite_scales();
}

data::SafetensorsDtype file_dtype(models::Dtype dtype) {
  switch (dtype) {
    case models::Dtype::float32:
      return data::SafetensorsDtype::float32;
    case models::Dtype::bfloat16:
      return data::SafetensorsDtype::bfloat16;
    case models::Dtype::uint8:
      return data::SafetensorsDtype::uint8;
    default:
      throw InternalError(std::string("no file holds states in ") + models::name(dtype));
  }
}

void append_converted(const data::SafetensorsTensor& tensor, data::SafetensorsDtype dtype,
                      data::SafetensorsWriter& writer) {
  if (tensor.dtype == dtype) return writer.append(tensor.name, tensor.data);
  const int64_t from_bytes = size_bytes(tensor.dtype), to_bytes = size_bytes(dtype);
  std::vector<std::byte> converted;
  data::SafetensorsTensor piece = tensor;
  for_each_piece(std::ssize(tensor.data) / from_bytes, kWeightPieceElements,
                 [&](int64_t first, int64_t count) {
                   piece.data = tensor.data.subspan(static_cast<size_t>(first * from_bytes),
                                                    static_cast<size_t>(count * from_bytes));
                   converted.resize(static_cast<size_t>(count * to_bytes));
                   data::convert_floats(piece, dtype, converted);
                   writer.append(tensor.name, converted);
                 });
}

void write_hf_folder(const fs::path& to, const HfFolder& folder) {
  AtomicFolder output(to);
  write_file(output.directory() / kHfConfigFile, folder.files.config);
  write_others(folder.files, output.directory());
  data::write_safetensors_folder(output.directory(), folder.tensors, folder.max_shard_bytes,
                                 folder.append_data);
  output.finish();
}

}  // namespace longshore::trainer
