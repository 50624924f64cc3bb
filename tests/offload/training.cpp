#include "tests/offload/training.h"

#include <bit>
#include <thread>

#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/scan.h"
#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/memory_analysis.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/weights/initialize.h"
#include "tests/offload/forwarding_backend.h"
#include "tests/offload/plan_checks.h"
#include "tests/offload/thread_communicator.h"

namespace longshore::offload {
namespace {

using models::Source;

// Counts what is asked of the other one.
class CountingBackend : public ForwardingBackend {
 public:
  CountingBackend(Backend& other, std::map<MemoryKind, int64_t>& bytes)
      : ForwardingBackend(other), bytes_(bytes) {}

  std::byte* allocate(MemoryKind kind, int64_t bytes) override {
    bytes_[kind] += bytes;
    return ForwardingBackend::allocate(kind, bytes);
  }

 private:
  std::map<MemoryKind, int64_t>& bytes_;
};

// Rows, length and vocabulary of a model with a batch input `tokens`.
struct Tokens {
  data::BatchShape shape;
  int32_t vocabulary = 0;
};

Tokens tokens_of(const models::Model& model) {
  const models::Program& embed = model.stages[stage_index(model, "embed")].programs[0];
  const models::Type& tokens = embed[embed.find("tokens")].type;
  models::ValueId weight = embed.inputs_from(Source::weight)[0];
  return {{tokens.shape[0], tokens.shape[1]}, static_cast<int32_t>(embed[weight].type.shape[0])};
}

const models::Program& decoder_of(const models::Model& model) {
  return model.stages[stage_index(model, "decoder")].programs[0];
}

}  // namespace

void write_toy_inputs(const ToySizes& sizes, Arguments& arguments, int64_t micro_batches) {
  auto write = [&](const char* name, int64_t vocabulary) {
    std::vector<int32_t> ids(static_cast<size_t>(sizes.batch * sizes.length));
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int32_t>((7 * i + 3) % static_cast<size_t>(vocabulary));
    const auto bytes = static_cast<int64_t>(ids.size() * sizeof(int32_t));
    for (int64_t m = 0; m < micro_batches; ++m)
      arguments.write_part(host_name(name), m * align_up(bytes), ids.data(), bytes);
  };
  write("patches", sizes.patch_vocabulary);
  write("hints", sizes.hint_vocabulary);
}

std::vector<models::Optimizer> optimizers_of(const TrainingOptions& options) {
  if (!options.optimizers.empty()) return options.optimizers;
  return {models::adamw(
      {.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = options.weight_decay})};
}

Training train(const TrainingOptions& options) {
  Training training;
  std::unique_ptr<Backend> own = make_cpu_backend(models::Target::cpu, options.communicator);
  CountingBackend backend(options.backend ? *options.backend : *own, training.allocated_bytes);

  ParameterLayout layout = lay_out(options.model, options.layout);
  StagePolicies policies = StagePolicy{
      .first = options.unnamed_policy
                   ? *options.unnamed_policy
                   : make_policy(options.policy, options.custom, decoder_of(options.model)),
      .offload_layers = options.offload_layers,
      .others = options.others};
  policies.by_stage = options.by_stage;
  trainer::StepOptions step_options{
      .policy = std::move(policies),
      .transfers = options.transfers,
      .micro_batches = options.micro_batches,
      .optimizer = trainer::OptimizerOptions{.optimizers = optimizers_of(options),
                                             .clipping_threshold = options.clipping_threshold,
                                             .clipping_norm = options.clipping_norm,
                                             .lane = options.update_lane,
                                             .chunk = options.update_chunk}};
  training.plans = trainer::plan_step(options.model, layout, step_options, backend.target());
  Arenas arenas(backend, training.plans.all());
  Arguments arguments(backend, training.ledger);
  trainer::initialize(layout, kWeightSeed, arguments);
  trainer::TrainStep step(training.plans, backend, arguments, arenas);
  if (arguments.has(host_name("hints"))) write_toy_inputs({}, arguments, options.micro_batches);

  Tokens tokens = tokens_of(options.model);
  data::BatchSchema schema(tokens.shape);
  schema.inputs.push_back({.name = data::kRowNumbers, .per_row = 1});
  data::BatchSource source = data::synthetic_batches(schema, tokens.vocabulary, kDataSeed);
  const DeviceMesh& mesh = options.layout.mesh;
  const int64_t rank = mesh.data.rank * mesh.fsdp.size + mesh.fsdp.rank;
  for (int i = 0; i < options.steps; ++i) {
    std::vector<data::Batch> batches;
    int64_t total_weights = 0;
    for (int64_t m = 0; m < options.micro_batches * mesh.devices(); ++m) {
      data::Batch batch = source(i * options.micro_batches * mesh.devices() + m);
      total_weights += batch.total_weights;
      if (m % mesh.devices() == rank) batches.push_back(std::move(batch));
    }
    training.results.push_back(step.run(
        batches,
        {.learning_rate = options.learning_rate, .number = i + 1, .total_weights = total_weights},
        training.ledger));
    if (options.flushes || i + 1 == options.steps) step.flush(training.ledger);
  }

  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : bucket.copies()) {
      std::string name = argument_name(bucket, copy);
      if (!arguments.has(name)) continue;
      std::vector<std::byte>& contents = training.state[name];
      contents.resize(static_cast<size_t>(bytes(bucket, copy)));
      arguments.read(name, contents.data(), bytes(bucket, copy));
    }
  return training;
}

