#include "trainer/weights/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/hf/weight_names.h"

namespace longshore::trainer {
namespace {

data::SafetensorsFolder opened(const std::filesystem::path& folder,
                               const models::DecoderConfig& model) {
  const auto naming = model.vision ? models::hf_image_weight_name : models::hf_weight_name;
  return data::SafetensorsFolder(folder, [&](std::string_view tensor) {
    const std::optional<std::string> name = naming(tensor);
    return name && models::is_unread_weight(model, *name) ? std::nullopt : name;
  });
}

}  // namespace

StoredWeights::StoredWeights(const std::filesystem::path& folder,
                             const models::DecoderConfig& model)
    : plain_(opened(folder, model)) {
  const std::string prefix = decoder_prefix(model), head = prefix + "lm_head.weight",
                    embeddings = prefix + "model.embed_tokens.weight";
  if (model.tied_embeddings && plain_.contains(head) && !plain_.contains(embeddings))
    plain_.rename(head, embeddings);
  for (const std::string& blocks : plain_.names()) {
    if (!blocks.ends_with(data::kMxfp4Blocks)) continue;
    const std::string name = blocks.substr(0, blocks.rfind(data::kMxfp4Blocks)),
                      scales = name + data::kMxfp4Scales;
    if (!plain_.contains(scales) || plain_.contains(name)) continue;
    try {
      quantized_.emplace(name, data::Mxfp4Tensor(plain_.at(blocks), plain_.at(scales)));
    } catch (const DataError& error) {
      throw DataError(path_text(folder) + ": " + error.what());
    }
  }
}

std::vector<std::string> StoredWeights::names() const {
  std::vector<std::string> names;
  for (const std::string& name : plain_.names()) {
    const auto is_part = [&](std::string_view ending) {
      return name.ends_with(ending) &&
             quantized_.contains(std::string_view(name).substr(0, name.size() - ending.size()));
    };
    if (!is_part(data::kMxfp4Blocks) && !is_part(data::kMxfp4Scales)) names.push_back(name);
  }
  for (const auto& [name, tensor] : quantized_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

bool StoredWeights::contains(std::string_view name) const {
  return quantized_.contains(name) || plain_.contains(name);
}

data::SafetensorsInfo StoredWeights::info(std::string_view name) const {
  const auto found = quantized_.find(name);
  return found == quantized_.end() ? plain_.at(name) : found->second.info();
}

const data::SafetensorsTensor* StoredWeights::find_plain(std::string_view name) const {
  return quantized_.contains(name) ? nullptr : &plain_.at(name);
}

data::NonFinite StoredWeights::read(std::string_view name, int64_t first, std::span<float> to,
                                    int64_t step) const {
  if (const auto found = quantized_.find(name); found != quantized_.end())
    return found->second.to_float32(first, to, step);
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
