// From a model and a policy to the instructions of a pass: stages in order, layers in order, then
// back. One program serves all layers of a kind; here it meets each layer's weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "offload/parameter_layout.h"
#include "offload/partition.h"
#include "offload/plan_builder.h"

namespace longshore::offload {

// Whether gradients and losses already hold those of earlier micro-batches.
enum class MicroBatch { first, further };

// Where gradients of parameters live.
enum class GradientHome {
  plan,    // in the plan's arena, from their first touch to the optimizer
  caller,  // in arguments, from one micro-batch to the next
};

struct PassOptions {
  Policy policy;  // of scanned stages; those that run once keep what their backward pass reads
  MicroBatch micro_batch = MicroBatch::first;
  GradientHome gradients = GradientHome::plan;
};

// Batch inputs and scalars arrive in pinned host memory, under their names with ".host"; losses
// end up in the device arguments "loss" and "auxiliary_loss".
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kAuxiliaryLoss = "auxiliary_loss";
inline constexpr const char* kLossGradient = "loss_gradient";
inline constexpr const char* kAuxiliaryLossGradient = "auxiliary_loss_gradient";
std::string host_name(const std::string& name);

class Scan {
 public:
  Scan(const models::Model& model, const ParameterLayout& layout, PlanBuilder& builder);

  // Forward and backward of one micro-batch.
  void train(const PassOptions& options);
  // Forward only. Outputs of the last stage that are values go to host arguments
  // "output.<index>.host", losses (of this micro-batch alone) to "loss".
  void forward();

  // A copy of a slab as a plan's operand; gradients are where train() put them.
  Operand slab(int slab, Copy copy);
  Operand range(int slab, Copy copy, int64_t offset, const models::Type& type);
  // A float32 scalar that the host gives each step.
  Operand scalar(const std::string& name);

  // The distinct layer plans of a training pass, each with the layers it serves, for people.
  std::string describe() const { return description_; }

 private:
  struct Layer {
    std::shared_ptr<const Partition> partition;
    PlanBuilder::Bindings bindings;  // forward values
  };
  using Key = std::pair<int, int>;  // stage, output

  void prepare(const PassOptions& options);
  void run_forward(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings);
  void bind_inputs(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings);
  void run_backward(int stage, int layer);
  void bind_loss(const models::Program& program, models::ValueId value, models::OutputRole role,
                 PlanBuilder::Bindings& bindings);
  void finish_loss(const models::Program& program, models::ValueId value, models::OutputRole role,
                   const PlanBuilder::Bindings& bindings, const Place& place);
  void add_gradient(std::map<Key, Operand>& sums, Key key, const Operand& gradient,
                    const Place& place);
  Operand batch(const models::Value& value);
  Operand parameter(const std::string& name, Copy copy);
  Operand loss_argument(models::OutputRole role);

  const models::Model& model_;
  const ParameterLayout& layout_;
  PlanBuilder& builder_;
  PassOptions options_;
  std::vector<std::vector<Layer>> layers_;  // by stage
  std::map<Key, Operand> outputs_, output_gradients_;
  std::map<std::string, Operand> batch_;
  std::map<int, int> gradient_buffers_;  // by slab
  std::map<models::OutputRole, bool> loss_begun_;
  std::string description_;
};

}  // namespace longshore::offload
