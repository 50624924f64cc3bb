// GradientReductions sums up each bucket's gradients over devices once all of them are made.
#pragma once

#include <map>
#include <vector>

#include "longshore/offload/lowering/pass_operands.h"
#include "longshore/offload/lowering/pass_options.h"

namespace longshore::offload {

class GradientReductions {
 public:
  // Of one pass. `options` are read later.
  GradientReductions(PassOperands& operands, const PassOptions& options)
      : operands_(operands), options_(options) {}

  // A gradient of the bucket is to be made in this pass.
  void expect(int bucket) { ++missing_[bucket]; }
  // A gradient that was expected is there. With the bucket's last, its reduction begins.
  void add(int bucket, const Scope& scope);
  // Goes on with the reductions that have begun, so that kernels wait for none that only just has.
  void go_on(const Scope& scope);
  // Ends them.
  void finish(const Scope& scope);

 private:
  void tell(int bucket) const {
    if (options_.on_bucket_gradients) options_.on_bucket_gradients(bucket);
  }

  PassOperands& operands_;
  const PassOptions& options_;
  std::map<int, int> missing_;  // gradients, by bucket
  std::vector<int> under_way_;  // buckets
};

}  // namespace longshore::offload
