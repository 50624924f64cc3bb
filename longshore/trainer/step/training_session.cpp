#include "longshore/trainer/step/training_session.h"

#include <utility>

#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/load_parameters.h"

namespace longshore::trainer {
namespace {

using offload::MemoryKind;

// What was taken: arguments and temporaries from the ledger, arenas as allocated.
offload::MemoryAnalysis measured(const offload::Ledger& ledger, MemoryKind kind, int64_t arena,
                                 const offload::MemoryAnalysis& planned) {
  if (planned.peak_bytes == 0) return {};
  offload::MemoryAnalysis memory = planned;  // which of its caller's bytes a plan reads and writes
  int64_t pure_outputs = planned.output_bytes - planned.alias_bytes;
  memory.argument_bytes = ledger.now_bytes(kind) - pure_outputs;  // between steps these are left
  memory.temp_bytes = arena;
  memory.peak_bytes = ledger.now_bytes(kind) + arena;
  memory.live_bytes = ledger.peak_bytes(kind);
  memory.by_category = ledger.at_peak(kind);
  return memory;
}

// A CPU's allocations cost nothing, and each by itself shows what is written outside it.
int64_t device_argument_bytes(const MemoryByKind& planned, const offload::Backend& backend) {
  const offload::MemoryAnalysis& device = planned[MemoryKind::device];
  return models::is_cuda(backend.target()) ? device.peak_bytes - device.temp_bytes : 0;
}

}  // namespace

GiveFirstValues first_values(const Config& config, const TrainingPlans& plans,
                             models::Target target) {
  return [&config, &plans, target](offload::Arguments& arguments) -> std::string {
    if (!config.load_parameters_path.empty())
      return load_parameters(config, decoder_config(config, target), plans.layout, arguments);
    initialize(plans.layout, static_cast<uint64_t>(config.seed), arguments);
    return "";
  };
}

TrainingSession::TrainingSession(const TrainingPlans& plans, offload::Backend& backend,
                                 const GiveFirstValues& give_first_values)
    : backend_(backend),
      planned_(analyze(plans)),
      arguments_(backend, ledger_, device_argument_bytes(planned_, backend)),
      arenas_(backend, plans.all()),
      loaded_(give_first_values(arguments_)),
      step_(plans.step, backend, arguments_, arenas_) {
  ledger_.take(MemoryKind::unpinned_host, offload::Category::batch, plans.read_batch_bytes);
}

void TrainingSession::set_reference_values(ReferenceValues values) {
  reference_values_ = std::move(values);
  step_.set_reference_values(*reference_values_);
}

std::unique_ptr<offload::Executable> TrainingSession::executable(const offload::Plan& plan) {
  return std::make_unique<offload::Executable>(plan, backend_, arguments_, arenas_);
}

std::unique_ptr<StepInputs> TrainingSession::inputs(const StepPlans& plans) {
  auto inputs = std::make_unique<StepInputs>(plans, backend_, arguments_, arenas_);
  if (reference_values_) inputs->set_reference_values(*reference_values_);
  return inputs;
}

std::unique_ptr<Decoding> TrainingSession::decoding(const DecodingPlans& plans) {
  return std::make_unique<Decoding>(plans, backend_, arguments_, arenas_);
}

int64_t TrainingSession::arena_bytes(MemoryKind kind) const {
  return kind == MemoryKind::unpinned_host ? 0 : arenas_.of(kind).bytes();
}

int64_t TrainingSession::peak_bytes(MemoryKind kind) const {
  return ledger_.now_bytes(kind) + arena_bytes(kind);
}

MemoryByKind TrainingSession::memory() const {
  MemoryByKind memory;
  for (MemoryKind kind : offload::kMemoryKinds)
    memory[kind] = measured(ledger_, kind, arena_bytes(kind), planned_[kind]);
  return memory;
}

}  // namespace longshore::trainer
