#include "longshore/models/families/expert_linears.h"

#include <cmath>
#include <optional>
#include <utility>

#include "longshore/models/families/new_weights.h"
#include "longshore/models/ops/grouped_bias/grouped_bias.h"
#include "longshore/models/ops/grouped_linear/grouped_linear.h"
#include "longshore/models/ops/scale.h"

namespace longshore::models {
namespace {

// One of the three.
struct Linear {
  std::string module;  // "mlp.experts.{}.gate_proj", or the tensor of all
  int64_t out;
  std::optional<int64_t> number = {};  // gate 0, up 1
};

const ExpertTraits& traits(const DecoderConfig& c) { return c.family->layer.experts; }

// "mlp.experts.gate_proj"
std::string without_number(std::string name) {
  if (const size_t number = name.find("{}."); number != std::string::npos) name.erase(number, 3);
  return name;
}

// A weight of all experts [E,..]: a tensor of each in checkpoints, or one of all.
Var expert_weight(Trace& t, const std::string& name, const Type& type, Weight weight) {
  if (without_number(name) != name) weight.saved_slices = name;
  return t.weight(without_number(name), type, std::move(weight));
}

// Of gate and up: which of their joint tensor's columns or rows are this one's.
SavedSection section(const DecoderConfig& c, const Linear& linear, std::string tensor, int axis) {
  const int64_t number = linear.number.value();
  return {.tensor = std::move(tensor),
          .first = traits(c).takes_turns ? number : number * linear.out,
          .axis = axis,
          .step = traits(c).takes_turns ? 2 : 1};
}

std::optional<SavedSection> saved_section(const DecoderConfig& c, const Linear& linear,
                                          const char* ending, int axis) {
  if (traits(c).gate_up.empty() || !linear.number) return std::nullopt;
  return section(c, linear, std::string(traits(c).gate_up) + ending, axis);
}

// --- adapters

// What peft has of a module: A reads what the experts do and B gives what they do, or where it
// takes plain matrices for others, B reads and A gives.
class ExpertAdapter {
 public:
  // `module` is what its weights are called after.
  ExpertAdapter(const DecoderConfig& c, const LoraProduct& product, std::string module)
      : c_(c), product_(product), module_(std::move(module)) {}

  Var read(const ExpertRows& x) const {
    const int64_t in = x.rows.type().shape.back();
    const Layout layout = b_reads() ? Layout::plain : Layout::transposed;
    Var w = b_reads() ? b(x, lora_b_name(module_), {c_.experts, in, product_.rank}, {})
                      : a(x, lora_a_name(module_), {c_.experts, product_.rank, in}, in, {});
    return scale(grouped_linear(x.rows, w, x.ends, layout), product_.scale, Factor::in_float32);
  }

  // product + what it gives of what it has read.
  Var add(Var has_read, const ExpertRows& x, const Linear& linear, Var product) const {
    const bool is_section = is_joint(linear);
    const std::string name = is_section ? without_number(linear.module) : module_;
    const int64_t rank = product_.rank, out = linear.out;
    std::optional<SavedSection> saved;
    if (b_reads()) {
      if (is_section) saved = section(c_, linear, lora_a_name(module_), 1);
      Var w = a(x, lora_a_name(name), {c_.experts, rank, out}, is_section ? 2 * out : out, saved);
      return grouped_linear(has_read, w, x.ends, Layout::plain, product);
    }
    if (is_section) saved = section(c_, linear, lora_b_name(module_), 0);
    Var w = b(x, lora_b_name(name), {c_.experts, out, rank}, saved);
    return grouped_linear(has_read, w, x.ends, Layout::transposed, product);
  }

  // As a weight of the linear layer says it.
  WeightAdapter of(const Linear& linear) const {
    const std::string given = without_number(is_joint(linear) ? linear.module : module_);
    const std::string read = without_number(module_);
    return {.a = lora_a_name(b_reads() ? given : read),
            .b = lora_b_name(b_reads() ? read : given),
            .scale = product_.scale,
            .transposed = traits(c_).is_known_as_plain};
  }

 private:
  bool b_reads() const { return traits(c_).is_plain && !traits(c_).is_known_as_plain; }
  bool is_joint(const Linear& linear) const { return !c_.lora.per_expert && linear.number; }

