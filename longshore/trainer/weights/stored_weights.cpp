#include "longshore/trainer/weights/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/models/hf/weight_names.h"

namespace longshore::trainer {
namespace {

// Of what stands beside a weight in few bits the weight, by its name; else the name itself.
std::string weight_of(const std::string& tensor) {
  constexpr std::string_view kWeight = ".weight";
  for (const char* ending : {".SCB", ".weight_format", ".weight_scale_inv"})
    if (tensor.ends_with(ending)) return tensor.substr(0, tensor.rfind('.')) + std::string(kWeight);
  const size_t found = tensor.find(std::string(kWeight) + ".");
  return found == std::string::npos ? tensor : tensor.substr(0, found + kWeight.size());
}

data::SafetensorsFolder opened(const std::filesystem::path& folder,
                               const models::DecoderConfig& model) {
  const auto naming = model.vision ? models::hf_image_weight_name : models::hf_weight_name;
  return data::SafetensorsFolder(folder, [&](std::string_view tensor) {
    const std::optional<std::string> name = naming(tensor);
    return name && models::is_unread_weight(model, weight_of(*name)) ? std::nullopt : name;
  });
}

}  // namespace

StoredWeights::StoredWeights(const std::filesystem::path& folder,
                             const models::DecoderConfig& model, const AddedRows& added)
    : folder_(folder),
      plain_(opened(folder, model)),
      dtype_(model.dtype == models::Dtype::bfloat16 ? data::SafetensorsDtype::bfloat16
                                                    : data::SafetensorsDtype::float32) {
  const std::string prefix = decoder_prefix(model), head = prefix + "lm_head.weight",
                    embeddings = prefix + "model.embed_tokens.weight";
  if (model.tied_embeddings && plain_.contains(head) && !plain_.contains(embeddings))
    plain_.rename(head, embeddings);
  named([&] {
    for (const std::string& name : plain_.names()) {
      auto find = [&](std::string_view other) {
        return plain_.contains(other) ? &plain_.at(other) : nullptr;
      };
      if (const auto found = data::quantized_names(name, find)) {
        quantized_.emplace(name, data::QuantizedTensor(*found, find));
        parts_.insert(name);
        parts_.insert(found->companions.begin(), found->companions.end());
      } else if (name.ends_with(data::kMxfp4Blocks)) {
        add_mxfp4(name);
      }
    }
    if (added.count > 0)
      for (const std::string& matrix :
           {embeddings, head, prefix + "model.embed_tokens_per_layer.weight"})
        add_rows(matrix, added);
  });
}

template <class Look>
void StoredWeights::named(Look look) const {
  try {
    look();
  } catch (const DataError& error) {
    throw DataError(path_text(folder_) + ": " + error.what());
  }
}

void StoredWeights::add_mxfp4(const std::string& blocks) {
  const std::string name = blocks.substr(0, blocks.rfind(data::kMxfp4Blocks)),
                    scales = name + data::kMxfp4Scales;
  if (plain_.contains(name)) return;
  if (!plain_.contains(scales))
    throw DataError("tensor " + in_quotes(scales) + ": found none, expected the scales of " +
                    in_quotes(blocks));
  quantized_.emplace(name, data::Mxfp4Tensor(plain_.at(blocks), plain_.at(scales)));
  parts_.insert({blocks, scales});
}

void StoredWeights::add_rows(const std::string& matrix, const AddedRows& added) {
  if (quantized_.contains(matrix))
    throw DataError("tensor " + in_quotes(matrix) +
                    ": found in fewer bits, expected floating-point numbers for add_tokens");
  if (plain_.contains(matrix)) extended_.emplace(matrix, MatrixWithRows(plain_.at(matrix), added));
}

std::vector<std::string> StoredWeights::names() const {
  std::vector<std::string> names;
  for (const std::string& name : plain_.names())
    if (!parts_.contains(name)) names.push_back(name);
  for (const auto& [name, tensor] : quantized_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

bool StoredWeights::contains(std::string_view name) const {
  return quantized_.contains(name) || plain_.contains(name);
}

data::SafetensorsInfo StoredWeights::info(std::string_view name) const {
  if (const auto found = extended_.find(name); found != extended_.end())
    return found->second.info();
  const auto found = quantized_.find(name);
  if (found == quantized_.end()) return plain_.at(name);
  data::SafetensorsInfo info =
      std::visit([](const auto& tensor) { return tensor.info(); }, found->second);
  const auto* tensor = std::get_if<data::QuantizedTensor>(&found->second);
  if (tensor && !has_4_bits(tensor->matrix().format)) info.dtype = dtype_;
  return info;
}

std::optional<models::Quantization> StoredWeights::quantization(std::string_view name) const {
  const auto found = quantized_.find(name);
  if (found == quantized_.end()) return std::nullopt;
  return std::visit([](const auto& tensor) { return models::quantization_of(tensor.matrix()); },
                    found->second);
}

models::Quantizations StoredWeights::quantizations() const {
  models::Quantizations all;
  for (const auto& [name, tensor] : quantized_) all[name] = *quantization(name);
  return all;
}

void StoredWeights::copy(std::string_view name, const Rows& rows, const WriteBytes& write) const {
  const Quantized& tensor = quantized_.find(name)->second;
  named([&] {
    if (const auto* mxfp4 = std::get_if<data::Mxfp4Tensor>(&tensor))
      mxfp4->copy({.matrix = rows.number, .first = rows.first_row, .step = rows.row_step},
                  rows.matrix, write);
    else
      std::get<data::QuantizedTensor>(tensor).copy(rows.matrix, write);
  });
}

void StoredWeights::require_finite_scales() const {
  named([&] {
    for (const auto& [name, quantized] : quantized_)
      std::visit([](const auto& tensor) { tensor.require_finite_scales(); }, quantized);
  });
}

const data::SafetensorsTensor* StoredWeights::find_plain(std::string_view name) const {
  return quantized_.contains(name) || extended_.contains(name) ? nullptr : &plain_.at(name);
}

bool StoredWeights::are_alike(std::string_view one, std::string_view other) const {
  const data::SafetensorsTensor &a = plain_.at(one), &b = plain_.at(other);
  return a.dtype == b.dtype && std::ranges::equal(a.data, b.data);
}

data::NonFinite StoredWeights::read(std::string_view name, int64_t first, std::span<float> to,
                                    int64_t step) const {
  if (const auto found = quantized_.find(name); found != quantized_.end())
    return std::visit([&](const auto& tensor) { return tensor.to_float32(first, to, step); },
                      found->second);
  if (const auto found = extended_.find(name); found != extended_.end())
    return found->second.read(first, to, step);
  return data::to_float32(plain_.at(name), first, to, step);
}

std::string StoredWeights::left_out_text() const {
  std::vector<std::string> buffers, unread;
  for (const std::string& name : plain_.left_out()) {
    if (models::is_computed_buffer(name))
      buffers.push_back(name);
    else if (models::hf_weight_name(name))
      unread.push_back(name);
  }
  std::vector<std::string> said;
  auto say = [&](const std::vector<std::string>& names, const char* what, const char* why) {
    if (!names.empty())
      said.push_back(fmt::format("{} left out, since {}: {}{}", plural(std::ssize(names), what),
                                 why, in_quotes(names.front()), names.size() > 1 ? ", ..." : ""));
  };
  say(buffers, "buffer", "they are computed");
  say(unread, "tensor", "layers read the keys and values of earlier ones");
  return join(said, "; ");
}

}  // namespace longshore::trainer
