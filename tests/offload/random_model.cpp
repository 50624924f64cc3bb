#include "tests/offload/random_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/put.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/l2_penalty.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/mean_square_error.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/scale.h"
#include "longshore/models/ops/soft_cap.h"
#include "longshore/models/ops/swiglu.h"
#include "tests/offload/random.h"

namespace longshore::offload {
namespace {

using models::Decay;
using models::Dtype;
using models::Init;
using models::OutputRole;
using models::Program;
using models::Trace;
using models::Trainable;
using models::Type;
using models::Var;

constexpr std::array kLabels{"query_proj", "key_proj", "context", "out_proj", "mlpwi_0"};
constexpr const char* kTied = "tied";  // [C,C], in any stage that runs once

// One program, node by node.
class ProgramWriter {
 public:
  ProgramWriter(const std::string& name, const RandomModelSizes& sizes, Random& random,
                bool ties_train)
      : t_(name), s_(sizes), random_(random), ties_train_(ties_train) {}

  Type activation() const { return {{s_.batch, s_.length, s_.width}, s_.dtype}; }

  void embed() {
    Var tokens = t_.batch("tokens", ids());
    remember(models::embedding(tokens, table()));
  }

  void read_inputs(size_t count) {
    for (size_t i = 0; i < count; ++i)
      remember(t_.input("input" + std::to_string(i), activation()));
  }

  void read_earlier_layer() { remember(t_.earlier_layer("given", activation())); }
  void give_later_layers() { t_.give_later_layers(any(), "given"); }

  void add_nodes(int count, bool labels) {
    labels_ = labels;
    if (labels_ && !random_.one_in(3)) t_.label(values_[0], "decoder_layer_input");
    for (int i = 0; i < count; ++i) add_node();
  }

  // The last of `count` outputs depends on all that nothing else depends on, so that every weight
  // has a gradient.
  void outputs(int count) {
    for (int i = 1; i < count; ++i) t_.output(any());
    Var last = sum_of_unread();
    t_.output(random_.one_in(3) ? last : norm(last));
    if (random_.one_in(4)) models::scale(any(), kRandomScale);  // which nothing reads
  }

  void loss(OutputRole role) {
    switch (role == OutputRole::loss ? 0 : random_.below(3)) {
      case 0:
        t_.output(models::linear_cross_entropy(any(), table(), targets()), role);
        break;
      case 1:
        t_.output(models::mean_square_error(any(), any()), role);
        break;
      default:
        t_.output(models::l2_penalty(matrix(s_.width, s_.width), kRandomPenalty), role);
    }
  }

  // Of all that nothing else depends on. Something trains.
  void final_loss() {
    Var trained = t_.weight(weight_name(), {{s_.width}, s_.dtype}, {.init = {Init::Kind::ones}});
    Var x = models::add_bias(sum_of_unread(), trained);
    t_.output(models::linear_cross_entropy(x, table(), targets()), OutputRole::loss);
  }

  void may_use_tied_weight() { ties_ = true; }

  Program finish() { return t_.finish(); }

 private:
  Type ids() const { return {{s_.batch, s_.length}, Dtype::int32}; }

  Var targets() {
    if (!targets_.trace) targets_ = t_.batch("targets", ids());
    return targets_;
  }

  Var sum_of_unread() {
    if (unread_.empty()) return any();
    Var sum = unread_[0];
    for (size_t i = 1; i < unread_.size(); ++i) sum = models::add(sum, unread_[i]);
    return sum;
  }

  Var any() {
    Var value = random_.one_of(values_);
    std::erase_if(unread_, [&](Var v) { return v.id == value.id; });
    return value;
  }

  void remember(Var value) {
    values_.push_back(value);
    unread_.push_back(value);
  }

  // Of its own in stages that run once, whose weights have no prefix.
  std::string weight_name() { return t_.program().name + ".w" + std::to_string(weights_++); }

  models::Weight weight_of(Init init) {
    return {.trainable = random_.one_in(4) ? Trainable::no : Trainable::yes,
            .decay = random_.one_in(2) ? Decay::no : Decay::yes,
            .init = init};
  }

  Var table() {
    return t_.weight(weight_name(), {{s_.vocabulary, s_.width}, s_.dtype},
                     weight_of({Init::Kind::normal, 0.2}));
  }

  // Whether weights are to be split among devices.
  bool splits() { return s_.among && s_.among->axis == models::Axis::data && random_.one_in(2); }

  // This device's part of a matrix [out,in].
  Var part_of_matrix(int64_t out, int64_t in, int dimension) {
    models::Weight weight = weight_of({Init::Kind::normal, 0.2});
    weight.split = {{.axis = s_.among->axis, .dimension = dimension, .parts = s_.among->ranks}};
    const models::Shape whole{out, in};
    return t_.weight(weight_name(),
                     {whole.with(dimension, whole[dimension] / s_.among->ranks), s_.dtype}, weight);
  }

