#include "longshore/trainer/step/batch_arguments.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/offload/lowering/pass_operands.h"
#include "longshore/offload/memory/alignment.h"

namespace longshore::trainer {

static_assert(data::kIgnoredTarget == models::kIgnoredTarget);
static_assert(std::string_view(data::kNextTokens) == models::kNextTokens);
static_assert(std::string_view(data::kTeacherTokens) == models::kTeacherTokens);
static_assert(std::string_view(data::kTeacherLogProbs) == models::kTeacherLogProbs);
static_assert(std::string_view(data::kAdvantages) == models::kAdvantages);
static_assert(std::string_view(data::kOldLogProbs) == models::kOldLogProbs);
static_assert(std::string_view(data::kReferenceLogProbs) == models::kReferenceLogProbs);

std::optional<data::Element> element_of(models::Dtype dtype) {
  switch (dtype) {
    case models::Dtype::int32:
      return data::Element::int32;
    case models::Dtype::float32:
      return data::Element::float32;
    case models::Dtype::bfloat16:
      return data::Element::bfloat16;
    default:
      return std::nullopt;
  }
}

namespace {

data::BatchInput input_of(const models::Value& value, int64_t rows) {
  const std::optional<data::Element> element = element_of(value.type.dtype);
  const int64_t count = value.type.shape.count();
  if (!element || count % rows != 0)
    throw InternalError("batch input " + value.name + ": found " + models::text(value.type) +
                        ", expected i32, f32 or bf16 values of " + std::to_string(rows) + " rows");
  return {.name = value.name,
          .element = *element,
          .per_row = count / rows,
          .padding = value.padding.value,
          .counts = value.padding.counts};
}

// Calls `use` with each batch input of the model, which several programs may read.
template <class Use>
void for_each_input(const models::Model& model, Use use) {
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (models::ValueId id : program.inputs_from(models::Source::batch)) use(program[id]);
}

}  // namespace

data::BatchSchema batch_schema(const models::Model& model, data::BatchShape shape) {
  data::BatchSchema schema{shape, {}};
  for_each_input(model, [&](const models::Value& value) {
    if (std::ranges::find(schema.inputs, value.name, &data::BatchInput::name) ==
        schema.inputs.end())
      schema.inputs.push_back(input_of(value, shape.rows));
  });
  return schema;
}

void write_batch(const data::Batch& batch, offload::Arguments& arguments, int64_t micro_batch) {
  for (const auto& [name, input] : batch.inputs) {
    const std::string host = offload::host_name(name);
    if (!arguments.has(host)) continue;  // this plan does not read it
    std::visit(
        [&](const auto& values) {
          const auto bytes = static_cast<int64_t>(values.size() * sizeof values[0]);
          arguments.write_part(host, micro_batch * offload::align_up(bytes), values.data(), bytes);
        },
        input);
  }
}

void rename_batch(offload::Plan& plan, const models::Model& model, const RenameInput& new_name) {
  std::map<std::string, std::string> names;
  for_each_input(model, [&](const models::Value& value) {
    names[offload::host_name(value.name)] = new_name(value.name);
  });
  for (offload::Buffer& buffer : plan.buffers)
    if (auto name = names.find(buffer.name);
        name != names.end() && buffer.owner == offload::Owner::caller)
      buffer.name = name->second;
}

}  // namespace longshore::trainer
