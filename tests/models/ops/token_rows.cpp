#include "longshore/models/ops/token_rows/token_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/linear/linear.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr Weight kFrozen{.trainable = Trainable::no, .never_trains = true};

// The rows train in what is looked up and in a matrix that is multiplied, and are read elsewhere.
OpCase token_rows_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary,
                       const std::vector<int64_t>& ids, int64_t pad = -1) {
  const auto count = static_cast<int64_t>(ids.size());
  return {.name = named("token_rows", b, t, c, vocabulary, count),
          .trace =
              [=](Dtype dtype) {
                Trace trace("token_rows");
                Var x = trace.weight("x", {{b, t, c}, dtype}, kFrozen);
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kFrozen);
                Var rows = trace.weight("rows", {{count, c}, dtype}, kTrained);
                Var y = token_rows(x, trace.batch("tokens", ints({b, t})), rows, ids, pad);
                trace.output(gelu(y));
                trace.output(linear(y, replace_token_rows(w, rows, ids)));
                return trace.finish();
              },
          .integers = {{"tokens", random_integers({b, t}, vocabulary, 5)}},
          .plain =
              [=](const Tensors& in) {
                at::Tensor y = in.at("x").detach(), w = in.at("w").detach();
                const at::Tensor tokens = in.at("tokens").unsqueeze(-1);
                for (int64_t i = 0; i < count; ++i) {
                  const int64_t id = ids[static_cast<size_t>(i)];
                  const at::Tensor row = in.at("rows").select(0, i);
                  y = at::where(tokens.eq(id), id == pad ? row.detach() : row, y);
                  w = at::where(at::arange(vocabulary).eq(id).unsqueeze(-1), row, w);
                }
                return std::vector{plain::gelu(y), plain::linear(y, w)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() { return {token_rows_case(2, 3, 4, 5, {0, 3})}; }

// Not in their order, every second of them.
std::vector<int64_t> many(int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(2 * (i * 7 % count));
  return ids;
}

std::vector<OpCase> large() {
  return {
      token_rows_case(3, 200, 33, 401, many(200), 4),
      token_rows_case(3, 50, 33, 17, {2, 3, 16}),
      token_rows_case(1, 9, 320, 40, {39}),
      token_rows_case(3, 50, 33, 17, {16, 2, 3}, 2),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &token_rows_op, .tolerance = {0, 0}},
    {.op = &token_rows_grad_op, .tolerance = {1e-6, 1e-5}},
    {.op = &replace_token_rows_op, .tolerance = {0, 0}},
    {.op = &replace_token_rows_grad_op, .tolerance = {1e-6, 1e-5}},
};

}  // namespace

extern constinit const OpRecord token_rows_record{kOps, small, large};

}  // namespace longshore::models
