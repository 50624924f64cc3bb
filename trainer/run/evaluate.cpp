#include "trainer/run/evaluate.h"

#include "offload/lowering/scan.h"
#include "trainer/step/batch_arguments.h"

namespace longshore::trainer {

std::optional<double> evaluate(offload::Executable& plan, const data::BatchSource& batches,
                               int64_t count, offload::Backend& backend,
                               offload::Arguments& arguments, offload::Ledger& ledger, World& world,
                               const std::function<bool()>& stops) {
  double loss = 0;
  int64_t weights = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stops()) return std::nullopt;
    data::Batch batch = batches(i);
    write_batch(batch, arguments);
    plan.run(ledger);
    backend.synchronize();
    float batch_loss;
    arguments.read(offload::host_name(offload::kLoss), &batch_loss, sizeof batch_loss);
    loss += batch_loss;
    weights += world.sum(batch.total_weights);
  }
  return loss / weights;
}

}  // namespace longshore::trainer
