// PassOperands finds what a pass takes from outside: parameters in their copies, batch inputs,
// scalars.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/offload/lowering/pass_options.h"
#include "longshore/offload/lowering/plan_builder.h"

namespace longshore::offload {

// Who owns gradients of parameters.
enum class GradientOwner {
  plan,      // they live from their first touch to the optimizer
  next_run,  // they live from their first touch to the optimizer in the plan's next run
  caller,    // they are arguments, there from one micro-batch to the next
};

// Batch inputs and scalars arrive in pinned host memory under this name.
std::string host_name(const std::string& name);

// The batches of a step's micro-batches are there before it begins, so that nothing waits for the
// host within it: one behind the other in one argument for each batch input.
struct BatchParts {
  int64_t count = 1;  // micro-batches of a step
  int64_t first = 0;  // the micro-batch of the plan's first run; each run is of the next
};

class PassOperands {
 public:
  // With GradientOwner::next_run, `before` is the plan that left the gradients, if it is another.
  PassOperands(const ParameterLayout& layout, PlanBuilder& builder,
               GradientOwner gradients = GradientOwner::plan, const Transfers& transfers = {},
               const Plan* before = nullptr, const BatchParts& batches = {})
      : layout_(layout),
        builder_(builder),
        gradients_(gradients),
        transfers_(transfers),
        before_(before),
        batches_(batches) {}
  PassOperands(const PassOperands&) = delete;
  PassOperands& operator=(const PassOperands&) = delete;

  // Part of a copy of a bucket, `offset` in elements of that copy, within what this device holds:
  // for the compute lane, so through a staged range where its home is on the host; or as it lies on
  // the host, which then must be its home.
  Operand range(int bucket, Copy copy, int64_t offset, const models::Type& type);
  Operand host_range(int bucket, Copy copy, int64_t offset, const models::Type& type);
  // The operand of one whole parameter. Where weights are fetched, small neighbours come in one
  // move; where they are sharded, their bucket is gathered. Gradients of sharded parameters are
  // this device's share of the sum until reduce() takes them.
  Operand weight(const std::string& parameter);
  Operand gradient(const std::string& parameter);

  // Whether each pass leaves gradients of its own for reduce(), rather than adding to earlier ones.
  // Where devices add up several micro-batches that is so wherever gradients live: one order of
  // summation.
  bool gradients_start_anew() const;
  // Begins to sum up over devices what this micro-batch made of a bucket's gradient, and to add
  // that to what earlier ones made. After the last micro-batch the sum is that of the whole mesh.
  void reduce(int bucket, MicroBatch micro_batch, const Scope& scope);
  // To be called from time to time after that, so that kernels wait for no collective that was only
  // just begun, until it returns true: then the gradient is there.
  bool continue_reduction(int bucket, MicroBatch micro_batch, const Scope& scope);

  // Where replicas update a part each, on that lane: gathers the bucket's compute weights once all
  // parts are there.
  void gather_updated(int bucket, Lane updated_on, const Scope& scope);

  // All of a copy that this device has, for the compute lane.
  Operand held(int bucket, Copy copy);

  // What the host gives each step, on the device: moved there where this is called first.
  Operand batch(const models::Value& value);
  Operand scalar(const std::string& name, models::Dtype dtype = models::Dtype::float32);
  // The reverse of batch(): puts what a micro-batch made into its part of a host argument.
  void give_to_host(const std::string& name, const Operand& value, const Scope& scope);
  // What a layer keeps from run to run, on the device.
  Operand state(const std::string& name, const models::Type& type);
  // A scalar where the host put it.
  Operand host_scalar(const std::string& name, models::Dtype dtype = models::Dtype::float32);

  const ParameterLayout& layout() const { return layout_; }

 private:
  Operand home(int bucket, Copy copy, int64_t offset, const models::Type& type);
  Operand gathered_weight(const ParameterLayout::Location& location);
  // The sum of what micro-batches make of a bucket's gradient, on this device.
  Operand accumulated(int bucket);
  // Returns whether there was a need.
  bool reduce_over_data(int bucket, const Operand& sum, MicroBatch micro_batch, const Scope& scope);

  const ParameterLayout& layout_;
  PlanBuilder& builder_;
  GradientOwner gradients_;
  Transfers transfers_;
  const Plan* before_;
  BatchParts batches_;
  std::map<std::string, Operand> batch_;
  std::map<int, int> gradient_buffers_;                                // by bucket
  std::map<int, Operand> gathered_;                                    // likewise
  std::map<int, Operand> unreduced_, to_add_;                          // gradients, likewise
  std::map<std::tuple<int, Copy, int64_t, int64_t>, Operand> staged_;  // bucket, copy, range
};

}  // namespace longshore::offload
