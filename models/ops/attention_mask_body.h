// The body of the kernel of attention's mask, and how it is launched.
#pragma once

#include "models/ops/attention_mask.h"
#include "models/ops/thread_group.h"
#include "models/ops/vectors.h"

namespace longshore::models {

// A block has one query.
struct AttentionMaskBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kVector = kVectorOf<bfloat16>;
  AttentionMaskArguments a;

  template <class Block>
  LONGSHORE_BODY void operator()(Block& block, int64_t index) const {
    const int64_t row = index / a.length, width = attention_mask_width(a.length);
    auto* mask = static_cast<bfloat16*>(a.mask) + index * width;
    block.for_each(width / kVector, [&](int64_t vector) {
      float values[kVector];
      for (int k = 0; k < kVector; ++k)
        values[k] = sees(row, index % a.length, vector * kVector + k) ? 0.f : kHiddenScore;
      store_vector(mask + vector * kVector, values);
    });
  }

  LONGSHORE_BODY bool sees(int64_t row, int64_t query, int64_t key) const {
    if (key >= a.length) return false;
    const int32_t* segments = a.segments ? a.segments + row * a.length : nullptr;
    if (segments && segments[query] != segments[key]) return false;
    if (a.prefix && query < a.prefix[row] && key < a.prefix[row]) return true;
    return key <= query && (a.window == 0 || query - key < a.window);
  }
};

template <class Launcher>
void launch(const AttentionMaskArguments& a, const Launcher& launcher) {
  launcher(AttentionMaskBody{a}, a.rows * a.length);
}

}  // namespace longshore::models
