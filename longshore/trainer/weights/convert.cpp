#include "longshore/trainer/weights/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
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
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/chat_template.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/run_weights.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_numbers.h"
#include "longshore/trainer/weights/stored_weights.h"
#include "longshore/trainer/weights/text_files.h"

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

// Throws a DataError where a weight is finite and its sum with the adapter is not: the adapter is
// too large for float32.
void require_finite_sums(const std::string& weight, std::span<const float> before,
                         std::span<const float> after) {
  for (size_t i = 0; i < before.size(); ++i)
    if (std::isfinite(before[i]) && !std::isfinite(after[i]))
      throw DataError(
          fmt::format("tensor {}: found {} where {} was and the adapter is added, expected finite "
                      "values: it is beyond what float32 can hold",
                      in_quotes(weight), after[i], before[i]));
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

// An adapter on its way into the weights it belongs to.
class Merge {
 public:
  // All outlive it.
  Merge(const fs::path& folder, const models::DecoderConfig& model,
        const offload::ParameterLayout& layout, const StoredWeights& weights)
      : embedding_(decoder_prefix(model) + "model.embed_tokens.weight"),
        tokens_(model.lora.trained_tokens),
        layout_(layout),
        saved_(layout, SavedIn::model),
        numbers_(weights, saved_),
        adapter_(folder, layout) {}

  // A module's bias stays as it is.
  bool changes(const std::string& name) const {
    return has_any(name,
                   [](const models::Weight& weight) {
                     return weight.adapter.has_value() || weight.of_adapter;
                   }) ||
           (name == embedding_ && !tokens_.empty());
  }

  // Whether training had it in fewer bits.
  bool dequantizes(const std::string& name) const {
    return has_any(name, [](const models::Weight& weight) { return weight.quantized.has_value(); });
  }

  void append(const data::SafetensorsInfo& weight, data::SafetensorsWriter& writer) {
    std::map<std::string, Factors> read;  // of the tensor's parameters
    saved_.find(weight.name)
        ->for_each_piece(
            kWeightPieceElements,
            [&](const Parameter& parameter, int64_t first, int64_t count) {
              std::vector<float> values(static_cast<size_t>(count));
              if (parameter.weight.of_adapter) {
                adapter_.read(parameter, first, values);
                return values;
              }
              read_base(parameter, first, values);
              if (parameter.name == embedding_) put_token_rows(first, values);
              if (!parameter.weight.adapter) return values;
              auto factors = read.find(parameter.name);
              if (factors == read.end())
                factors = read.emplace(parameter.name, factors_of(parameter)).first;
              const std::vector<float> sums = merged(values, factors->second.pair(), first);
              require_finite_sums(weight.name, values, sums);
              return sums;
            },
            [&](std::span<const float> values) { append_floats(weight, values, writer); });
  }

 private:
  template <class Is>
  bool has_any(const std::string& name, Is is) const {
    const SavedTensor* tensor = saved_.find(name);
    return tensor && std::ranges::any_of(tensor->parts, [&](const SavedPart& part) {
             return is(part.parameter->weight);
           });
  }

  // A and B, which are narrow, of all of a parameter's matrices.
  struct Factors {
    std::vector<float> a, b;
    LoraPair sizes;

    LoraPair pair() const {
      LoraPair pair = sizes;
      pair.a = a;
      pair.b = b;
      return pair;
    }
  };

  void read_base(const Parameter& parameter, int64_t first, std::span<float> values) {
    numbers_.read(layout_.bucket(layout_.by_name.at(parameter.name)), parameter, first, values);
  }

  // Of elements of the embedding from `first` on, those of tokens that have rows of their own.
  void put_token_rows(int64_t first, std::span<float> values) const {
    if (tokens_.empty()) return;
    const Parameter& rows = layout_.parameter(layout_.by_name.at(
        models::trained_tokens_name(embedding_.substr(0, embedding_.rfind(".weight")))));
    const int64_t width = rows.type.shape.back();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const int64_t begin = tokens_[i] * width - first;
      const auto [from, count] = offload::common({0, std::ssize(values)}, {begin, width});
      if (count > 0)
        adapter_.read(rows, static_cast<int64_t>(i) * width + from - begin,
                      values.subspan(static_cast<size_t>(from), static_cast<size_t>(count)));
    }
  }

  // Each row's magnitude by the length of the row's sum.
  std::vector<float> row_factors(const Parameter& parameter, const Factors& factors) {
    const std::string& name = parameter.weight.adapter->magnitudes;
    const Parameter& magnitudes = layout_.parameter(layout_.by_name.at(name));
    std::vector<float> result(static_cast<size_t>(magnitudes.type.shape.count()));
    adapter_.read(magnitudes, 0, result);
    const int64_t columns = parameter.numbers().shape.back();
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t first = 0; float& factor : result) {
      read_base(parameter, first, row);
      double squares = 0;
      for (const float value : merged(row, factors.pair(), first)) squares += double{value} * value;
      factor = static_cast<float>(factor / std::sqrt(squares));
      first += columns;
    }
    return result;
  }

  Factors factors_of(const Parameter& parameter) {
    const models::WeightAdapter& names = parameter.weight.adapter.value();
    auto read = [&](const Parameter& factor) {
      std::vector<float> values(static_cast<size_t>(factor.type.shape.count()));
      adapter_.read(factor, 0, values);
      return values;
    };
    auto named = [&](const std::string& name) -> const Parameter& {
      return layout_.parameter(layout_.by_name.at(name));
    };
    const models::Shape& shape = named(names.b).type.shape;  // [p,rank], [E,p,rank]
    Factors factors{.a = read(named(names.a)),
                    .b = read(named(names.b)),
                    .sizes = {.a = {},
                              .b = {},
                              .rank = shape.back(),
                              .scale = names.scale,
                              .matrices = parameter.numbers().shape.rank() == 3 ? shape[0] : 1,
                              .transposed = names.transposed}};
    if (!names.magnitudes.empty()) factors.sizes.row_factors = row_factors(parameter, factors);
    return factors;
  }

  std::string embedding_;
  std::vector<int64_t> tokens_;
  const offload::ParameterLayout& layout_;
  SavedTensors saved_;
  StoredNumbers numbers_;
  Adapter adapter_;
};

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
void check_merged_dtypes(const fs::path& folder, const Merge& merge,
                         std::span<const data::SafetensorsInfo> tensors) {
  for (const data::SafetensorsInfo& info : tensors)
    if (merge.changes(info.name) && info.dtype == SafetensorsDtype::float64)
      throw DataError(
          fmt::format("{}: {} is F64, which an adapter is not merged into; expected "
                      "--dtype float32, bfloat16 or float16",
                      path_text(folder), info.name));
}

