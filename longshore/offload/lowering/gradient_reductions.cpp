#include "longshore/offload/lowering/gradient_reductions.h"

#include <vector>

namespace longshore::offload {

void GradientReductions::add(int bucket, const Scope& scope) {
  if (--missing_.at(bucket) > 0) return;
  if (operands_.layout().mesh.devices() == 1) return tell(bucket);
  operands_.reduce(bucket, options_.micro_batch, scope);
  under_way_.push_back(bucket);
}

void GradientReductions::go_on(const Scope& scope) {
  std::erase_if(under_way_, [&](int bucket) {
    if (!operands_.continue_reduction(bucket, options_.micro_batch, scope)) return false;
    tell(bucket);
    return true;
  });
}

void GradientReductions::finish(const Scope& scope) {
  while (!under_way_.empty()) go_on(scope);
}

}  // namespace longshore::offload
