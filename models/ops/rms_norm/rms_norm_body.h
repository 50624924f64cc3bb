// The bodies of rms_norm's kernels, and how they are launched.
#pragma once

#include <cmath>

#include "models/ops/kernels/column_sum_body.h"
#include "models/ops/kernels/float_types.h"
#include "models/ops/kernels/thread_group.h"
#include "models/ops/kernels/vectors.h"
#include "models/ops/rms_norm/rms_norm_kernels.h"

namespace longshore::models {

// Threads for a row: some lanes of a warp where rows are as short as heads, else a block.
struct WholeBlock {
  template <class Group>
  static LONGSHORE_DEVICE int groups(const Group&) {
    return 1;
  }
  template <class Group, class F>
  static LONGSHORE_BODY void on_each(Group& group, F f) {
    f(group, 0);
  }
};
template <int kLanes>
struct Lanes {
  template <class Group>
  static LONGSHORE_BODY int groups(const Group& group) {
    return group.threads() / kLanes;
  }
  template <class Group, class F>
  static LONGSHORE_BODY void on_each(Group& group, F f) {
    group.template split<kLanes>(f);
  }
};

inline constexpr int64_t kLongestShortRow = 512;

// Calls f(groups of a block, the threads for a row) for rows of `vectors` vectors.
template <class F>
void with_row_threads(int64_t width, int64_t vectors, int block_threads, F f) {
  if (width > kLongestShortRow)
    f(1, WholeBlock{});
  else if (vectors <= 16)
    f(block_threads / 16, Lanes<16>{});
  else
    f(block_threads / 32, Lanes<32>{});
}

template <class T, int kVector, class RowThreads>
struct RmsNormBody {
  static constexpr int kThreads = kBlockThreads;
  RmsNormArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * RowThreads::groups(group);
    RowThreads::on_each(group, [&](auto& part, int number) {
      if (first + number < a.rows) row(part, first + number);
    });
  }

  template <class Group>
  LONGSHORE_BODY void row(Group& group, int64_t row) const {
    const T* x = static_cast<const T*>(a.x) + row * a.width;
    const T* weight = static_cast<const T*>(a.weight);
    T* y = static_cast<T*>(a.y) + row * a.width;
    const float squares = sum(group, a.width / kVector, [&](int64_t i) {
      float values[kVector], result = 0;
      load_vector(x + i * kVector, values);
      for (float value : values) result += value * value;
      return result;
    });
    const float rstd = 1.f / std::sqrt(squares / static_cast<float>(a.width) + a.epsilon);
    group.once([&] { a.rstd[row] = rstd; });
    group.for_each(a.width / kVector, [&](int64_t i) {
      float values[kVector], weights[kVector];
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      for (int k = 0; k < kVector; ++k)
        values[k] = values[k] * rstd * (a.weight_offset + weights[k]);
      store_vector(y + i * kVector, values);
    });
  }
};

// A block has a range of rows. A row's group adds what the row gives the weight's gradient to sums
// of its own, in scratch memory, or for rows that are too long for it in the block's partial.
template <class T, int kVector, class RowThreads>
struct RmsNormGradBody {
  static constexpr int kThreads = kBlockThreads;
  RmsNormGradArguments a;
  int64_t blocks;
  bool sums_in_scratch;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t begin = a.rows * index / blocks, end = a.rows * (index + 1) / blocks;
    const int groups = RowThreads::groups(group);
    float* partial = a.partials ? a.partials + index * a.width : nullptr;
    float* sums = sums_in_scratch ? group.template scratch<float>() : partial;
    RowThreads::on_each(group, [&](auto& part, int number) {
      float* mine = sums ? sums + number * a.width : nullptr;
      if (mine) zero(part, mine);
      for (int64_t row = begin + number; row < end; row += groups) grad_row(part, row, mine);
    });
    if (!sums || sums == partial) return;
    group.sync();
    group.for_each(a.width, [&](int64_t i) {
      float sum = 0;
      for (int number = 0; number < groups; ++number) sum += sums[number * a.width + i];
      partial[i] = sum;
    });
  }

  // Each thread clears the elements that it adds to in grad_row.
  template <class Group>
  LONGSHORE_BODY void zero(Group& group, float* sums) const {
    group.for_each(a.width / kVector, [&](int64_t i) {
      for (int k = 0; k < kVector; ++k) sums[i * kVector + k] = 0;
    });
  }

  template <class Group>
  LONGSHORE_BODY void grad_row(Group& group, int64_t row, float* sums) const {
    const int64_t at = row * a.width;
    const T* dy = static_cast<const T*>(a.dy) + at;
    const T* x = static_cast<const T*>(a.x) + at;
    const T* weight = static_cast<const T*>(a.weight);
    const T* input_sum = a.input_sum ? static_cast<const T*>(a.input_sum) + at : nullptr;
    T* dx = static_cast<T*>(a.dx) + at;
    const float rstd = a.rstd[row];
    const float dot = sum(group, a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], weights[kVector], result = 0;
      load_vector(dy + i * kVector, d);
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      for (int k = 0; k < kVector; ++k) result += d[k] * (a.weight_offset + weights[k]) * values[k];
      return result;
    });
    const float shift = dot * rstd * rstd / static_cast<float>(a.width);
    group.for_each(a.width / kVector, [&](int64_t i) {
      float d[kVector], values[kVector], weights[kVector], before[kVector] = {};
      load_vector(dy + i * kVector, d);
      load_vector(x + i * kVector, values);
      load_vector(weight + i * kVector, weights);
      if (input_sum) load_vector(input_sum + i * kVector, before);
      if (sums) {
        float so_far[kVector];
        load_vector(sums + i * kVector, so_far);
        for (int k = 0; k < kVector; ++k) so_far[k] += d[k] * values[k] * rstd;
        store_vector(sums + i * kVector, so_far);
      }
      for (int k = 0; k < kVector; ++k) {
        const float grad = rstd * (d[k] * (a.weight_offset + weights[k]) - values[k] * shift);
        d[k] = input_sum ? before[k] + grad : grad;
      }
      store_vector(dx + i * kVector, d);
    });
  }
};

template <class Launcher>
void launch(const RmsNormArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.x, a.weight, a.y});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      const auto threads = launcher.template threads<RmsNormBody<T, kVector, WholeBlock>>();
      with_row_threads(a.width, a.width / kVector, threads,
                       [&]<class RowThreads>(int groups, RowThreads) {
                         launcher(RmsNormBody<T, kVector, RowThreads>{a}, ceil_div(a.rows, groups));
                       });
    });
  });
}

template <class Launcher>
void launch(const RmsNormGradArguments& a, const Launcher& launcher) {
  const int64_t blocks = rms_norm_partials(a.rows);
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 &&
                     all_aligned({a.dy, a.x, a.weight, a.input_sum, a.dx, a.partials});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      const auto threads = launcher.template threads<RmsNormGradBody<T, kVector, WholeBlock>>();
      with_row_threads(a.width, a.width / kVector, threads,
                       [&]<class RowThreads>(int groups, RowThreads) {
                         int64_t scratch = groups * a.width * static_cast<int64_t>(sizeof(float));
                         if (!a.partials || scratch > kMaxScratchBytes) scratch = 0;
                         launcher(RmsNormGradBody<T, kVector, RowThreads>{a, blocks, scratch > 0},
                                  blocks, scratch);
                       });
    });
  });
  if (a.partials)
    launch_column_sum({a.partials, blocks, a.width, a.weight_sum, a.dweight}, launcher);
}

}  // namespace longshore::models