  Var vector() {
    return t_.weight(weight_name(), {{s_.width}, s_.dtype}, weight_of({Init::Kind::ones}));
  }

  Var matrix(int64_t out, int64_t in) {
    if (out == s_.width && in == s_.width) {
      if (ties_ && random_.one_in(4)) {
        if (!tied_.trace)
          tied_ = t_.weight(kTied, {{out, in}, s_.dtype},
                            {.trainable = ties_train_ ? Trainable::yes : Trainable::no,
                             .init = {Init::Kind::normal, 0.2}});
        return tied_;
      }
      if (!square_.empty() && random_.one_in(4)) return random_.one_of(square_);
    }
    Var weight = splits() ? all_gather(part_of_matrix(out, in, 0), *s_.among)
                          : t_.weight(weight_name(), {{out, in}, s_.dtype},
                                      weight_of({Init::Kind::normal, 0.2}));
    if (out == in) square_.push_back(weight);
    return weight;
  }

  Var norm(Var x) { return models::rms_norm(x, vector(), kRandomNormEpsilon); }

  Var project(Var x) { return may_label(models::linear(x, matrix(s_.width, s_.width))); }

  Var may_label(Var value) {
    if (labels_ && labelled_ < static_cast<int>(kLabels.size()) && random_.one_in(3))
      t_.label(value, kLabels[labelled_++]);
    return value;
  }

  Var node() {
    switch (random_.below(s_.among ? 12 : 10)) {
      case 0:
        return models::add(any(), any());
      case 1:
        return project(any());
      case 2:
        return models::linear(any(), matrix(s_.width, s_.width), any());
      case 3:
        return norm(any());
      case 4: {
        Var x = norm(any());  // or products of products grow without bound
        if (splits()) return split_mlp(x);
        Var gate = may_label(models::linear(x, matrix(s_.mlp_width, s_.width)));
        Var up = may_label(models::linear(x, matrix(s_.mlp_width, s_.width)));
        return models::linear(models::swiglu(gate, up), matrix(s_.width, s_.mlp_width));
      }
      case 5: {
        Var x = any();
        Var q = project(x), k = project(x), v = project(any());
        return models::attention(q, k, v, {.head_dim = s_.head_dim});
      }
      case 6:
        return models::scale(any(), kRandomScale);
      case 7:
        return random_.one_in(2) ? models::gelu(any()) : models::soft_cap(any(), kRandomCap);
      case 8:  // to the host and back
        return models::put(models::put(any(), models::MemoryKind::pinned_host),
                           models::MemoryKind::device);
      case 10:
      case 11:
        return exchange(any());
      default:
        return models::add_bias(any(), vector());
    }
  }

  // Each device has a part of the inner values, of its own rows.
  Var split_mlp(Var x) {
    Var gate = may_label(models::linear(x, part_of_matrix(s_.mlp_width, s_.width, 0)));
    Var up = may_label(models::linear(x, part_of_matrix(s_.mlp_width, s_.width, 0)));
    return models::linear(models::swiglu(gate, up), part_of_matrix(s_.width, s_.mlp_width, 1));
  }

  Var exchange(Var x) {
    switch (random_.below(4)) {
      case 0:
        return models::all_to_all(x, *s_.among);
      case 1:
        return models::scale(models::all_reduce(x, *s_.among), kRandomScale);
      case 2:
        return models::scale(reduce_scatter(may_label(all_gather(x, *s_.among)), *s_.among),
                             kRandomScale);
      default:
        return models::scale(all_gather(reduce_scatter(x, *s_.among), *s_.among), kRandomScale);
    }
  }

  void add_node() {
    Var made = node();
    if (made.trace->program()[made.id].label.empty()) may_label(made);
    remember(made);
  }

  Trace t_;
  const RandomModelSizes& s_;
  Random& random_;
  bool ties_train_, ties_ = false, labels_ = false;
  std::vector<Var> values_, unread_;  // activations; those that nothing reads yet
  std::vector<Var> square_;           // weights [C,C]
  Var tied_, targets_;
  int weights_ = 0, labelled_ = 0;
};

class ModelWriter {
 public:
  ModelWriter(uint32_t seed, const RandomModelSizes& sizes)
      : random_(seed), s_(sizes), ties_train_(!random_.one_in(3)) {
    model_.name = "random " + std::to_string(seed);
  }

  models::Model write() {
    once("embed", {}, /*embeds=*/true);
    if (random_.one_in(3)) scan("tower");
    if (random_.one_in(2)) once("middle", some_inputs());
    scan("decoder");
    head();
    models::connect(model_);
    return std::move(model_);
  }

 private:
  ProgramWriter writer_of(const std::string& name) {
    return ProgramWriter(name, s_, random_, ties_train_);
  }

  // The first is the latest there is.
  std::vector<models::StageInput> some_inputs() {
    std::vector<models::StageInput> inputs{latest_};
    for (int more = random_.below(3); more > 0; --more) inputs.push_back(random_.one_of(outputs_));
    return inputs;
  }

