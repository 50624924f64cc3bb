// The loop of an update rule on the CPU. A rule's element is a class
//   static constexpr int kStates;   // 1 or 2
//   Element(const UpdateScalars&);  // what all elements share
//   void operator()(float gradient, float& weight, float (&states)[kStates]) const;
// in which whatever is added to is a fused multiply-add by name, which leaves compilers no choice
// of what to fuse; quotients and roots are rounded right everywhere. So its bits are the same on
// every processor, and it makes no difference where states are updated.
#pragma once

#include "models/ops/kernels/numbers.h"
#include "models/ops/update/update_kernels.h"

namespace longshore::models {

template <class Element, bool kCopies>
LONGSHORE_INLINE void update_elements(const UpdateRange& r, const Element element) {
  constexpr int kStates = Element::kStates;
  const float *gradient = r.gradient, *weight_before = r.weight_before;
  const float *first_before = r.states_before[0], *second_before = r.states_before[kStates - 1];
  float *weight = r.weight, *first = r.states[0], *second = r.states[kStates - 1];
  bfloat16* compute = r.compute;
#pragma omp simd
  for (int64_t i = 0; i < r.count; ++i) {
    float updated = weight_before[i], states[kStates];
    states[0] = first_before[i];
    if constexpr (kStates == 2) states[1] = second_before[i];
    element(gradient[i], updated, states);
    first[i] = states[0];
    if constexpr (kStates == 2) second[i] = states[1];
    weight[i] = updated;
    if constexpr (kCopies) store(compute[i], updated);
  }
}

// The whole of a RangeUpdate, which a rule's own function calls so that it is compiled for each
// instruction set.
template <class Element>
LONGSHORE_INLINE void update_range(const UpdateRange& range, const UpdateScalars& scalars) {
  if (range.compute)
    update_elements<Element, true>(range, Element(scalars));
  else
    update_elements<Element, false>(range, Element(scalars));
}

}  // namespace longshore::models
