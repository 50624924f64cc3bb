// Loss on held-out text: a forward plan on the weights being trained.
#pragma once

#include "data/batches.h"
#include "offload/executor.h"

namespace longshore::trainer {

// Nats a token over the micro-batches [0, count) of `batches`.
double evaluate(offload::Executable& plan, const data::BatchSource& batches, int64_t count,
                offload::Backend& backend, offload::Arguments& arguments, offload::Ledger& ledger);

}  // namespace longshore::trainer
