// batch_schema() says what models read of each micro-batch, and write_batch() puts it into the
// pinned host arguments that plans read it from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "longshore/data/rows/batches.h"
#include "longshore/models/ir/model.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::trainer {

// None for a type of which data gives no values.
std::optional<data::Element> element_of(models::Dtype dtype);

// What the model reads of micro-batches of that shape, in the order of its stages. Throws
// InternalError for an input of another number of rows, or of values that data does not give.
data::BatchSchema batch_schema(const models::Model& model, data::BatchShape shape);

// Puts a batch into the parts of the arguments that the plan of that micro-batch reads.
void write_batch(const data::Batch& batch, offload::Arguments& arguments, int64_t micro_batch = 0);

// The argument to read a batch input from, by the input's name.
using RenameInput = std::function<std::string(const std::string& input)>;
// For plans that do not share their batch with others.
void rename_batch(offload::Plan& plan, const models::Model& model, const RenameInput& new_name);

}  // namespace longshore::trainer
