// The body of the kernel of attention's mask, and how it is launched.
#pragma once

#include "longshore/models/ops/attention/attention_mask.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

// A block has one query.
struct AttentionMaskBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kVector = kVectorOf<bfloat16>;
  AttentionMaskArguments a;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t width = attention_mask_width(a.length);
    const int64_t query = index % a.length, row = index - query;
    auto* mask = static_cast<bfloat16*>(a.mask) + index * width;
    KeyRule rule = a.rule;
    if (rule.segments) rule.segments += row;
    if (rule.blocks) rule.blocks += row;
    group.for_each(width / kVector, [&](int64_t vector) {
      Vector<bfloat16, kVector> values;
      for (int k = 0; k < kVector; ++k) {
        // Without branches, so that all keys are read at once.
        const int64_t key = vector * kVector + k, last = a.length - 1;
        const bool is_seen = rule.sees(query, key < last ? key : last);
        store(values.values[k], (key <= last) & is_seen ? 0.f : kHiddenScore);
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
