// From a model and a policy to the instructions of a pass: stages in order, layers in order, then
// back. One program serves all layers of a kind; here it meets each layer's weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "offload/partition.h"
#include "offload/pass_operands.h"

namespace longshore::offload {

// Whether gradients and losses already hold those of earlier micro-batches.
enum class MicroBatch { first, further };

struct PassOptions {
  Policy policy;  // of scanned stages; those that run once keep what their backward pass reads
  // The first so many layers of a scan follow the policy; by default all but the last, whose values
  // are wanted at once.
  std::optional<int> offload_layers;
  // What the other layers follow; by default they keep on the device what the policy offloads.
  std::optional<Policy> others;
  MicroBatch micro_batch = MicroBatch::first;
  bool ends_step = true;  // it is the step's last micro-batch
  // Called behind the instruction that makes the gradient of a parameter final on this device, and
  // behind the layer that makes all those of a slab final and reads its weights last; where devices
  // have to sum them up, when that is done.
  std::function<void(const ParameterLayout::Location&, const Place&)> gradient_made;
  std::function<void(int slab)> gradients_made;
  // Called before each layer's forward pass and behind each node of its forward and its backward
  // pass; `done` is the share of this pass's FLOPs that lies before.
  std::function<void(int stage, int layer, double done)> forward_reached, backward_reached;
};

// Whether a forward pass also gives what goes from layer to layer.
enum class Carries { internal, returned };

// The device argument that holds a layer's state between runs.
std::string state_name(const std::string& stage, int layer, const std::string& state);

// What enters that layer of a scan; with the number of layers, what leaves the last.
std::string carry_name(const std::string& stage, int layer);

// Losses end up in the device arguments "loss" and "auxiliary_loss".
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kAuxiliaryLoss = "auxiliary_loss";
inline constexpr const char* kLossGradient = "loss_gradient";
inline constexpr const char* kAuxiliaryLossGradient = "auxiliary_loss_gradient";

// Layers that share their programs.
struct LayerPlan {
  std::string stage;
  bool is_scan = false;
  int first = 0, last = 0, count = 0;
  std::shared_ptr<const Partition> partition;
};

class Scan {
 public:
  Scan(const models::Model& model, PassOperands& operands, PlanBuilder& builder)
      : model_(model), operands_(operands), builder_(builder) {}

  // Forward and backward of one micro-batch.
  void train(const PassOptions& options);
  // Forward only. Outputs of the last stage that are values go to host arguments
  // "output.<index>.host", losses (of this micro-batch alone) to "loss". Carries that are returned
  // go to the host arguments of their carry_name(). States stay in the device arguments of their
  // state_name(), rewritten in place.
  void forward(Carries carries = Carries::internal);

  // The distinct partitions of a training pass, in the order of stages and layers.
  const std::vector<LayerPlan>& layer_plans() const { return layer_plans_; }

 private:
  struct Layer {
    std::shared_ptr<const Partition> partition;
    PlanBuilder::Bindings bindings;  // forward values
    // Parameters whose gradients are final behind this layer, by their values in the program.
    std::map<models::ValueId, ParameterLayout::Location> final_gradients;
  };
  using Key = std::pair<int, int>;  // stage, output

  void prepare(const PassOptions& options);
  Policy policy_of(const models::Stage& stage, int layer) const;
  void find_final_gradients();
  void train_forward(int stage, int layer);
  void run_forward(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings, const PlanBuilder::AfterNode& after = nullptr);
  void bind_inputs(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings);
  void run_backward(int stage, int layer);
  void continue_reductions(const Place& place);
  void give_to_host(const std::string& name, const Operand& value, const Place& place);
  void bind_loss(const models::Program& program, models::ValueId value, models::OutputRole role,
                 PlanBuilder::Bindings& bindings);
  void finish_loss(const models::Program& program, models::ValueId value, models::OutputRole role,
                   const PlanBuilder::Bindings& bindings, const Place& place);
  void add_gradient(std::map<Key, Operand>& sums, Key key, const Operand& gradient,
                    const Place& place);
  Operand loss_argument(models::OutputRole role);

  const models::Model& model_;
  PassOperands& operands_;
  PlanBuilder& builder_;
  PassOptions options_;
  std::vector<std::vector<Layer>> layers_;  // by stage
  std::map<Key, Operand> outputs_, output_gradients_;
  std::map<int, int> gradients_missing_;  // by slab, of this pass
  std::vector<int> reducing_;             // slabs
  std::map<models::OutputRole, bool> loss_begun_;
  std::vector<LayerPlan> layer_plans_;
};

}  // namespace longshore::offload
