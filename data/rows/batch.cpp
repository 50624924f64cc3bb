#include "data/rows/batch.h"

#include <numeric>

#include "base/error.h"

namespace longshore::data {
namespace {

template <class T>
std::vector<T>& values_of(Batch::Values& values, const std::string& name) {
  if (auto* held = std::get_if<std::vector<T>>(&values)) return *held;
  throw InternalError("batch input " + name + ": has values of another type");
}

template <class T>
std::vector<T> padded(const BatchInput& input, int64_t rows) {
  std::vector<T> values(static_cast<size_t>(rows * input.per_row), static_cast<T>(input.padding));
  for (int64_t row = 0; row < rows && input.counts; ++row) {
    const auto begin = values.begin() + row * input.per_row;
    std::iota(begin, begin + input.per_row, static_cast<T>(input.padding));
  }
  return values;
}

}  // namespace

BatchSchema::BatchSchema(BatchShape shape)
    : shape(shape),
      inputs{{.name = kTokens, .per_row = shape.length},
             {.name = kTargets, .per_row = shape.length, .padding = kIgnoredTarget},
             {.name = kPositions, .per_row = shape.length, .counts = true},
             {.name = kSegments, .per_row = shape.length, .padding = kPadding}} {}

std::vector<int32_t>& Batch::operator[](const std::string& name) {
  return values_of<int32_t>(inputs[name], name);
}

const std::vector<int32_t>& Batch::operator[](const std::string& name) const {
  if (!has(name)) throw InternalError("batch input " + name + ": is not there");
  return const_cast<Batch&>(*this)[name];
}

Batch padding(const BatchSchema& schema) {
  Batch batch{.shape = schema.shape};
  for (const BatchInput& input : schema.inputs) {
    if (input.element == Element::int32)
      batch.inputs[input.name] = padded<int32_t>(input, schema.shape.rows);
    else
      batch.inputs[input.name] = padded<float>(input, schema.shape.rows);
  }
  return batch;
}

template <class T>
std::span<T> Row::part(const std::string& name) const {
  const auto found = batch_.inputs.find(name);
  if (found == batch_.inputs.end()) return {};
  std::vector<T>& values = values_of<T>(found->second, name);
  const size_t per_row = values.size() / static_cast<size_t>(batch_.shape.rows);
  return std::span(values).subspan(static_cast<size_t>(number_) * per_row, per_row);
}
template std::span<int32_t> Row::part(const std::string& name) const;
template std::span<float> Row::part(const std::string& name) const;

void Row::put(int64_t at, int32_t segment, std::span<const int32_t> sequence,
              std::span<const uint8_t> carries_loss) const {
  auto fill = [&](const char* name, auto value) {
    if (const std::span<int32_t> values = (*this)[name]; !values.empty())
      for (size_t i = 0; i + 1 < sequence.size(); ++i)
        values[static_cast<size_t>(at) + i] = value(i);
  };
  fill(kTokens, [&](size_t i) { return sequence[i]; });
  fill(kTargets, [&](size_t i) { return carries_loss[i + 1] ? sequence[i + 1] : kIgnoredTarget; });
  fill(kPositions, [&](size_t i) { return static_cast<int32_t>(i); });
  fill(kSegments, [&](size_t) { return segment; });
}

}  // namespace longshore::data