  // torch.nn.Linear's first values, `in` wide.
  Var a(const ExpertRows& x, const std::string& name, const Shape& shape, int64_t in,
        std::optional<SavedSection> section) const {
    Weight weight{.init = {Init::Kind::uniform, 1 / std::sqrt(static_cast<double>(in))},
                  .saved_section = std::move(section),
                  .of_adapter = true};
    if (!c_.lora.per_expert) weight.saved_shape = {shape[0] * shape[1], shape[2]};
    return expert_weight(*x.rows.trace, name, {shape, c_.dtype}, std::move(weight));
  }

  Var b(const ExpertRows& x, const std::string& name, const Shape& shape,
        std::optional<SavedSection> section) const {
    Weight weight{
        .init = {Init::Kind::zeros}, .saved_section = std::move(section), .of_adapter = true};
    weight.saved_innermost = !c_.lora.per_expert;
    return expert_weight(*x.rows.trace, name, {shape, c_.dtype}, std::move(weight));
  }

  const DecoderConfig& c_;
  LoraProduct product_;
  std::string module_;
};

std::string module_of(const DecoderConfig& c, const char* parameter) {
  return std::string(traits(c).module) + "." + parameter;
}

constexpr const char *kGateUp = "gate_up_proj", *kDown = "down_proj";

// The adapter of gate and up, or of down, whose own module is `linear`. A module of which two
// parameters have one is wrapped twice, gate and up first.
std::optional<ExpertAdapter> adapter(const DecoderConfig& c, const Adapters& adapters,
                                     const char* parameter, const Linear& linear) {
  const auto found = adapters.find(module_of(c, parameter));
  if (found == adapters.end()) return std::nullopt;
  if (c.lora.per_expert) return ExpertAdapter(c, found->second, linear.module);
  const bool is_inner = linear.number && adapters.contains(module_of(c, kDown));
  return ExpertAdapter(c, found->second,
                       std::string(traits(c).module) + (is_inner ? ".base_layer" : ""));
}

// --- products

// `has_read`: what the adapter has, where there is one.
Var product(const DecoderConfig& c, const ExpertRows& x, const Linear& linear,
            const std::optional<ExpertAdapter>& adapter, const std::optional<Var>& has_read) {
  Trace& t = *x.rows.trace;
  const bool is_plain = traits(c).is_plain;
  const int64_t in = x.rows.type().shape.back();
  const Shape shape =
      is_plain ? Shape{c.experts, in, linear.out} : Shape{c.experts, linear.out, in};
  Weight matrix = kLinear, bias = kBias;
  if (is_plain) matrix.inputs = InputAxis::before_last;
  matrix.saved_section = saved_section(c, linear, "", is_plain ? 2 : 1);
  bias.saved_section = saved_section(c, linear, "_bias", 1);
  if (adapter) matrix.adapter = adapter->of(linear);
  Var w = expert_weight(t, linear.module + (traits(c).are_numbered() ? ".weight" : ""),
                        {shape, c.dtype}, matrix);
  Var y = grouped_linear(x.rows, w, x.ends, is_plain ? Layout::plain : Layout::transposed);
  if (adapter) y = adapter->add(*has_read, x, linear, y);
  if (!traits(c).has_biases) return y;
  return add_grouped_bias(
      y, expert_weight(t, linear.module + "_bias", {{c.experts, linear.out}, c.dtype}, bias),
      x.ends);
}

std::optional<Var> read(const std::optional<ExpertAdapter>& adapter, const ExpertRows& x) {
  return adapter ? std::optional(adapter->read(x)) : std::nullopt;
}

}  // namespace

GateUp expert_gate_up(const DecoderConfig& c, const Adapters& adapters, const ExpertRows& x) {
  const Linear gate{std::string(traits(c).gate), expert_width(c), 0},
      up{std::string(traits(c).up), expert_width(c), 1};
  const auto of_gate = adapter(c, adapters, kGateUp, gate),
             of_up = adapter(c, adapters, kGateUp, up);
  const std::optional<Var> gate_read = read(of_gate, x);
  Var gated = product(c, x, gate, of_gate, gate_read);
  return {gated, product(c, x, up, of_up, c.lora.per_expert ? read(of_up, x) : gate_read)};
}

Var expert_down(const DecoderConfig& c, const Adapters& adapters, const ExpertRows& x) {
  const Linear down{std::string(traits(c).down), c.width};
  const auto of_down = adapter(c, adapters, kDown, down);
  return product(c, x, down, of_down, read(of_down, x));
}

}  // namespace longshore::models
