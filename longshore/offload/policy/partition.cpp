#include "longshore/offload/policy/partition.h"

#include <algorithm>

#include "longshore/base/error.h"

namespace longshore::offload {

using models::Node;
using models::Program;
using models::Source;
using models::ValueId;

namespace {

// Decides which forward values the policy lets the backward program find where they are.
class Available {
 public:
  Available(const Program& forward, const Policy& policy)
      : forward_(forward), policy_(policy), known_(forward.values.size(), Answer::unknown) {}

  // Where a kept value stays.
  Action action(ValueId id) const {
    if (forward_[id].source == Source::earlier_layer) return Action::keep;  // others read it too
    const std::string& label = label_of(id);
    const bool is_input = forward_[id].source != Source::node;
    Action action = label.empty() && is_input ? Action::keep : policy_.action(label);
    return action == Action::remat ? Action::keep : action;  // an input cannot be made again
  }

  bool operator()(ValueId id) {
    Answer& answer = known_[id.index];
    if (answer == Answer::unknown) answer = decide(id) ? Answer::yes : Answer::no;
    return answer == Answer::yes;
  }

  // Whether it is made of weights alone, at little cost: what takes less memory is there anyway.
  bool is_of_weights(ValueId id) const {
    const models::Value& value = forward_[id];
    if (value.source != Source::node) return value.source == Source::weight;
    const Node& node = forward_.nodes[value.producer];
    return node.op->recompute_cost == models::RecomputeCost::low && !node.in.empty() &&
           std::ranges::all_of(node.in, [&](ValueId in) { return is_of_weights(in); });
  }

 private:
  enum class Answer : char { unknown, no, yes };

  // The label that decides: all outputs of a node share the action of the first.
  const std::string& label_of(ValueId id) const {
    const models::Value& value = forward_[id];
    return value.source == Source::node ? forward_[forward_.nodes[value.producer].out[0]].label
                                        : value.label;
  }

  bool decide(ValueId id) {
    const models::Value& value = forward_[id];
    if (value.source != Source::node) return true;
    const Node& node = forward_.nodes[value.producer];
    if (is_of_weights(id) || policy_.action(label_of(id)) == Action::remat) return false;
    if (policy_.otherwise == Action::keep) return true;
    // A cheap op whose inputs are there anyway is quicker to run again than its output to keep.
    return node.op->recompute_cost == models::RecomputeCost::high ||
           !std::all_of(node.in.begin(), node.in.end(), [&](ValueId in) { return (*this)(in); });
  }

  const Program& forward_;
  const Policy& policy_;
  std::vector<Answer> known_;
};

// Rewrites the backward nodes to read kept values, or clones of the nodes that make them.
class Rewriter {
 public:
  Rewriter(const Program& forward, const models::BackwardProgram& backward, const Policy& policy)
      : forward_(forward), available_(forward, policy), again_(forward.values.size()) {
    backward_ = backward.program;
    backward_.nodes.clear();
    for (const Node& node : backward.program.nodes) {
      Node rewritten = node;
      for (ValueId& id : rewritten.in) id = get(id);
      append(std::move(rewritten));
    }
  }

  std::vector<ValueId> take_recomputed() { return std::move(recomputed_); }
  Program take_backward() { return std::move(backward_); }
  std::vector<Residual> take_residuals() {
    std::sort(residuals_.begin(), residuals_.end(),
              [](const Residual& a, const Residual& b) { return a.value < b.value; });
    return std::move(residuals_);
  }

 private:
  ValueId get(ValueId id) {
    if (id.index >= static_cast<int>(forward_.values.size())) return id;  // made by backward nodes
    Source source = forward_[id].source;
    if (source != Source::node && source != Source::input && source != Source::earlier_layer)
      return id;
    if (available_(id)) {
      if (std::none_of(residuals_.begin(), residuals_.end(),
                       [&](const Residual& r) { return r.value == id; }))
        residuals_.push_back({id, available_.action(id)});
      return id;
    }
    // What is made of weights is made for each node that reads it, and gone after that.
    if (!again_[id.index] || available_.is_of_weights(id))
      recompute(forward_.nodes[forward_[id].producer]);
    return again_[id.index];
  }

