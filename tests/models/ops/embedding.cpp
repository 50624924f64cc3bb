#include "longshore/models/ops/embedding/embedding.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/embedding/embedding_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

// `padding` is an id, or -1 for none.
OpCase embedding_case(int64_t b, int64_t t, int64_t vocabulary, int64_t c, int64_t padding = -1) {
  return {.name = named("embedding", b, t, vocabulary, c, padding),
          .trace =
              [=](Dtype dtype) {
                Trace trace("embedding");
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
                trace.output(embedding(trace.batch("ids", ints({b, t})), w, padding));
                trace.output(embedding(trace.batch("more_ids", ints({b, t})), w, padding));
                return trace.finish();
              },
          .integers = {{"ids", random_integers({b, t}, vocabulary, 3)},
                       {"more_ids", random_integers({b, t}, (vocabulary + 1) / 2, 4)}},
          .plain =
              [=](const Tensors& in) {
                return std::vector{plain::embedding(in.at("ids"), in.at("w"), padding),
                                   plain::embedding(in.at("more_ids"), in.at("w"), padding)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      embedding_case(1, 1, 1, 1),
      embedding_case(2, 5, 4, 3),
  };
}

std::vector<OpCase> large() {
  return {
      embedding_case(1, 1, 11, 1),       embedding_case(2, 300, 40, 33),
      embedding_case(2, 300, 40, 33, 7), embedding_case(2, 100, 40, 64, 0),
      embedding_case(4, 256, 1000, 320), embedding_case(1, 9, 3, 4100),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600, kVocabulary = 128256;
  return {embedding_case(1, kTokens, kVocabulary, 256)};
}

constexpr OpTraits kOps[] = {
    {.op = &embedding_op, .tolerance = {0, 0}},
    {.op = &embedding_grad_op,
     .tolerance = {1e-6, 1e-6},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<embedding_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord embedding_record{kOps, small, large, real};

}  // namespace longshore::models
