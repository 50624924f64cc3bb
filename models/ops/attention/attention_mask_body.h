// The body of the kernel of attention's mask, and how it is launched.
#pragma once

#include "models/ops/attention/attention_mask.h"
#include "models/ops/kernels/thread_group.h"
#include "models/ops/kernels/vectors.h"

namespace longshore::models {

// A block has one query.
struct AttentionMaskBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kVector = kVectorOf<bfloat16>;
  AttentionMaskArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t width = attention_mask_width(a.length);
    const int32_t* segments = a.segments + index / a.length * a.length;  // of the query's row
    auto* mask = static_cast<bfloat16*>(a.mask) + index * width;
    const int32_t segment = a.segments[index];
    group.for_each(width / kVector, [&](int64_t vector) {
      Vector<bfloat16, kVector> values;
      for (int k = 0; k < kVector; ++k) {
        // Without branches, so that all keys are read at once.
        const int64_t key = vector * kVector + k, last = a.length - 1;
        const bool is_same = segments[key < last ? key : last] == segment;
        store(values.values[k], (key <= last) & is_same ? 0.f : kHiddenScore);
      }
      store_whole(mask + vector * kVector, values);
    });
  }
};

template <class Launcher>
void launch(const AttentionMaskArguments& a, const Launcher& launcher) {
  launcher(AttentionMaskBody{a}, a.rows * a.length);
}

}  // namespace longshore::models
