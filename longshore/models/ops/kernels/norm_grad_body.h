// NormGradBody runs over the rows of a norm's gradient, and adds up what they give the gradient of
// the norm's weight.
#pragma once

#include "longshore/models/ops/kernels/column_sum_body.h"
#include "longshore/models/ops/kernels/norm_partials.h"
#include "longshore/models/ops/kernels/row_threads.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// A block has a range of rows. A row's group adds what the row gives the weight's gradient to sums
// of its own, in scratch memory, or for rows that are too long for it in the block's partial.
//
// Rows is called as rows.grad_row(group, row, sums), where `sums` is null or what to add to, by the
// threads that for_each gives the vectors of a row. Its arguments `a` have the number of rows,
// their width, and `partials` [norm_partials(rows), width], null where the weight has no gradient.
template <class Rows, class RowThreads>
struct NormGradBody {
  static constexpr int kThreads = kBlockThreads;
  Rows rows;
  int64_t blocks;
  bool sums_in_scratch;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t count = rows.a.rows, width = rows.a.width;
    const int64_t begin = count * index / blocks, end = count * (index + 1) / blocks;
    const int groups = RowThreads::groups(group);
    float* partial = rows.a.partials ? rows.a.partials + index * width : nullptr;
    float* sums = sums_in_scratch ? group.template scratch<float>() : partial;
    RowThreads::on_each(group, [&](auto& part, int number) {
      float* mine = sums ? sums + number * width : nullptr;
      if (mine) zero(part, mine);
      for (int64_t row = begin + number; row < end; row += groups) rows.grad_row(part, row, mine);
    });
    if (!sums || sums == partial) return;
    group.sync();
    group.for_each(width, [&](int64_t i) {
      float sum = 0;
      for (int number = 0; number < groups; ++number) sum += sums[number * width + i];
      partial[i] = sum;
    });
  }

  // Each thread clears the elements that it adds to.
  template <class Group>
  LONGSHORE_BODY void zero(Group& group, float* sums) const {
    group.for_each(rows.a.width / Rows::kVectorSize, [&](int64_t i) {
      for (int k = 0; k < Rows::kVectorSize; ++k) sums[i * Rows::kVectorSize + k] = 0;
    });
  }
};

template <class Rows, class Launcher>
void launch_norm_grad(const Rows& rows, const Launcher& launcher) {
  const auto& a = rows.a;
  const int64_t blocks = norm_partials(a.rows);
  const auto threads = launcher.template threads<NormGradBody<Rows, WholeBlock>>();
  with_row_threads(
      a.width, a.width / Rows::kVectorSize, threads, [&]<class RowThreads>(int groups, RowThreads) {
        int64_t scratch = groups * a.width * static_cast<int64_t>(sizeof(float));
        if (!a.partials || scratch > kMaxScratchBytes) scratch = 0;
        launcher(NormGradBody<Rows, RowThreads>{rows, blocks, scratch > 0}, blocks, scratch);
      });
  if (a.partials)
    launch_column_sum({a.partials, blocks, a.width, a.weight_sum, a.dweight}, launcher);
}

}  // namespace longshore::models
