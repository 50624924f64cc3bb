#include "longshore/trainer/weights/gguf_adapter.h"

#include <cmath>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/trainer/weights/gguf_metadata.h"

namespace longshore::trainer {
namespace {

using models::WeightAdapter;
using offload::Parameter;

// Whether llama.cpp's A is B transposed, and its B the other: it knows matrices as [out,in] alone.
bool is_swapped(const GgufTensor& tensor) {
  return tensor.parts[0]->weight.adapter->transposed != tensor.transposed;
}

}  // namespace

GgufAdapter::GgufAdapter(const std::filesystem::path& adapter,
                         const offload::ParameterLayout& layout,
                         std::span<const GgufTensor> tensors)
    : folder_(adapter), layout_(layout), adapter_(adapter, layout) {
  std::set<std::string> held;
  for (const GgufTensor& tensor : tensors) {
    if (tensor.parts.empty() || !tensor.parts[0]->weight.adapter) continue;
    adapted_.push_back(&tensor);
    const WeightAdapter& first = *tensor.parts[0]->weight.adapter;
    const models::Shape &a = named(first.a).type.shape, &b = named(first.b).type.shape;
    const int64_t rank = b.back();
    std::vector<int64_t> of_a(tensor.shape), of_b(tensor.shape);
    of_a.end()[-2] = rank;
    of_b.end()[-1] = rank;
    tensors_.push_back({tensor.name + ".lora_a", of_a});
    tensors_.push_back({tensor.name + ".lora_b", of_b});
    if (alpha_ == 0) alpha_ = first.scale * static_cast<double>(rank);
    for (const Parameter* part : tensor.parts) {
      const WeightAdapter& names = part->weight.adapter.value();
      if (names.a != first.a || a.rank() != b.rank())
        throw InternalError(tensor.name + ": its parts have no adapter in common");
      held.insert({names.a, names.b});
    }
  }
  ProblemList beyond;
  for (const offload::Bucket& bucket : layout.buckets)
    for (const Parameter& parameter : bucket.parameters)
      if (parameter.weight.of_adapter && !held.contains(parameter.name)) beyond.add(parameter.name);
  if (!beyond.empty())
    throw DataError(path_text(adapter) +
                    ": has what no adapter file of llama.cpp can hold, expected it to be merged "
                    "into the model:\n  " +
                    beyond.text());
  if (alpha_ == 0) alpha_ = 1;
  gguf_number(path_text(adapter / "adapter_config.json") + ": lora_alpha", alpha_);
}

const Parameter& GgufAdapter::named(const std::string& name) const {
  return layout_.parameter(layout_.by_name.at(name));
}

std::vector<float> GgufAdapter::read(const Parameter& factor) const {
  std::vector<float> values(static_cast<size_t>(factor.type.shape.count()));
  adapter_.read(factor, 0, values);
  return values;
}

std::vector<float> GgufAdapter::values(size_t number) const {
  const GgufTensor& tensor = *adapted_[number / 2];
  const bool wants_b = number % 2 == 1, swaps = is_swapped(tensor);
  auto factor_of = [&](const Parameter& part) {
    const WeightAdapter& names = *part.weight.adapter;
    const Parameter& factor = named(wants_b != swaps ? names.b : names.a);
    std::vector<float> numbers = read(factor);
    const models::Shape& shape = factor.type.shape;
    return swaps ? transposed(numbers, shape[shape.rank() - 2], shape.back()) : numbers;
  };
  if (!wants_b) return factor_of(*tensor.parts[0]);
  std::vector<float> values;
  for (const Parameter* part : tensor.parts) {
    const std::vector<float> some = factor_of(*part);
    values.insert(values.end(), some.begin(), some.end());
  }
  const int64_t rank = tensors_[number].shape.back();
  if (tensor.turned_head > 0) values = turned(values, tensor.turned_head, rank);
  const double scale = tensor.parts[0]->weight.adapter->scale * tensor.factor;
  constexpr double kRounding = 1e-9;
  if (const double by = scale * static_cast<double>(rank) / alpha_; std::abs(by - 1) > kRounding)
    for (float& value : values) {
      const bool was_finite = std::isfinite(value);
      value = static_cast<float>(value * by);
      if (was_finite && !std::isfinite(value))
        throw DataError(path_text(folder_) + ": tensor " + in_quotes(tensors_[number].name) +
                        ": found values beyond what float32 can hold, once they are scaled; "
                        "expected it to be merged into the model");
    }
  return values;
}

}  // namespace longshore::trainer
