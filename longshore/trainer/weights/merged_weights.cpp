#include "longshore/trainer/weights/merged_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/models/families/decoder.h"

namespace longshore::trainer {
namespace {

using offload::Parameter;

// The adapter is too large for float32 otherwise.
void require_finite_sums(const std::string& weight, std::span<const float> before,
                         std::span<const float> after) {
  for (size_t i = 0; i < before.size(); ++i)
    if (std::isfinite(before[i]) && !std::isfinite(after[i]))
      throw DataError(
          fmt::format("tensor {}: found {} where {} was and the adapter is added, expected finite "
                      "values: it is beyond what float32 can hold",
                      in_quotes(weight), after[i], before[i]));
}

}  // namespace

MergedWeights::MergedWeights(const std::filesystem::path& adapter,
                             const models::DecoderConfig& model,
                             const offload::ParameterLayout& layout, const StoredWeights& weights)
    : embedding_(decoder_prefix(model) + "model.embed_tokens.weight"),
      tokens_(model.lora.trained_tokens),
      layout_(layout),
      saved_(layout, SavedIn::model),
      numbers_(weights, saved_),
      adapter_(adapter, layout) {}

template <class Is>
bool MergedWeights::has_any(const std::string& name, Is is) const {
  const SavedTensor* tensor = saved_.find(name);
  return tensor && std::ranges::any_of(tensor->parts, [&](const SavedPart& part) {
           return is(part.parameter->weight);
         });
}

bool MergedWeights::changes(const std::string& name) const {
  return has_any(name,
                 [](const models::Weight& weight) {
                   return weight.adapter.has_value() || weight.of_adapter;
                 }) ||
         (name == embedding_ && !tokens_.empty());
}

bool MergedWeights::dequantizes(const std::string& name) const {
  return has_any(name, [](const models::Weight& weight) { return weight.quantized.has_value(); });
}

void MergedWeights::read_base(const Parameter& parameter, int64_t first, std::span<float> values) {
  numbers_.read(layout_.bucket(layout_.by_name.at(parameter.name)), parameter, first, values);
}

// Of elements of the embedding from `first` on, those of tokens that have rows of their own.
void MergedWeights::put_token_rows(int64_t first, std::span<float> values) const {
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

std::vector<float> MergedWeights::Reader::read(const Parameter& parameter, int64_t first,
                                               int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  if (parameter.weight.of_adapter) {
    weights_.adapter_.read(parameter, first, values);
    return values;
  }
  weights_.read_base(parameter, first, values);
  if (parameter.name == weights_.embedding_) weights_.put_token_rows(first, values);
  if (!parameter.weight.adapter) return values;
  std::vector<float> sums = merged(values, factors_of(parameter).pair(), first);
  require_finite_sums(parameter.name, values, sums);
  return sums;
}

LoraPair MergedWeights::Reader::Factors::pair() const {
  LoraPair pair = sizes;
  pair.a = a;
  pair.b = b;
  return pair;
}

// Each row's magnitude by the length of the row's sum.
std::vector<float> MergedWeights::Reader::row_factors(const Parameter& parameter,
                                                      const Factors& factors) {
  const offload::ParameterLayout& layout = weights_.layout_;
  const Parameter& magnitudes =
      layout.parameter(layout.by_name.at(parameter.weight.adapter->magnitudes));
  std::vector<float> result(static_cast<size_t>(magnitudes.type.shape.count()));
  weights_.adapter_.read(magnitudes, 0, result);
  const int64_t columns = parameter.numbers().shape.back();
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t first = 0; float& factor : result) {
    weights_.read_base(parameter, first, row);
    double squares = 0;
    for (const float value : merged(row, factors.pair(), first)) squares += double{value} * value;
    factor = static_cast<float>(factor / std::sqrt(squares));
    first += columns;
  }
  return result;
}

const MergedWeights::Reader::Factors& MergedWeights::Reader::factors_of(
    const Parameter& parameter) {
  if (const auto found = factors_.find(parameter.name); found != factors_.end())
    return found->second;
  const models::WeightAdapter& names = parameter.weight.adapter.value();
  const offload::ParameterLayout& layout = weights_.layout_;
  auto named = [&](const std::string& name) -> const Parameter& {
    return layout.parameter(layout.by_name.at(name));
  };
  auto read = [&](const Parameter& factor) {
    std::vector<float> values(static_cast<size_t>(factor.type.shape.count()));
    weights_.adapter_.read(factor, 0, values);
    return values;
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
  return factors_.emplace(parameter.name, std::move(factors)).first->second;
}

}  // namespace longshore::trainer
