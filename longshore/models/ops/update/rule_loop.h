// The loop of an update rule on the CPU. A rule's element is a class
//   static constexpr int kStates;   // 1 or 2
//   Element(const UpdateScalars&);  // what all elements share
//   void operator()(float gradient, float& weight, float (&states)[kStates]) const;
// in which whatever is added to is a fused multiply-add by name, which leaves compilers no choice
// of what to fuse; quotients and roots are rounded right everywhere. So its bits are the same on
// every processor, and it makes no difference where states are updated.
#pragma once

#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {

// Element i. A function of its own, as a loop whose own variable is an array is not vectorised.
template <class Element>
LONGSHORE_INLINE float update_one(const UpdateRange& r, const Element& element, int64_t i) {
  float updated = r.weight_before[i], states[Element::kStates];
  for (int s = 0; s < Element::kStates; ++s) states[s] = r.states_before[s][i];
  element(r.gradient[i], updated, states);
  for (int s = 0; s < Element::kStates; ++s) r.states[s][i] = states[s];
  return r.weight[i] = updated;
}

template <class Element, bool kCopies>
LONGSHORE_INLINE void update_elements(const UpdateRange r, const Element element) {
#pragma omp simd
  for (int64_t i = 0; i < r.count; ++i) {
    const float updated = update_one(r, element, i);
    if constexpr (kCopies) store(r.compute[i], updated);
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
