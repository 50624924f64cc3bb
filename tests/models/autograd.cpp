#include "tests/models/autograd.h"

#include <torch/csrc/autograd/autograd.h>

namespace longshore::models {

Tensors as_leaves(const Tensors& values) {
  Tensors leaves;
  for (const auto& [name, value] : values)
    leaves[name] = value.is_floating_point() ? value.clone().requires_grad_(true) : value;
  return leaves;
}

Tensors trained(const Program& program, Tensors leaves) {
  for (ValueId id : program.inputs)
    if (const Value& value = program[id];
        value.source == Source::batch || (value.weight && value.weight->never_trains))
      leaves.erase(value.name);
  return leaves;
}

Tensors autograd(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& cotangents,
                 const Tensors& leaves) {
  std::vector<std::string> names;
  torch::autograd::variable_list variables;
  for (const auto& [name, leaf] : leaves)
    if (leaf.is_floating_point()) {
      names.push_back(name);
      variables.push_back(leaf);
    }
  auto found = torch::autograd::grad(outputs, variables, cotangents, /*retain_graph=*/std::nullopt,
                                     /*create_graph=*/false, /*allow_unused=*/true);
  Tensors gradients;
  for (size_t i = 0; i < names.size(); ++i)
    if (found[i].defined()) gradients[names[i]] = found[i];
  return gradients;
}

}  // namespace longshore::models
