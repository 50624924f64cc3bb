// A Scan turns a model and a policy into the instructions of a pass: stages in order, layers in
// order, then back. One program serves all layers of a kind; here it meets each layer's weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/models/ir/model.h"
#include "longshore/offload/lowering/gradient_reductions.h"
#include "longshore/offload/lowering/layer_partitions.h"
#include "longshore/offload/lowering/loss_sums.h"
#include "longshore/offload/lowering/pass_operands.h"

namespace longshore::offload {

// Whether a forward pass also gives what goes from layer to layer.
enum class Carries { internal, returned };

// The device argument that holds a layer's state between runs.
std::string state_name(const std::string& stage, int layer, const std::string& state);

// What enters that layer of a scan; with the number of layers, what leaves the last.
std::string carry_name(const std::string& stage, int layer);

inline constexpr const char* kLogProbs = "log_probs";

// The scalars that the gradients of a step's losses begin with.
inline constexpr const char* kLossGradient = "loss_gradient";
inline constexpr const char* kSftLossGradient = "sft_loss_gradient";
inline constexpr const char* kAuxiliaryLossGradient = "auxiliary_loss_gradient";

class Scan {
 public:
  Scan(const models::Model& model, PassOperands& operands, PlanBuilder& builder)
      : model_(model), operands_(operands), builder_(builder) {}

  // Forward and backward of one micro-batch. Log-probabilities of its sequences go to its part of
  // the host argument of kLogProbs, in forward() too.
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
    // Parameters whose gradients are final after this layer, by their values in the program.
    std::map<models::ValueId, ParameterLayout::Location> final_gradients;
  };
  // Where the gradients of a layer's weights go.
  struct WeightGradients {
    std::map<models::ValueId, ParameterLayout::Location> final_at_home;  // by the gradient
    // What is not made in its home: it comes in, or is another weight's as well.
    std::vector<models::GradientOf> elsewhere;
  };
  struct Key {  // an output of a layer
    int stage, layer, output;
    auto operator<=>(const Key&) const = default;
  };

  void prepare(const PassOptions& options);
  void find_final_gradients();
  void train_forward(int stage, int layer);
  void run_forward(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings, const PlanBuilder::AfterNode& after = nullptr);
  // What feeds the layer's inputs from other stages and layers.
  std::map<models::ValueId, Key> feeders(const models::Program& program, int stage,
                                         int layer) const;
  void bind_inputs(const models::Program& program, int stage, int layer,
                   PlanBuilder::Bindings& bindings);
  void run_backward(int stage, int layer);
  void bind_cotangents(int stage, int layer, PlanBuilder::Bindings& bindings);
  WeightGradients bind_weight_gradients(int stage, int layer, PlanBuilder::Bindings& bindings);
  Operand home_of_gradient(int stage, int layer, models::ValueId weight);
  void add_input_gradients(int stage, int layer, const PlanBuilder::Bindings& bindings);
  void give_to_host(const std::string& name, const Operand& value, const Scope& scope);
  void add_output_gradient(Key key, const Operand& gradient, const Scope& scope);

  const models::Model& model_;
  PassOperands& operands_;
  PlanBuilder& builder_;
  PassOptions options_;
  std::vector<std::vector<Layer>> layers_;             // by stage
  std::map<Key, Operand> outputs_, output_gradients_;  // of roles that others read
  std::optional<LossSums> losses_;                     // of this pass
  std::optional<GradientReductions> reductions_;       // likewise
  std::vector<LayerPlan> layer_plans_;
};

}  // namespace longshore::offload
