#include "longshore/models/ops/sequence_log_probs.h"

#include <ATen/ops/stack.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/random_segments.h"

namespace longshore::models {
namespace {

OpCase sequence_case(int64_t b, int64_t t, int64_t longest) {
  return {.name = named("sequence_log_probs", b, t, longest),
          .trace =
              [=](Dtype dtype) {
                Trace trace("sequence_log_probs");
                const Dtype wide = dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
                Var losses = trace.input("losses", {{b, t}, wide});
                const SequenceLogProbs all =
                    sequence_log_probs(losses, trace.batch("targets", ints({b, t})),
                                       trace.batch("segments", ints({b, t})));
                trace.output(all.sums);
                return trace.finish();
              },
          .integers = {{"targets", some_targets(b, t)}, {"segments", some_segments(b, t, longest)}},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor losses = in.at("losses"),
                                 counts = in.at("targets").ne(kIgnoredTarget);
                std::vector<at::Tensor> places;
                for (int64_t place = 0; place < t; ++place)
                  places.push_back(
                      (losses * in.at("segments").eq(place + 1).logical_and(counts)).sum(1).neg());
                return std::vector{at::stack(places, 1)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() { return {sequence_case(2, 9, 3), sequence_case(1, 1, 1)}; }
std::vector<OpCase> large() { return {sequence_case(3, 700, 40)}; }

constexpr OpTraits kOps[] = {
    {.op = &sequence_log_probs_op, .tolerance = {1e-6, 1e-6}},
    {.op = &sequence_log_probs_grad_op, .tolerance = {1e-6, 1e-6}},
};

}  // namespace

extern constinit const OpRecord sequence_log_probs_record{kOps, small, large};

}  // namespace longshore::models
