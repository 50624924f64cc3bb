#include "trainer/step/batch_arguments.h"

#include <map>
#include <vector>

#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "offload/lowering/pass_operands.h"
#include "offload/memory/alignment.h"

namespace longshore::trainer {

static_assert(data::kIgnoredTarget == models::kIgnoredTarget);

void write_batch(const data::Batch& batch, offload::Arguments& arguments, int64_t micro_batch) {
  auto write = [&](const char* name, const std::vector<int32_t>& values) {
    const std::string host = offload::host_name(name);
    if (!arguments.has(host)) return;
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
    arguments.write_part(host, micro_batch * offload::align_up(bytes), values.data(), bytes);
  };
  write("tokens", batch.tokens);
  write("positions", batch.positions);
  write("targets", batch.targets);
  write("segments", batch.segments);
}

void rename_batch(offload::Plan& plan, const models::Model& model, const RenameInput& new_name) {
  std::map<std::string, std::string> names;
  for (const models::Stage& stage : model.stages)
    for (const models::Program& program : stage.programs)
      for (models::ValueId id : program.inputs_from(models::Source::batch))
        names[offload::host_name(program[id].name)] = new_name(program[id].name);
  for (offload::Buffer& buffer : plan.buffers)
    if (auto name = names.find(buffer.name);
        name != names.end() && buffer.owner == offload::Owner::caller)
      buffer.name = name->second;
}

}  // namespace longshore::trainer