std::vector<Training> train_on(DeviceMesh mesh, const TrainingOptions& options) {
  auto communicators = thread_communicators(mesh);
  std::vector<Training> trainings(communicators.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back([&, rank] {
      TrainingOptions mine = options;
      mine.communicator = communicators[rank];
      mine.layout.mesh = mesh;
      mine.layout.mesh.data.rank = static_cast<int64_t>(rank) / mesh.fsdp.size;
      mine.layout.mesh.fsdp.rank = static_cast<int64_t>(rank) % mesh.fsdp.size;
      trainings[rank] = train(mine);
    });
  for (std::thread& thread : threads) thread.join();
  return trainings;
}

std::string first_fault(const trainer::StepPlans& plans) {
  bool finds_gradients = plans.flush && plans.plans.size() > 1;  // in arguments
  for (const Plan* plan : plans.all()) {
    bool is_first = plan == &plans.plans[0];
    Gradients gradients = is_first && !finds_gradients ? Gradients::none_yet : Gradients::begun;
    for (const std::vector<std::string>& faults :
         {placement_faults(*plan), data_flow_faults(*plan, gradients), order_faults(*plan)})
      if (!faults.empty())
        return plan->name + ": " + faults[0] + " (" + std::to_string(faults.size()) + " faults)";
    for (MemoryKind kind : kMemoryKinds)
      if (analyze(*plan, kind).live_bytes != live_bytes(*plan, kind))
        return plan->name + ": live bytes of " + name(kind) + " differ";
  }
  return "";
}

PassResult run_pass(const PassInputs& inputs, const std::vector<data::Batch>& micro_batches) {
  ParameterLayout layout = lay_out(inputs.model);
  Policy policy = make_policy(inputs.policy, {}, decoder_of(inputs.model));
  std::vector<Plan> plans;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    PlanBuilder builder("pass", inputs.target);
    PassOperands operands(layout, builder, GradientOwner::caller);
    Scan scan(inputs.model, operands, builder);
    const bool is_first = i == 0, is_last = i + 1 == micro_batches.size();
    scan.train({.policy = policy,
                .micro_batch = is_first && is_last ? MicroBatch::only
                               : is_first          ? MicroBatch::first
                               : is_last           ? MicroBatch::last
                                                   : MicroBatch::further});
    plans.push_back(builder.finish());
  }

  auto backend = make_cpu_backend(inputs.target);
  Ledger ledger;
  Arguments arguments(*backend, ledger);
  trainer::initialize(layout, kWeightSeed, arguments);
  auto write_scalar = [&](const char* name, double value) {
    float narrow = static_cast<float>(value);
    std::string host = host_name(name);
    if (arguments.has(host)) arguments.write(host, &narrow, sizeof narrow);
  };
  for (size_t i = 0; i < plans.size(); ++i) {
    Arenas arenas(*backend, {&plans[i]});
    Executable executable(plans[i], *backend, arguments, arenas);
    write_scalar(kLossGradient, inputs.loss_gradient);
    write_scalar(kAuxiliaryLossGradient, inputs.auxiliary_loss_gradient);
    trainer::write_batch(micro_batches[i], arguments);
    if (arguments.has(host_name("hints"))) write_toy_inputs({}, arguments);
    executable.run(ledger);
    backend->synchronize();
  }

  PassResult result;
  auto read_scalar = [&](const char* name) {
    float value = 0;
    if (arguments.has(name)) arguments.read(name, &value, sizeof value);
    return static_cast<double>(value);
  };
  result.loss = read_scalar(kLoss);
  result.auxiliary_loss = read_scalar(kAuxiliaryLoss);
  for (const Bucket& bucket : layout.buckets) {
    if (bucket.trainable == models::Trainable::no) continue;
    std::vector<float> values(static_cast<size_t>(bucket.count));
    arguments.read(argument_name(bucket, Copy::gradient), values.data(),
                   bytes(bucket, Copy::gradient));
    for (const Parameter& parameter : bucket.parameters) {
      auto begin = values.begin() + parameter.offset;
      result.gradients[parameter.name] = {begin, begin + parameter.type.shape.count()};
    }
  }
  return result;
}

std::map<std::string, std::vector<float>> initial_weights(const ParameterLayout& layout) {
  std::map<std::string, std::vector<float>> weights;
  for (const Bucket& bucket : layout.buckets)
    for (const Parameter& parameter : bucket.parameters) {
      std::vector<float>& values = weights[parameter.name];
      values.resize(static_cast<size_t>(parameter.tensor_shape().count()));
      trainer::initial_values(parameter, kWeightSeed, 0, values);
    }
  return weights;
}

std::string differences(const Training& a, const Training& b) {
  auto differ = [](double x, double y) {
    return std::bit_cast<uint64_t>(x) != std::bit_cast<uint64_t>(y);
  };
  if (a.results.size() != b.results.size()) return "the numbers of steps differ";
  for (size_t i = 0; i < a.results.size(); ++i) {
    const trainer::StepResult &x = a.results[i], &y = b.results[i];
    for (auto [what, left, right] :
         {std::tuple{"loss", x.loss, y.loss},
          std::tuple{"auxiliary loss", x.auxiliary_loss, y.auxiliary_loss},
          std::tuple{"gradient norm", x.gradient_norm, y.gradient_norm}})
      if (differ(left, right))
        return "step " + std::to_string(i) + ", " + what + ": " + std::to_string(left) + " and " +
               std::to_string(right);
  }
  if (a.state.size() != b.state.size()) return "different buckets";
  for (const auto& [name, contents] : a.state)
    if (auto other = b.state.find(name); other == b.state.end() || other->second != contents)
      return name + " differs";
  return "";
}

}  // namespace longshore::offload
