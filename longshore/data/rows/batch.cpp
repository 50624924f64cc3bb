#include "longshore/data/rows/batch.h"

#include <algorithm>
#include <type_traits>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

template <class T>
std::vector<T>& values_of(Batch::Values& values, const std::string& name) {
  if (auto* held = std::get_if<std::vector<T>>(&values)) return *held;
  throw InternalError("batch input " + name + ": has values of another type");
}

template <class T>
T value_of(auto number) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

template <class T>
std::vector<T> padded(const BatchInput& input, int64_t rows) {
  std::vector<T> values(static_cast<size_t>(rows * input.per_row), value_of<T>(input.padding));
  if (!input.counts) return values;
  auto value = values.begin();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t place = 0; place < input.per_row; ++place)
      *value++ = value_of<T>(input.padding + place);
  return values;
}

int64_t bytes(Element element) { return element == Element::bfloat16 ? 2 : 4; }

}  // namespace

int64_t bytes(const BatchSchema& schema) {
  int64_t of_row = 0;
  for (const BatchInput& input : schema.inputs) of_row += input.per_row * bytes(input.element);
  return schema.shape.rows * of_row;
}

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
    Batch::Values& values = batch.inputs[input.name];
    switch (input.element) {
      case Element::int32:
        values = padded<int32_t>(input, schema.shape.rows);
        break;
      case Element::float32:
        values = padded<float>(input, schema.shape.rows);
        break;
      case Element::bfloat16:
        values = padded<bfloat16>(input, schema.shape.rows);
        break;
    }
  }
  return batch;
}

int64_t prompt_length(std::span<const uint8_t> carries_loss) {
  return std::ranges::find(carries_loss, 1) - carries_loss.begin();
}

void count_weights(Batch& batch, Counted counted) {
  batch.total_weights = batch.chosen_targets = 0;
  if (counted == Counted::targets) {
    if (batch.has(kTargets))
      batch.total_weights =
          std::ssize(batch[kTargets]) - std::ranges::count(batch[kTargets], kIgnoredTarget);
    return;
  }
  const std::vector<int32_t>&targets = batch[kTargets], &segments = batch[kSegments];
  const std::vector<int32_t>& predicted = batch.has(kNextTokens) ? batch[kNextTokens] : targets;
  const auto length = static_cast<size_t>(batch.shape.length);
  int32_t last = kPadding;  // the segment of the answer that was counted last
  for (size_t i = 0; i < segments.size(); ++i) {
    if (i % length == 0) last = kPadding;
    const int32_t segment = segments[i];
    const bool is_chosen = segment % 2 == 1;
    if (is_chosen && predicted[i] != kIgnoredTarget) ++batch.chosen_targets;
    if (segment == kPadding || segment == last || targets[i] == kIgnoredTarget) continue;
    const bool completes = !is_chosen && last == segment - 1;
    if (counted == Counted::answers || completes) ++batch.total_weights;
    last = segment;
  }
}

template <class T>
std::span<T> Row::part(std::vector<T>& values) const {
  const size_t per_row = values.size() / static_cast<size_t>(batch_.shape.rows);
  return std::span(values).subspan(static_cast<size_t>(number_) * per_row, per_row);
}

int64_t Row::per_row(const std::string& name) const {
  const auto found = batch_.inputs.find(name);
  if (found == batch_.inputs.end()) return 0;
  return std::visit([&](const auto& values) { return std::ssize(values) / batch_.shape.rows; },
                    found->second);
}

std::span<int32_t> Row::operator[](const std::string& name) const {
  const auto found = batch_.inputs.find(name);
  if (found == batch_.inputs.end()) return {};
  return part(values_of<int32_t>(found->second, name));
}

void Row::write(const std::string& name, int64_t at, std::span<const float> values) const {
  const auto found = batch_.inputs.find(name);
  if (found == batch_.inputs.end()) return;
  auto write_into = [&](auto& held) {
    using T = typename std::decay_t<decltype(held)>::value_type;
    if constexpr (std::is_same_v<T, int32_t>)
      throw InternalError("batch input " + name + ": has no floating-point values");
    else
      std::ranges::transform(values, part(held).subspan(static_cast<size_t>(at)).begin(),
                             [](float value) { return value_of<T>(value); });
  };
  std::visit(write_into, found->second);
}

void Row::put(int64_t at, int32_t segment, std::span<const int32_t> sequence,
              std::span<const uint8_t> carries_loss) const {
  auto fill = [&](const char* name, auto value) {
    if (const std::span<int32_t> values = (*this)[name]; !values.empty())
      for (size_t i = 0; i + 1 < sequence.size(); ++i)
        values[static_cast<size_t>(at) + i] = value(i);
  };
  fill(kTokens, [&](size_t i) { return sequence[i]; });
  fill(kTargets, [&](size_t i) { return carries_loss[i + 1] ? sequence[i + 1] : kIgnoredTarget; });
  fill(kNextTokens, [&](size_t i) { return sequence[i + 1]; });
  fill(kPositions, [&](size_t i) { return static_cast<int32_t>(i); });
  fill(kSegments, [&](size_t) { return segment; });
}

}  // namespace longshore::data
