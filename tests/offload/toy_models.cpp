// B batch, T length, C width, F mlp_width, V a vocabulary.
#include "tests/offload/toy_models.h"

#include <algorithm>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/stages.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/attention/attention.h"
#include "longshore/models/ops/embedding/embedding.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"
#include "longshore/models/ops/rope/rope.h"
#include "longshore/models/ops/swiglu.h"

namespace longshore::offload {

using models::Dtype;
using models::Init;
using models::Program;
using models::Source;
using models::Trace;
using models::Trainable;
using models::Type;
using models::ValueId;
using models::Var;
using models::Weight;

models::DecoderConfig tiny_llama(Dtype dtype) {
  return {.batch = 2,
          .length = 24,
          .vocabulary = 61,
          .width = 48,
          .layers = 3,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .mlp_width = 80,
          .dtype = dtype};
}

const Program& layer_program(const models::Model& model) {
  return models::stage_named(model, "decoder").programs[0];
}

models::DecoderConfig llama2_13b() {
  return {.batch = 1,
          .length = 4096,
          .vocabulary = 32000,
          .width = 5120,
          .layers = 40,
          .query_heads = 40,
          .kv_heads = 40,
          .head_dim = 128,
          .mlp_width = 13824,
          .dtype = Dtype::bfloat16};
}

Program with_frozen(Program program, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    models::Value& value = program[program.find(name)];
    value.weight->trainable = Trainable::no;
    value.needs_gradient = false;
  }
  std::vector<ValueId> inputs;
  for (ValueId id : program.inputs_from(Source::input))
    if (program[id].needs_gradient) inputs.push_back(id);
  models::set_input_gradients(program, inputs);
  return program;
}

int stage_index(const models::Model& model, std::string_view name) {
  auto stage = std::find_if(model.stages.begin(), model.stages.end(),
                            [&](const models::Stage& s) { return s.name == name; });
  return static_cast<int>(stage - model.stages.begin());
}

namespace {

const Weight kTrained{.init = {Init::Kind::normal, 0.2}};
const Weight kFrozen{.trainable = Trainable::no, .init = {Init::Kind::normal, 0.2}};
const Weight kNorm{.decay = models::Decay::no, .init = {Init::Kind::ones}};

Var matrix(Trace& t, const char* name, int64_t out, int64_t in, const Weight& weight = kTrained) {
  return t.weight(name, {{out, in}}, weight);
}

Program patches(const ToySizes& s) {
  Trace t("patches");
  Var ids = t.batch("patches", {{s.batch, s.length}, Dtype::int32});  // [B,T]
  t.output(models::embedding(ids, matrix(t, "patch_table", s.patch_vocabulary, s.width, kFrozen)));
  return t.finish();
}

Program tower_layer(const ToySizes& s) {
  Trace t("tower_layer");
  Var x = t.label(t.input("tower_input", {{s.batch, s.length, s.width}}), "decoder_layer_input");
  Var gate = models::linear(x, matrix(t, "gate", s.mlp_width, s.width, kFrozen));  // [B,T,F]
  Var up = models::linear(x, matrix(t, "up", s.mlp_width, s.width, kFrozen));      // [B,T,F]
  Var down = models::linear(models::swiglu(t.label(gate, "mlpwi_0"), up),
                            matrix(t, "down", s.width, s.mlp_width, kFrozen));  // [B,T,C]
  t.output(models::add(x, down));
  return t.finish();
}

Program projector(const ToySizes& s) {
  Trace t("projector");
  Var x = t.input("tower_output", {{s.batch, s.length, s.width}});
  t.output(models::linear(x, matrix(t, "projector", s.width, s.width)));
  return t.finish();
}

Program embed(const ToySizes& s) {
  Trace t("embed");
  Var tokens = t.batch("tokens", {{s.batch, s.length}, Dtype::int32});
  t.output(models::embedding(tokens, matrix(t, "embedding", s.vocabulary, s.width)));
  return t.finish();
}

enum class Kind { attends_to_memory, ignores_memory };

Program decoder_layer(const ToySizes& s, Kind kind) {
  Trace t("decoder_layer");
  Type activation{{s.batch, s.length, s.width}}, ids{{s.batch, s.length}, Dtype::int32};
  int64_t head_width = s.heads * s.head_dim;

  Var x = t.label(t.input("carry", activation), "decoder_layer_input");  // [B,T,C]
  Var memory = t.input("memory", activation);                            // [B,T,C]
  models::RopeTable table = models::rope_table(t.batch("positions", ids), s.head_dim, s.rope_base);
  Var hints = t.batch("hints", ids);  // [B,T]

  Var n = models::rms_norm(x, t.weight("norm", {{s.width}}, kNorm), s.norm_epsilon);
  Var read = kind == Kind::attends_to_memory ? models::add(n, memory) : n;
  Var q = models::rope(models::linear(n, matrix(t, "q", head_width, s.width)), table);
  Var k = models::rope(models::linear(read, matrix(t, "k", head_width, s.width)), table);
  Var v = models::linear(read, matrix(t, "v", head_width, s.width));
  Var context = models::attention(t.label(q, "query_proj"), t.label(k, "key_proj"),
                                  t.label(v, "value_proj"), {.head_dim = s.head_dim});
  Var out = models::linear(t.label(context, "context"), matrix(t, "o", s.width, head_width));
  Var residual = models::add(x, t.label(out, "out_proj"));
  Var hint_loss =
      models::linear_cross_entropy(residual, matrix(t, "hint", s.hint_vocabulary, s.width), hints);

  Var gate = models::linear(residual, matrix(t, "gate", s.mlp_width, s.width));
  Var up = models::linear(residual, matrix(t, "up", s.mlp_width, s.width));
  Var down = models::linear(models::swiglu(t.label(gate, "mlpwi_0"), t.label(up, "mlpwi_1")),
                            matrix(t, "down", s.width, s.mlp_width));
  t.output(models::add(residual, t.label(down, "mlpwo")));
  t.output(hint_loss, models::OutputRole::auxiliary_loss);
  return t.finish();
}

Program head(const ToySizes& s) {
  Trace t("head");
  Var x = t.input("decoder_output", {{s.batch, s.length, s.width}});
  Var n = models::rms_norm(x, t.weight("final_norm", {{s.width}}, kNorm), s.norm_epsilon);
  Var targets = t.batch("targets", {{s.batch, s.length}, Dtype::int32});
  t.output(models::linear_cross_entropy(n, matrix(t, "embedding", s.vocabulary, s.width), targets),
           models::OutputRole::loss);
  return t.finish();
}

}  // namespace

models::Model toy(const ToySizes& s) {
  models::Stage decoder =
      models::scan("decoder", decoder_layer(s, Kind::attends_to_memory), 3, {{3, 0}, {2, 0}});
  decoder.programs.push_back(decoder_layer(s, Kind::ignores_memory));
  decoder.layers = {0, 1, 0};
  return models::connected(
      "toy", {models::run_once(patches(s)), models::scan("tower", tower_layer(s), 3, {{0, 0}}),
              models::run_once(projector(s), {{1, 0}}), models::run_once(embed(s)), decoder,
              models::run_once(head(s), {{4, 0}})});
}

}  // namespace longshore::offload