// The folder that a run's adapter is for knows nothing of the run.
ModelFiles files_of_run(const RunWeights& trained) {
  ModelFiles files = read_model_files(trained.model, trained.tokenizer, trained.images);
  if (trained.turned_as) files.config = models::with_hf_rope(files.config, *trained.turned_as);
  const bool has_tokenizer =
      !fs::is_directory(trained.tokenizer) || data::tokenizer_file(trained.tokenizer);
  if (has_tokenizer) {
    const data::Tokenizer tokenizer(trained.tokenizer, trained.add_tokens);
    const auto chat_template = find_chat_template(trained, trained.chat_template, tokenizer);
    add_text_files(tokenizer, chat_template, TextEnds::of_model, files);
  }
  return files;
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

std::string convert(const Conversion& asked) {
  Conversion conversion = asked;
  ModelFiles files;
  std::optional<models::Quantization> frozen;
  AddedRows added_rows;
  if (conversion.run.empty()) {
    files = read_model_files(conversion.from, conversion.from, conversion.images);
  } else {
    const RunWeights trained = weights_of_run(conversion.run);
    files = files_of_run(trained);
    conversion.from = trained.model;
    conversion.adapter = trained.adapter;
    conversion.images = trained.images;
    frozen = trained.frozen;
    added_rows = trained.added_rows;
  }
  HfConfig config = read_hf_config(conversion.from, conversion.unknown_keys, conversion.images);
  if (added_rows.end() > config.decoder.vocabulary) {
    config.decoder.vocabulary = added_rows.end();
    files.config = models::with_hf_vocabulary(files.config, added_rows.end());
  }
  if (conversion.dtype)
    files.config = models::with_hf_dtype(files.config, hf_name(*conversion.dtype));
  const bool has_adapter = !conversion.adapter.empty();
  if (has_adapter)
    config.decoder.lora = read_adapter_config(conversion.adapter, adapter_base(config.decoder));
  config.decoder.lora.dropout = 0;  // of training alone
  models::Model model = models::decoder(config.decoder);
  if (frozen && has_adapter) quantize_weights(model, [&](const std::string&) { return frozen; });
  const offload::ParameterLayout layout = offload::lay_out(model);
  const StoredWeights weights(conversion.from, config.decoder, added_rows);
  check_tensors(conversion.from, layout, weights, config.decoder);
  if (weights.has_quantized()) files.config = models::without_hf_quantization(files.config);
  const std::vector<data::SafetensorsInfo> tensors =
      converted_infos(in_order(layout, weights), weights, conversion.dtype);
  std::optional<Merge> merge;
  if (has_adapter) {
    merge.emplace(conversion.adapter, config.decoder, layout, weights);
    check_merged_dtypes(conversion.from, *merge, tensors);
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
      merge->append(info, writer);
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
        path_text(conversion.adapter));
  if (merge && frozen)
    said += fmt::format("; frozen weights are what {} made of them", name(frozen->format));
  if (const std::string ignored = unknown_keys_text(config); !ignored.empty())
    said += "; " + ignored;
  if (const std::string left_out = weights.left_out_text(); !left_out.empty())
    said += "; " + left_out;
  return said;
}

}  // namespace longshore::trainer