  void add_stage(const std::string& name, const std::string& prefix, std::vector<Program> programs,
                 std::vector<int> layers, std::vector<models::StageInput> inputs) {
    model_.stages.push_back({.name = name,
                             .weight_prefix = prefix,
                             .programs = std::move(programs),
                             .layers = std::move(layers),
                             .inputs = std::move(inputs)});
  }

  void give(int count) {
    for (int i = 0; i < count; ++i) outputs_.push_back({last_stage(), i});
    latest_ = {last_stage(), 0};
  }

  int last_stage() const { return static_cast<int>(model_.stages.size()) - 1; }

  void once(const std::string& name, std::vector<models::StageInput> inputs, bool embeds = false) {
    give(add_once(name, std::move(inputs), 1 + random_.below(2), embeds));
  }

  // Returns `count`, the number of its outputs.
  int add_once(const std::string& name, std::vector<models::StageInput> inputs, int count,
               bool embeds = false) {
    ProgramWriter writer = writer_of(name);
    writer.may_use_tied_weight();
    writer.read_inputs(inputs.size());
    if (embeds) writer.embed();
    writer.add_nodes(random_.below(4), /*labels=*/false);
    writer.outputs(count);
    if (random_.one_in(3)) writer.loss(OutputRole::auxiliary_loss);
    add_stage(name, "", {writer.finish()}, {0}, std::move(inputs));
    return count;
  }

  // Reads every output that no other stage reads.
  void head() {
    std::vector<models::StageInput> inputs;
    for (models::StageInput output : outputs_)
      if (output.stage == latest_.stage || !is_read(output) || random_.one_in(3))
        inputs.push_back(output);
    ProgramWriter writer = writer_of("head");
    writer.may_use_tied_weight();
    writer.read_inputs(inputs.size());
    writer.add_nodes(random_.below(4), /*labels=*/false);
    if (random_.one_in(3)) writer.loss(OutputRole::auxiliary_loss);
    writer.final_loss();
    add_stage("head", "", {writer.finish()}, {0}, std::move(inputs));
  }

  bool is_read(models::StageInput output) const {
    return std::ranges::any_of(model_.stages, [&](const models::Stage& stage) {
      return std::ranges::any_of(stage.inputs, [&](models::StageInput input) {
        return input.stage == output.stage && input.output == output.output;
      });
    });
  }

  // Layers of two kinds at most, or those that give something to later ones or read it.
  void scan(const std::string& name) {
    enum : int { kGives = 1, kReads = 2 };
    const bool gives = random_.one_in(3);
    const std::vector<int> exchanges =
        gives ? std::vector<int>{0, kGives, kReads, kGives | kReads}
              : std::vector<int>(static_cast<size_t>(1 + random_.below(2)), 0);
    const std::vector<int> layers =
        gives ? random_exchange() : random_layers(static_cast<int>(exchanges.size()));
    std::vector<models::StageInput> inputs = some_inputs();
    if (random_.one_in(3)) {  // another stage has an output for each layer
      add_once(name + "_inputs", some_inputs(), static_cast<int>(layers.size()));
      inputs.push_back({.stage = last_stage(), .by_layer = true});
    }
    std::vector<Program> programs;
    for (size_t kind = 0; kind < exchanges.size(); ++kind) {
      ProgramWriter writer = writer_of(name + "_layer" + std::to_string(kind));
      writer.read_inputs(inputs.size());
      if (exchanges[kind] & kReads) writer.read_earlier_layer();
      writer.add_nodes(1 + random_.below(6), /*labels=*/true);
      writer.outputs(1);
      if (exchanges[kind] & kGives) writer.give_later_layers();
      if (random_.one_in(3)) writer.loss(OutputRole::auxiliary_loss);
      if (random_.one_in(6)) writer.loss(OutputRole::loss);
      programs.push_back(writer.finish());
    }
    add_stage(name, name + ".{}.", std::move(programs), layers, std::move(inputs));
    give(1);
  }

  std::vector<int> random_layers(int kinds) {
    std::vector<int> layers;
    for (int layer = 1 + random_.below(4); layer > 0; --layer)
      layers.push_back(random_.below(kinds));
    return layers;
  }

  // Of kinds as numbered in scan(): what one layer gives, one or more read, the last of which may
  // give something else that others read.
  std::vector<int> random_exchange() {
    std::vector<int> layers;
    auto may_add = [&](int kind) {
      if (random_.one_in(2)) layers.push_back(kind);
    };
    may_add(0);
    layers.push_back(1);
    may_add(0);
    may_add(2);
    may_add(3);
    layers.push_back(2);
    may_add(2);
    may_add(0);
    return layers;
  }

  Random random_;
  const RandomModelSizes& s_;
  bool ties_train_;
  models::Model model_;
  std::vector<models::StageInput> outputs_;
  models::StageInput latest_;
};

}  // namespace

models::Model random_model(uint32_t seed, const RandomModelSizes& sizes) {
  return ModelWriter(seed, sizes).write();
}

}  // namespace longshore::offload
