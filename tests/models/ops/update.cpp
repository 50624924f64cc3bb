// The optimizers' ops.
#include <utility>

#include "longshore/models/ops/update/adamw.h"
#include "longshore/models/ops/update/lion.h"
#include "longshore/models/ops/update/sgd.h"
#include "longshore/models/ops/update/update_body.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/update_program.h"

namespace longshore::models {
namespace {

// Where `adjust` gives the scalars their values, of the third step.
OpCase update_case(const Optimizer& optimizer, int64_t n) {
  return {.name = named(optimizer.rule->name, n),
          .trace =
              [=](Dtype dtype) {
                const Dtype state = dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
                return update_program(optimizer, {.weight = state, .compute = dtype}, n);
              },
          .integers = {},
          .plain = {},
          .adjust =
              [=](Tensors& in) {
                if (in.contains("second_moment")) in.at("second_moment").square_();
                in.at("learning_rate").fill_(0.01);
                for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
                  in.at(optimizer.rule->scalars[i])
                      .fill_(optimizer.rule->scalar(optimizer.numbers, i, 3));
                in.at("clip").fill_(0.7);
              }};
}

std::vector<OpCase> of_every_rule(int64_t n) {
  return {update_case(adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}), n),
          update_case(lion({.b1 = 0.9, .b2 = 0.99, .weight_decay = 0.1}), n),
          update_case(sgd({.momentum = 0.9, .weight_decay = 0.1}), n),
          update_case(sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), n)};
}

std::vector<OpCase> small() { return of_every_rule(5); }

std::vector<OpCase> large() {
  std::vector<OpCase> cases;
  for (int64_t n : {1, 17, 70001})
    for (OpCase& op_case : of_every_rule(n)) cases.push_back(std::move(op_case));
  return cases;
}

std::vector<OpCase> real() { return {of_every_rule(1 << 22)[0]}; }

constexpr OpTraits kOps[] = {
    {.op = &adamw_op,
     .tolerance = {5e-7, 5e-7},
     .emulated = emulated_launch<arguments_of_rule<AdamWElement>>()},
    {.op = &lion_op,
     .tolerance = {5e-7, 5e-7},
     .emulated = emulated_launch<arguments_of_rule<LionElement>>()},
    {.op = &sgd_op,
     .tolerance = {5e-7, 5e-7},
     .emulated = emulated_launch<arguments_of_rule<SgdElement>>()},
};

}  // namespace

extern constinit const OpRecord update_record{kOps, small, large, real};

}  // namespace longshore::models
