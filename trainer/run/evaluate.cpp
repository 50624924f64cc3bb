#include "trainer/run/evaluate.h"

#include "offload/lowering/scan.h"
#include "trainer/step/batch_arguments.h"

namespace longshore::trainer {

std::optional<LossSum> evaluate(offload::Executable& plan, const data::BatchSource& batches,
                                int64_t count, offload::Backend& backend,
                                offload::Arguments& arguments, offload::Ledger& ledger,
                                World& world, const std::function<bool()>& stops) {
  LossSum sum;
  for (int64_t i = 0; i < count; ++i) {
    if (stops()) return std::nullopt;
    data::Batch batch = batches(i);
    write_batch(batch, arguments);
    plan.run(ledger);
    backend.synchronize();
    float batch_loss;
    arguments.read(offload::host_name(offload::kLoss), &batch_loss, sizeof batch_loss);
    sum.nats += batch_loss;
    sum.tokens += world.sum(batch.total_weights);
  }
  return sum;
}

}  // namespace longshore::trainer
