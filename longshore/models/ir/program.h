// A program: values in single assignment, and the nodes that make them, in an order that can be
// run. A decoder layer is traced once into such a program; differentiation, remat policies,
// scanning and planning all read it as data.
//
// Invariants (checked by verify): a node reads only inputs and values made before it; every value
// has one maker; types are what the op's shape rule gives; a label marks at most one value; the
// outputs that are states are the inputs that are, in their order and of their types.
// A program knows nothing of memory kinds, policies or devices.
#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/quantization/quantized_matrix.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ir/split.h"
#include "longshore/models/ir/types.h"

namespace longshore::models {

struct ValueId {
  int32_t index = -1;

  explicit operator bool() const { return index >= 0; }
  auto operator<=>(const ValueId&) const = default;
};

// Where a value comes from.
enum class Source : uint8_t {
  node,
  input,          // output of another stage, or of the layer before (the carry)
  earlier_layer,  // what the latest of the scan's earlier layers that gives it gives by its name
  weight,         // a parameter
  batch,          // part of the micro-batch, the same for all layers
  scalar,         // a number that changes from step to step, in device memory
  state,          // what one run leaves to the next, of each layer its own: a key/value cache
  cotangent,      // gradient of an output of the forward program
  accumulator,    // gradient of a weight so far, to be added to
};

enum class Trainable : uint8_t { no, yes };
enum class Decay : uint8_t { no, yes };  // whether AdamW's weight decay applies

// How a weight starts.
struct Init {
  // row_norms: those of the matrix whose adapter the weight is of.
  enum class Kind : uint8_t { normal, uniform, ones, zeros, row_norms } kind = Kind::zeros;
  double scale = 0;  // normal: standard deviation; uniform: the largest magnitude
};

// A section of a tensor that checkpoints have, beside those of other weights: along one axis each
// step'th from the first on.
struct SavedSection {
  std::string tensor;  // named as the weight is: within its layer
  int64_t first = 0;
  int axis = 0;
  int64_t step = 1;

  bool operator==(const SavedSection&) const = default;
};

// What an adapter adds to a matrix W [p,q], or to each of W [E,p,q]: scale·B·A, or with
// `transposed` its transpose (Hu et al. 2021, arXiv 2106.09685). A and B are weights of the same
// layer; and so are magnitudes [p], where each row of the sum is brought to one of them (Liu et al.
// 2024, arXiv 2402.09353).
struct WeightAdapter {
  std::string a, b;
  double scale = 0;
  bool transposed = false;
  std::string magnitudes = {};  // "" for none

  bool operator==(const WeightAdapter&) const = default;
};

// Which axis of a linear layer's matrix, or of those of experts, is of its inputs.
enum class InputAxis : uint8_t { none, last, before_last };  // none: it is no such matrix

// The numbers of a weight whose value is their codes and scales: u8 [bytes], or [E,bytes] for [E]
// matrices one after the other.
struct QuantizedWeight {
  QuantizedMatrix matrix;  // each of them, a row for each output
  Type numbers;            // as ops read them: [..,rows,columns], or transposed [..,columns,rows]
  bool is_transposed = false;

  bool operator==(const QuantizedWeight&) const = default;
};

// Of a weight that is split, a program's value is this device's part. Names, first values and
// checkpoints are of the whole tensor.
struct Weight {
  Trainable trainable = Trainable::yes;
  bool never_trains = false;  // whatever is said to train: a number that a model only keeps
  // Which of its first dimension train, where some do and some do not: those of single experts.
  std::vector<bool> trained_slices = {};
  Decay decay = Decay::yes;
  Init init;
  std::optional<Split> split = {};
  // The tensor's shape in checkpoints, where that is another for the same elements. Then it is not
  // split.
  std::optional<Shape> saved_shape = {};
  // Where it is no tensor of its own there. Weights of one tensor are alike but for their sizes
  // along the axis, and where they take turns there in these too.
  std::optional<SavedSection> saved_section = {};
  // Where each of its first dimension, as an expert's matrix, is a tensor of its own there: their
  // names within the layer, "{}" for the number.
  std::optional<std::string> saved_slices = {};
  // Whether [E,N,K] is saved as [N,K*E], the first dimension innermost. Its section is of that.
  bool saved_innermost = false;
  std::optional<WeightAdapter> adapter = {};
  // Whether it is saved among an adapter's files: as a part of that, or since it trains beside it.
  bool of_adapter = false;
  InputAxis inputs = InputAxis::none;
  std::optional<QuantizedWeight> quantized = {};
};

// What a batch input holds in a row that there is nothing for: the value at each position, or where
// it counts the value, the next one, and so on.
struct Padding {
  int32_t value = 0;
  bool counts = false;
};

struct Value {
  std::string name;   // unique in the program
  std::string label;  // what policies know it by; "" for most
  Type type;
  Source source = Source::node;
  bool needs_gradient = false;
  int32_t producer = -1;         // index of the node that makes it
  std::optional<Weight> weight;  // for Source::weight
  Padding padding;               // for Source::batch
};

struct Node {
  const Op* op = nullptr;
  std::any attrs;
  std::vector<ValueId> in;
  std::vector<ValueId> out;
  bool recomputes = false;  // makes what the forward pass has made, within a backward pass
};

// What an output is to the training step.
enum class OutputRole : uint8_t {
  value,           // read by the next layer or another stage
  later_layers,    // read by later layers of the scan, by the output's name
  loss,            // sum of token losses; its gradient is the scalar `loss_gradient`
  sft_loss,        // of an objective that is not it, likewise; its gradient: `sft_loss_gradient`
  auxiliary_loss,  // mean over the micro-batch; its gradient is `auxiliary_loss_gradient`
  log_probs,       // of the micro-batch's sequences, for the host; they have no gradient
  expert_load,     // rows of the expert that has most over their mean; it has no gradient
  state,           // takes the place of the program's next input that is a state
};

struct Output {
  ValueId value;
  OutputRole role = OutputRole::value;
  std::string name = {};  // what later layers know it by; "" for other roles
};

struct Program {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;  // every value without a node, in order of declaration
  std::vector<Output> outputs;

  const Value& operator[](ValueId id) const { return values[id.index]; }
  Value& operator[](ValueId id) { return values[id.index]; }
  Types types(std::span<const ValueId> ids) const;
  Cost cost(const Node& node) const;
  std::vector<ValueId> inputs_from(Source source) const;
  // Leaves the nodes that these values depend on.
  void drop_nodes_but_for(std::span<const ValueId> needed);
  std::vector<std::string> labels() const;    // emitted labels in order of emission
  ValueId find(std::string_view name) const;  // invalid when there is none

  // Adds the node and its output values, typed by the op's shape rule; first output `name`d,
  // further ones "name.1", "name.2".
  std::vector<ValueId> add_node(const Op& op, std::any attrs, std::vector<ValueId> in,
                                const std::string& name);
  ValueId add_input(Value value);
  // Free for a value, or for all values that a node of so many outputs makes.
  std::string unique_name(std::string_view stem, size_t outputs = 1) const;
};

// The text form, one node a line.
std::string text(const Program& program);
std::string text(const Program& program, const Node& node);

// Throws InternalError, printing the neighbourhood of the fault.
void verify(const Program& program);

}  // namespace longshore::models
