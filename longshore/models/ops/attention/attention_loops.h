// Attention's loops over one tile of scores, vectorised. Hidden keys take no part: their
// probabilities are zeros.
#pragma once

#include "longshore/models/ops/attention/attention_tiles.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {

// How products of queries and keys become scores.
struct Scoring {
  float scale;
  float soft_cap;  // 0: none
};

// The online softmax of one block of rows, over its tiles.
struct SoftmaxRows {
  float* largest;  // [R], score so far
  float* sum;      // [R], of exponentials relative to it
  float* out;      // [R,D], their product with the values
};

// products [R,S] (overwritten) to probabilities relative to the largest score so far; `rows` is
// rescaled to it. `p` [R,S] may be the same memory as the products.
void softmax_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, bool first,
                  float* products, float* p, const SoftmaxRows& rows, int64_t d);
void softmax_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, bool first,
                  float* products, bfloat16* p, const SoftmaxRows& rows, int64_t d);

// context = out / sum, its rows `stride` apart; log_sum_exp [R].
void finish_rows(const SoftmaxRows& from, float* context, int64_t stride, float* log_sum_exp,
                 int64_t rows, int64_t d);
void finish_rows(const SoftmaxRows& from, bfloat16* context, int64_t stride, float* log_sum_exp,
                 int64_t rows, int64_t d);

// delta[r] = sum of dO*O over a row; rows of dO are adjacent, those of O `stride` apart.
void delta_rows(const float* dout, const float* out, int64_t stride, float* delta, int64_t rows,
                int64_t d);
void delta_rows(const bfloat16* dout, const bfloat16* out, int64_t stride, float* delta,
                int64_t rows, int64_t d);

// What the backward pass knows of a block of rows, [R] each.
struct GradientRows {
  const float* log_sum_exp;
  const float* delta;
};

// P = exp(score - log_sum_exp), dS = P * (dP - delta) * (derivative of score by product), all
// [R,S]. Products and dP are overwritten; P may be the memory of the products, dS that of dP.
void dscores_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, float* products,
                  float* dp, const GradientRows& rows, float* p, float* ds);
void dscores_tile(const Tile& tile, const VisibleKeys& visible, Scoring scoring, float* products,
                  float* dp, const GradientRows& rows, bfloat16* p, bfloat16* ds);

// Rounds rows of D, to rows `stride` apart.
void narrow_rows(const float* from, float* to, int64_t stride, int64_t rows, int64_t d);
void narrow_rows(const float* from, bfloat16* to, int64_t stride, int64_t rows, int64_t d);

}  // namespace longshore::models
