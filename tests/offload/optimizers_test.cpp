// Several optimizers in a step: each parameter by its own, in ranges or as a whole matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/sgd.h"
#include "tests/message_of.h"
#include "tests/offload/adamw_states.h"
#include "tests/offload/training.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;

constexpr MemoryKind kHost = MemoryKind::pinned_host;

models::Optimizer adamw() {
  return models::adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0});
}

bool is_matrix(const Parameter& parameter) { return parameter.type.shape.rank() == 2; }

// `of_matrices` updates matrices, AdamW what else there is.
TrainingOptions with(const models::Optimizer& of_matrices) {
  TrainingOptions options{.steps = 2, .clipping_threshold = 0};
  options.optimizers = {of_matrices, adamw()};
  options.layout.optimizers = states_of(of_matrices, models::Dtype::float32);
  options.layout.optimizers[0].updates = is_matrix;
  options.layout.optimizers.push_back(adamw_states()[0]);
  return options;
}

// The values of a copy, by parameter.
std::map<std::string, std::vector<float>> values(const TrainingOptions& options,
                                                 const Training& trained, Copy copy) {
  std::map<std::string, std::vector<float>> values;
  for (const Bucket& bucket : lay_out(options.model, options.layout).buckets)
    for (const Parameter& parameter : bucket.parameters) {
      const std::vector<std::byte>& all = trained.state.at(argument_name(bucket, copy));
      const float* first = reinterpret_cast<const float*>(all.data()) + parameter.offset;
      values[parameter.name] = {first, first + parameter.type.shape.count()};
    }
  return values;
}

// Calls f() for homes, lanes and policies; `options` has them then.
template <class F>
void everywhere(TrainingOptions& options, const F& f) {
  for (const char* policy : {"none", "qkv_proj_offloaded"})
    for (Lane lane : {Lane::compute, Lane::host_compute})
      for (const Homes& homes : {Homes{}, Homes{.optimizer = kHost}, Homes{kHost, kHost, kHost}}) {
        if (lane == Lane::host_compute && homes.optimizer != kHost) continue;
        SCOPED_TRACE(std::string(policy) + ", parameters in " + name(homes.parameters) +
                     ", optimizer in " + name(homes.optimizer) + ", updates by " + name(lane));
        options.policy = policy;
        options.layout.homes = homes;
        options.update_lane = lane;
        f();
      }
}

// After a step, whose gradients are the same, each weight has the bits that its optimizer gives it
// when it updates all.
TEST(Optimizers, EachUpdatesItsParameters) {
  const models::Optimizer sgd = models::sgd({.momentum = 0.9, .weight_decay = 0.1});
  auto alone = [](const models::Optimizer& optimizer) {
    TrainingOptions options{.steps = 1, .clipping_threshold = 0, .optimizers = {optimizer}};
    options.layout.optimizers = states_of(optimizer, models::Dtype::float32);
    return values(options, train(options), Copy::compute);
  };
  const auto by_adamw = alone(adamw()), by_sgd = alone(sgd);
  TrainingOptions options = with(sgd);
  options.steps = 1;
  everywhere(options, [&] {
    int of_sgd = 0;
    for (const auto& [name, weights] : values(options, train(options), Copy::compute)) {
      const bool matrix = !name.ends_with("norm.weight");
      EXPECT_EQ(weights, (matrix ? by_sgd : by_adamw).at(name)) << name;
      EXPECT_NE(weights, (matrix ? by_adamw : by_sgd).at(name)) << name;
      of_sgd += matrix;
    }
    EXPECT_GT(of_sgd, 10);
  });
}