  void recompute(const Node& node) {
    Node clone{.op = node.op, .attrs = node.attrs, .recomputes = true};
    for (ValueId in : node.in) clone.in.push_back(get(in));
    for (ValueId out : node.out) {
      models::Value value = forward_[out];
      value.name = backward_.unique_name(value.name + ".remat");
      value.label.clear();
      ValueId id{static_cast<int32_t>(backward_.values.size())};
      backward_.values.push_back(std::move(value));
      clone.out.push_back(id);
      if (!again_[out.index]) recomputed_.push_back(out);
      again_[out.index] = id;
    }
    append(std::move(clone));
  }

  void append(Node node) {
    for (ValueId out : node.out)
      backward_[out].producer = static_cast<int32_t>(backward_.nodes.size());
    backward_.nodes.push_back(std::move(node));
  }

  const Program& forward_;
  Available available_;
  Program backward_;
  std::vector<ValueId> again_;       // the clones' values, by the forward values'
  std::vector<ValueId> recomputed_;  // forward values
  std::vector<Residual> residuals_;
};

}  // namespace

Partition partition(const Program& forward, const models::BackwardProgram& backward,
                    const Policy& policy, Schedule schedule) {
  Rewriter rewriter(forward, backward, policy);
  Partition result{.forward = forward,
                   .backward = rewriter.take_backward(),
                   .residuals = rewriter.take_residuals(),
                   .recomputed = rewriter.take_recomputed(),
                   .cotangents = backward.cotangents,
                   .gradients = backward.gradients,
                   .accumulators = backward.accumulators,
                   .remade_outputs = {}};
  if (schedule == Schedule::back_to_back) result.remade_outputs = backward.remade_outputs;

  std::vector<ValueId> needed;
  for (const Residual& residual : result.residuals) needed.push_back(residual.value);
  for (const models::Output& output : forward.outputs)
    if (std::ranges::find(result.remade_outputs, output.value, &models::RemadeOutput::output) ==
        result.remade_outputs.end())
      needed.push_back(output.value);
  result.forward.drop_nodes_but_for(needed);
  return result;
}

namespace {

// The carry is the layer's own; what several layers read is there once.
bool is_shared(const Program& forward, ValueId id) {
  return forward[id].source == Source::earlier_layer ||
         (forward[id].source == Source::input && id != forward.inputs_from(Source::input)[0]);
}

}  // namespace

int64_t residual_bytes(const Partition& partition, Action action) {
  int64_t bytes = 0;
  for (const Residual& residual : partition.residuals)
    if (residual.action == action && !is_shared(partition.forward, residual.value))
      bytes += partition.forward[residual.value].type.bytes();
  return bytes;
}

std::string text(const Partition& partition) {
  const Program &forward = partition.forward, &backward = partition.backward;
  std::string result;
  for (Action action : {Action::keep, Action::offload}) {
    std::string values;
    for (const Residual& residual : partition.residuals)
      if (const models::Value& value = forward[residual.value]; residual.action == action)
        values += "  " + value.name + ": " + text(value.type) +
                  (is_shared(forward, residual.value) ? "  shared with other layers" : "") + "\n";
    if (action == Action::offload && values.empty()) continue;
    result += std::string(action == Action::keep ? "kept, " : "offloaded, ") +
              std::to_string(residual_bytes(partition, action)) + " bytes a layer\n" + values;
  }
  result += "forward\n";
  for (const Node& node : forward.nodes) result += "  " + text(forward, node) + "\n";
  result += "backward\n";
  for (const Node& node : backward.nodes) result += "  " + text(backward, node) + "\n";
  return result;
}

}  // namespace longshore::offload