// A rule that needs whole matrices: a weight's row goes along its gradient, by the learning rate.
void update_rows(const models::KernelCall& call) {
  const models::Shape& shape = call.in[0].type.shape;
  const float rate = *call.in[3].as<float>();
  for (int64_t row = 0; row < shape.rows(); ++row) {
    double square = 0;
    for (int64_t i = row * shape.back(); i < (row + 1) * shape.back(); ++i)
      square += double{call.in[0].as<float>()[i]} * call.in[0].as<float>()[i];
    for (int64_t i = row * shape.back(); i < (row + 1) * shape.back(); ++i) {
      const float direction =
          square > 0 ? static_cast<float>(call.in[0].as<float>()[i] / std::sqrt(square)) : 0.f;
      call.out[0].as<float>()[i] = call.in[1].as<float>()[i] - rate * direction;
      call.out[1].as<float>()[i] = direction;
    }
  }
}

const models::Op rows_op{
    .name = "rows",
    .infer =
        [](const std::any&, std::span<const models::Type> in) {
          models::expect(in[0].shape.rank() == 2 && in[1] == in[0] && in[2] == in[0], "rows",
                         "is given no matrices");
          return models::Types{in[1], in[2]};
        },
    .cost = [](const std::any&, std::span<const models::Type>,
               std::span<const models::Type>) { return models::Cost{}; },
    .reuse =
        [](const std::any&, int) {
          return std::vector<models::Reuse>{{.out = 0, .in = 1}, {.out = 1, .in = 2}};
        },
    .cpu = {update_rows}};

const models::UpdateRule rows_rule{
    .name = "rows",
    .numbers = {},
    .states = {{"direction", "direction_scale"}},
    .scalars = {},
    .region = models::Region::matrix,
    .trace = [](const models::Optimizer&, models::Dtype, const models::UpdateOperands& at,
                const models::Rounding&) {
      return at.gradient.trace->emit(
          rows_op, {}, {at.gradient, at.weight, at.states[0].value, at.learning_rate});
    }};

TEST(Optimizers, AMatrixIsUpdatedWhole) {
  TrainingOptions options = with({&rows_rule, {}, 0});
  const Training plain = train(options);
  for (const Bucket& bucket : lay_out(options.model, options.layout).buckets) {
    if (bucket.optimizer != 0) continue;
    const float* directions =
        reinterpret_cast<const float*>(plain.state.at(argument_name(bucket, state_copy(0))).data());
    for (const Parameter& parameter : bucket.parameters)
      for (int64_t row = 0; row < parameter.type.shape.rows(); ++row) {
        const float* first = directions + parameter.offset + row * parameter.type.shape.back();
        double square = 0;
        for (int64_t i = 0; i < parameter.type.shape.back(); ++i) square += first[i] * first[i];
        if (square != 0) {  // a token that never occurs
          EXPECT_NEAR(square, 1, 1e-5) << parameter.name;
        }
      }
  }
  everywhere(options, [&] {
    const Training found = train(options);
    for (const auto& [name, contents] : plain.state)
      if (!name.ends_with(".gradient")) {
        EXPECT_TRUE(found.state.at(name) == contents) << name;
      }
  });
}

TEST(Optimizers, APartOfAMatrixIsRefused) {
  TrainingOptions options = with({&rows_rule, {}, 0});
  auto expect_refused = [&](const DeviceMesh& mesh) {
    options.layout.mesh = mesh;
    const ParameterLayout layout = lay_out(options.model, options.layout);
    const trainer::StepOptions step{
        .policy = keep_all(),
        .optimizer = trainer::OptimizerOptions{.optimizers = options.optimizers}};
    EXPECT_THAT(message_of<ConfigError>([&] {
                  (void)trainer::plan_step(options.model, layout, step, models::Target::cpu);
                }),
                HasSubstr("rows updates whole matrices, which devices cannot share yet"));
  };
  expect_refused({.fsdp = {.size = 2}});
  for (models::Stage& stage : options.model.stages)
    for (models::Program& program : stage.programs)
      for (models::ValueId id : program.inputs_from(models::Source::weight))
        if (program[id].type.shape.rank() == 2) program[id].weight->split = {{.parts = 2}};
  expect_refused({.data = {.size = 2}});
}

}  // namespace
}  // namespace longshore::offload
