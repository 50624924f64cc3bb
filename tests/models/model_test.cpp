#include "longshore/models/ir/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/models/families/decoder.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/labels.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/columns.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/rms_norm/rms_norm.h"

namespace longshore::models {
namespace {

const Type kCarry{{1, 2, 4}, Dtype::float32};

Weight weight(Trainable trainable) { return {.trainable = trainable, .init = {}}; }

Program first_stage(Trainable trainable) {
  Trace t("tower");
  Var x = t.batch("pixels", kCarry);
  t.output(linear(x, t.weight("w", {{4, 4}, Dtype::float32}, weight(trainable))));
  return t.finish();
}

// A layer that also reads `bias` from the first stage.
Program layer(Trainable trainable) {
  Trace t("layer");
  Var x = t.input("x", kCarry);
  Var side = t.input("side", kCarry);
  Var h = linear(x, t.weight("w", {{4, 4}, Dtype::float32}, weight(trainable)));
  t.output(add(h, side));
  return t.finish();
}

// tower -> two outputs' worth of inputs for a scan of `layers`.
Model tower_and_scan(Trainable tower, Trainable scan, int layers) {
  Model model{.name = "toy", .stages = {}};
  model.stages.push_back({.name = "tower",
                          .weight_prefix = "tower.",
                          .programs = {first_stage(tower)},
                          .layers = {0},
                          .inputs = {}});
  model.stages.push_back({.name = "decoder",
                          .weight_prefix = "layers.{}.",
                          .programs = {layer(scan)},
                          .layers = std::vector<int>(layers, 0),
                          .inputs = {{0, 0}, {0, 0}}});
  return model;
}

bool needs(const Program& program, const char* name) {
  return program[program.find(name)].needs_gradient;
}

TEST(Connect, GivesTheFirstLayerAfterAFrozenStageAKindOfItsOwn) {
  Model model = tower_and_scan(Trainable::no, Trainable::yes, 3);
  connect(model);
  const Stage& decoder = model.stages[1];
  EXPECT_EQ(decoder.layers, (std::vector<int>{1, 0, 0}));
  ASSERT_EQ(decoder.programs.size(), 2u);
  EXPECT_TRUE(needs(decoder.programs[0], "x"));
  EXPECT_FALSE(needs(decoder.programs[1], "x"));
  for (const Program& program : decoder.programs) {
    EXPECT_FALSE(needs(program, "side"));
    EXPECT_TRUE(needs(program, "add"));
    EXPECT_NO_THROW(verify(program));
  }
}

TEST(Connect, LeavesOneKindWhereAllLayersAreAlike) {
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 3);
  connect(model);
  EXPECT_EQ(model.stages[1].layers, (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(needs(model.stages[1].programs[0], "x"));
  EXPECT_TRUE(needs(model.stages[1].programs[0], "side"));

  model = tower_and_scan(Trainable::no, Trainable::yes, 1);
  connect(model);
  EXPECT_EQ(model.stages[1].layers, std::vector<int>{0});
  EXPECT_FALSE(needs(model.stages[1].programs[0], "x"));
  EXPECT_TRUE(needs(model.stages[1].programs[0], "add"));
}

TEST(Connect, MarksNothingInAFrozenModel) {
  Model model = tower_and_scan(Trainable::no, Trainable::no, 3);
  connect(model);
  EXPECT_EQ(model.stages[1].layers, (std::vector<int>{0, 0, 0}));
  for (const Stage& stage : model.stages)
    for (const Program& program : stage.programs)
      for (const Value& value : program.values) EXPECT_FALSE(value.needs_gradient) << value.name;
}

std::function<bool(const std::string&)> only(std::set<std::string> names) {
  return [names](const std::string& name) { return names.contains(name); };
}

// What each layer computes gradients of: its weight, its carry.
std::vector<std::pair<bool, bool>> gradients(const Stage& stage) {
  std::vector<std::pair<bool, bool>> result;
  for (int kind : stage.layers)
    result.emplace_back(needs(stage.programs[kind], "w"), needs(stage.programs[kind], "x"));
  return result;
}

TEST(SetTrainable, NothingBeforeTheFirstTrainedLayerNeedsAGradient) {
  using Gradients = std::vector<std::pair<bool, bool>>;
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 5);
  connect(model);
  set_trainable(model, only({"layers.2.w"}));
  EXPECT_EQ(
      gradients(model.stages[1]),
      (Gradients{{false, false}, {false, false}, {true, false}, {false, true}, {false, true}}));
  EXPECT_EQ(model.stages[1].programs.size(), 3u);
  EXPECT_FALSE(needs(model.stages[0].programs[0], "w"));
  EXPECT_EQ(count_parameters(model).trainable, 16);
  EXPECT_EQ(count_parameters(model).all, 6 * 16);

  // A second choice takes nothing from the first.
  set_trainable(model, only({"tower.w", "layers.4.w"}));
  EXPECT_EQ(gradients(model.stages[1]),
            (Gradients{{false, true}, {false, true}, {false, true}, {false, true}, {true, true}}));
  EXPECT_EQ(model.stages[1].programs.size(), 2u);
  for (const Stage& stage : model.stages)
    for (const Program& program : stage.programs) EXPECT_NO_THROW(verify(program));
  set_trainable(model, only({}));
  EXPECT_EQ(model.stages[1].programs.size(), 1u);
  EXPECT_EQ(count_parameters(model).trainable, 0);
  for (const Stage& stage : model.stages)
    for (const Program& program : stage.programs)
      for (const Value& value : program.values) EXPECT_FALSE(value.needs_gradient) << value.name;
}

TEST(Truncated, KeepsTheLayersInARowThatTrain) {
  using Gradients = std::vector<std::pair<bool, bool>>;
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 6);
  connect(model);
  EXPECT_EQ(truncated(model, 2).stages[1].layers,
            std::vector<int>(model.stages[1].layers.begin(), model.stages[1].layers.begin() + 2));
  EXPECT_EQ(truncated(model, 9).stages[1].layers, model.stages[1].layers);
  set_trainable(model, only({"layers.1.w", "layers.3.w", "layers.4.w"}));
  EXPECT_EQ(gradients(truncated(model, 2).stages[1]), (Gradients{{true, true}, {true, true}}));
  EXPECT_EQ(gradients(truncated(model, 4).stages[1]),
            (Gradients{{true, false}, {false, true}, {true, true}, {true, true}}));
}

// Layers that give something to later ones, read it, do both or neither.
enum Exchange : int { kNeither, kGives, kReads, kBoth };

Program exchanging_layer(int exchange) {
  Trace t("layer" + std::to_string(exchange));
  Var x = t.input("x", kCarry);
  Var h = linear(x, t.weight("w", {{4, 4}, Dtype::float32}, weight(Trainable::yes)));
  if (exchange & kReads) h = add(h, t.earlier_layer("given", kCarry));
  t.output(add(x, h));
  if (exchange & kGives) t.give_later_layers(h, "given");
  return t.finish();
}

Model tower_and_exchange(const std::vector<int>& layers) {
  Model model = tower_and_scan(Trainable::no, Trainable::no, 1);
  model.stages[1].programs.clear();
  for (int exchange : {kNeither, kGives, kReads, kBoth})
    model.stages[1].programs.push_back(exchanging_layer(exchange));
  model.stages[1].layers = layers;
  model.stages[1].inputs = {{0, 0}};
  return model;
}

TEST(EarlierLayers, GiveByNameToThoseThatFollow) {
  Model model = tower_and_exchange({kGives, kNeither, kReads, kBoth, kReads, kReads});
  connect(model);
  const Stage& scan = model.stages[1];
  using From = std::vector<LayerOutput>;
  for (int layer : {0, 1}) EXPECT_EQ(from_earlier_layers(scan, layer), From{});
  for (int layer : {2, 3}) EXPECT_EQ(from_earlier_layers(scan, layer), (From{{0, 1}}));
  for (int layer : {4, 5}) EXPECT_EQ(from_earlier_layers(scan, layer), (From{{3, 1}}));
}

TEST(EarlierLayers, NeedGradientsOfWhatTheyGiveWhereTheyTrain) {
  Model model = tower_and_exchange({kGives, kReads, kGives, kReads});
  connect(model);
  set_trainable(model, only({"layers.2.w"}));
  const Stage& scan = model.stages[1];
  std::vector<bool> needs_given;
  for (int layer : {1, 3}) needs_given.push_back(needs(scan.program(layer), "given"));
  EXPECT_EQ(needs_given, (std::vector<bool>{false, true}));
  set_trainable(model, only({"layers.0.w"}));
  EXPECT_TRUE(needs(model.stages[1].program(1), "given"));
  // What layer 2 gives follows from its carry.
  EXPECT_TRUE(needs(model.stages[1].program(3), "given"));
}

TEST(EarlierLayers, StayWithTheirReadersWhereAModelIsTruncated) {
  Model model = tower_and_exchange({kNeither, kGives, kNeither, kReads, kNeither, kNeither});
  connect(model);
  auto exchange = [](const Model& model) {
    std::vector<std::string> names;
    for (int layer = 0; layer < std::ssize(model.stages[1].layers); ++layer)
      names.push_back(model.stages[1].program(layer).name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(exchange(truncated(model, 3)), (Names{"layer1", "layer0", "layer2"}));
  EXPECT_EQ(exchange(truncated(model, 2)), (Names{"layer0", "layer0"}));
  model = tower_and_exchange({kGives, kNeither, kReads});
  connect(model);
  EXPECT_EQ(exchange(truncated(model, 2)).size(), 3) << "its reader would be left out";
}

TEST(EarlierLayers, AreRefusedWhereTheyDoNotFit) {
  auto error = [](Model model) -> std::string {
    try {
      connect(model);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error(tower_and_exchange({kNeither, kReads})),
            "stage decoder: layer 1 reads given, which no earlier layer gives");
  EXPECT_EQ(error(tower_and_exchange({kGives, kReads, kGives})),
            "toy: no layer of decoder reads given of layer 2");
  Trace t("wide");
  Var x = t.input("x", kCarry);
  t.output(x);
  t.give_later_layers(linear(x, t.weight("w", {{5, 4}, Dtype::float32}, weight(Trainable::yes))),
                      "given");
  Model wide = tower_and_exchange({kGives, kReads});
  wide.stages[1].programs[kGives] = t.finish();
  EXPECT_EQ(error(wide),
            "toy: layer 1 of decoder reads given as f32[1,2,4], but layer 0 gives f32[1,2,5]");
}

// A stage of a carry and of columns for each layer of the scan that follows.
Model columns_and_scan(int layers) {
  Model model{.name = "toy", .stages = {}};
  const Type wide{{1, 2, int64_t{3} * layers}, Dtype::float32}, own{{1, 2, 3}, Dtype::float32};
  Trace embed("embed");
  Var x = embed.batch("x", kCarry), all = embed.batch("all", wide);
  embed.output(linear(x, embed.weight("embed.w", {{4, 4}, Dtype::float32}, weight(Trainable::no))));
  Var rows = linear(all, embed.weight("all.w", {{wide.shape.back(), wide.shape.back()}, wide.dtype},
                                      weight(Trainable::yes)));
  for (int layer = 0; layer < layers; ++layer) embed.output(take_columns(rows, 3 * layer, 3));
  model.stages.push_back(
      {.name = "embed", .weight_prefix = "", .programs = {embed.finish()}, .layers = {0}});
  Trace t("layer");
  Var carry = t.input("x", kCarry), mine = t.input("own", own);
  t.output(
      add(carry, linear(mine, t.weight("w", {{4, 3}, Dtype::float32}, weight(Trainable::yes)))));
  model.stages.push_back({.name = "decoder",
                          .weight_prefix = "layers.{}.",
                          .programs = {t.finish()},
                          .layers = std::vector<int>(static_cast<size_t>(layers)),
                          .inputs = {{0, 0}, {.stage = 0, .output = 1, .by_layer = true}}});
  return model;
}

TEST(InputsByLayer, AreOutputsInARow) {
  Model model = columns_and_scan(3);
  EXPECT_NO_THROW(connect(model));
  EXPECT_EQ(model.stages[1].inputs[1].output_for(2), 3);
  for (const Program& program : model.stages[1].programs) EXPECT_TRUE(needs(program, "own"));
  model = columns_and_scan(3);
  model.stages[1].layers.push_back(0);  // which there is no output for
  EXPECT_THROW(connect(model), InternalError);
}

// What the layers that are left do not read is not made, and every output has a reader.
TEST(InputsByLayer, GoWithTheLayersThatATruncatedModelKeeps) {
  Model model = columns_and_scan(4);
  connect(model);
  set_trainable(model, only({"all.w", "layers.2.w", "layers.3.w"}));
  const Model few = truncated(model, 2);
  const Program& embed = few.stages[0].programs[0];
  ASSERT_EQ(embed.outputs.size(), 3u);
  for (int layer : {0, 1}) {
    const int output = few.stages[1].inputs[1].output_for(layer);
    EXPECT_EQ(embed[embed.outputs[output].value].name,
              layer == 0 ? "take_columns_3" : "take_columns_4");
  }
  EXPECT_EQ(std::ranges::count(embed.nodes, &take_columns_op, &Node::op), 2);
  EXPECT_NO_THROW(verify(embed));
}

TEST(Connect, RefusesStagesThatDoNotFit) {
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  model.stages[1].inputs = {{0, 0}};
  EXPECT_THROW(connect(model), InternalError);

  model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  model.stages[1].inputs = {{0, 0}, {1, 0}};
  EXPECT_THROW(connect(model), InternalError);

  model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  model.stages[1].inputs = {{0, 0}, {0, 1}};
  EXPECT_THROW(connect(model), InternalError);

  model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  Trace t("tower");
  t.output(t.batch("pixels", {{1, 2, 4}, Dtype::bfloat16}));
  model.stages[0].programs = {t.finish()};
  EXPECT_THROW(connect(model), InternalError);
}

TEST(Connect, RefusesAStageThatReadsMoreOfAScanThanItsCarry) {
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  Trace t("two_outputs");
  Type type = model.stages[1].programs[0][model.stages[1].programs[0].outputs[0].value].type;
  Var x = t.input("x", type), side = t.input("side", type);
  t.output(add(x, side));
  t.output(add(side, x));
  model.stages[1].programs = {t.finish()};
  Trace reader("reader");
  reader.output(add(reader.input("a", type), reader.input("b", type)));
  model.stages.push_back({.name = "reader",
                          .weight_prefix = "",
                          .programs = {reader.finish()},
                          .layers = {0},
                          .inputs = {{1, 0}, {1, 1}}});
  EXPECT_THROW(connect(model), InternalError);
  model.stages[2].inputs[1] = {1, 0};
  EXPECT_NO_THROW(connect(model));
}

TEST(Connect, RefusesAScanWithoutACarry) {
  Model model = tower_and_scan(Trainable::no, Trainable::yes, 2);
  model.stages[1].programs = {first_stage(Trainable::yes)};
  model.stages[1].inputs = {};
  EXPECT_THROW(connect(model), InternalError);

  Trace wider("wider");
  Var x = wider.input("x", kCarry);
  wider.output(linear(x, wider.weight("w", {{6, 4}, Dtype::float32}, weight(Trainable::yes))));
  model = tower_and_scan(Trainable::no, Trainable::yes, 2);
  model.stages[1].programs = {wider.finish()};
  model.stages[1].inputs = {{0, 0}};
  EXPECT_THROW(connect(model), InternalError);
}

TEST(Llama, ScansASingleLayerToo) {
  Model model = decoder({.length = 16,
                         .vocabulary = 32,
                         .width = 32,
                         .layers = 1,
                         .query_heads = 2,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .mlp_width = 32});
  EXPECT_TRUE(model.stages[1].is_scan());
  EXPECT_FALSE(model.stages[0].is_scan());
}

TEST(WeightName, PutsTheLayerIntoThePrefix) {
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  const Program& program = model.stages[1].programs[0];
  EXPECT_EQ(weight_name(model.stages[1], 17, program[program.find("w")]), "layers.17.w");
  EXPECT_EQ(weight_name(model.stages[0], 0, program[program.find("w")]), "tower.w");
}

// --- Llama

struct Shipped {
  const char* name;
  DecoderConfig config;
  int64_t parameters;  // as published
};

DecoderConfig shape(int64_t vocabulary, int64_t width, int layers, int64_t query_heads,
                    int64_t kv_heads, int64_t mlp_width) {
  return {.vocabulary = vocabulary,
          .width = width,
          .layers = layers,
          .query_heads = query_heads,
          .kv_heads = kv_heads,
          .mlp_width = mlp_width};
}

TEST(Llama, HasAsManyParametersAsThePublishedModels) {
  for (const Shipped& model :
       {Shipped{"Llama 2 7B", shape(32000, 4096, 32, 32, 32, 11008), 6'738'415'616},
        Shipped{"Llama 2 13B", shape(32000, 5120, 40, 40, 40, 13824), 13'015'864'320},
        Shipped{"Llama 2 70B", shape(32000, 8192, 80, 64, 8, 28672), 68'976'648'192},
        Shipped{"Llama 3 8B", shape(128256, 4096, 32, 32, 8, 14336), 8'030'261'248},
        Shipped{"Llama 3 70B", shape(128256, 8192, 80, 64, 8, 28672), 70'553'706'496}})
    EXPECT_EQ(count_parameters(decoder(model.config)).all, model.parameters) << model.name;
}

DecoderConfig small_llama() {
  return {.batch = 2,
          .length = 8,
          .vocabulary = 50,
          .width = 16,
          .layers = 3,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 4,
          .mlp_width = 24,
          .dtype = Dtype::bfloat16};
}

TEST(Llama, CountsTiedEmbeddingsOnce) {
  DecoderConfig tied = small_llama();
  tied.tied_embeddings = true;
  EXPECT_EQ(count_parameters(decoder(small_llama())).all - count_parameters(decoder(tied)).all,
            50 * 16);
}

// Matrices are decayed, norms and biases never. Gemma adds 1 to the weights of norms. An adapter
// starts as nothing, its first factor as PyTorch's linear layers do.
TEST(Decoder, WeightsDecayAndStartAsTheirKindDoes) {
  for (const Family* family : families())
    for (int64_t rank : {0, 2}) {
      DecoderConfig config = small_llama();
      config.family = family;
      config.attention_bias = config.mlp_bias = true;
      const ExpertTraits& experts = family->layer.experts;
      const bool has_experts = !experts.router.empty() && !experts.is_beside();
      if (has_experts) config.experts = config.experts_per_token = 2;
      if (family == &kGptOss) config.activation_limit = 7;
      config.lora = {.rank = rank, .targets = lora_targets(family->layer)};
      const Model model = decoder(config);
      int matrices = 0, biases = 0, norms = 0;
      for (const Stage& stage : model.stages)
        for (ValueId id : stage.programs[0].inputs_from(Source::weight)) {
          const Value& value = stage.programs[0][id];
          const auto& [decay, init] = std::pair(value.weight->decay, value.weight->init);
          const bool is_bias = value.name.ends_with("bias");
          const bool is_matrix = value.type.shape.rank() >= 2 && !is_bias;
          EXPECT_EQ(decay, is_matrix ? Decay::yes : Decay::no) << value.name;
          if (is_bias || value.name.ends_with("lora_B.weight")) {
            EXPECT_EQ(init.kind, Init::Kind::zeros) << value.name;
            biases += is_bias;
          } else if (value.name.ends_with("lora_A.weight")) {
            EXPECT_EQ(init.kind, Init::Kind::uniform) << value.name;
            // Where A gives what experts do, it has the width of gate and up together.
            const int64_t width = value.type.shape.back() * (value.weight->saved_section ? 2 : 1);
            EXPECT_DOUBLE_EQ(init.scale * init.scale * width, 1) << value.name;
          } else if (is_matrix || value.name.ends_with("sinks")) {
            EXPECT_EQ(init.kind, Init::Kind::normal) << value.name;
            EXPECT_EQ(init.scale, 0.02) << value.name;
            matrices += is_matrix;
          } else {
            const bool is_added = family->layer.norm_offset == 1 && value.name != "layer_scalar";
            EXPECT_EQ(init.kind, is_added ? Init::Kind::zeros : Init::Kind::ones) << value.name;
            ++norms;
          }
        }
      const bool is_shared = !experts.shared.empty();
      EXPECT_EQ(matrices,
                (config.tied_embeddings ? 8 + 1 : 7 + 2) + has_experts + (is_shared ? 3 : 0));
      EXPECT_EQ(biases, family == &kGptOss          ? 4 + 1 + 3
                        : has_experts && !is_shared ? 4
                        : family == &kGlm4          ? 6
                                                    : 7);
      const bool is_around = family == &kGemma2 || family == &kGemma3Text || family == &kGlm4 ||
                             family == &kGemma4Text;
      const bool has_qk_norms = family == &kQwen3 || family == &kGemma3Text || family == &kOlmo2 ||
                                family == &kOlmo3 || family == &kGemma4Text || family == &kQwen3Moe;
      const int scalars = family == &kGemma4Text ? 1 : 0;
      EXPECT_EQ(norms, (is_around ? 5 : 3) + (has_qk_norms ? 2 : 0) + scalars);
    }
}

TEST(Llama, TracesADecoderLayer) {
  EXPECT_EQ(text(decoder(small_llama()).stages[1].programs[0]), R"(program decoder_layer
  input decoder_layer_input: bf16[2,8,16]
  input rope_cos: f32[2,8,2]
  input rope_sin: f32[2,8,2]
  weight input_layernorm.weight: bf16[16]
  weight self_attn.q_proj.weight: bf16[16,16]
  weight self_attn.k_proj.weight: bf16[8,16]
  weight self_attn.v_proj.weight: bf16[8,16]
  weight self_attn.o_proj.weight: bf16[16,16]
  weight post_attention_layernorm.weight: bf16[16]
  weight mlp.gate_proj.weight: bf16[24,16]
  weight mlp.up_proj.weight: bf16[24,16]
  weight mlp.down_proj.weight: bf16[16,24]
  rms_norm, rms_norm.1 = rms_norm(decoder_layer_input, input_layernorm.weight) {epsilon=1e-05} : bf16[2,8,16], f32[16]
  linear = linear(rms_norm, self_attn.q_proj.weight) : bf16[2,8,16]
  linear_2 = linear(rms_norm, self_attn.k_proj.weight) : bf16[2,8,8]
  value_proj = linear(rms_norm, self_attn.v_proj.weight) : bf16[2,8,8]
  query_proj = rope(linear, rope_cos, rope_sin) {forward} : bf16[2,8,16]
  key_proj = rope(linear_2, rope_cos, rope_sin) {forward} : bf16[2,8,8]
  context, attention.1 = attention(query_proj, key_proj, value_proj) {causal, head_dim=4} : bf16[2,8,16], f32[2,4,8]
  out_proj = linear(context, self_attn.o_proj.weight) : bf16[2,8,16]
  add = add(decoder_layer_input, out_proj) : bf16[2,8,16]
  rms_norm_2, rms_norm_2.1 = rms_norm(add, post_attention_layernorm.weight) {epsilon=1e-05} : bf16[2,8,16], f32[16]
  mlpwi_0 = linear(rms_norm_2, mlp.gate_proj.weight) : bf16[2,8,24]
  mlpwi_1 = linear(rms_norm_2, mlp.up_proj.weight) : bf16[2,8,24]
  swiglu = swiglu(mlpwi_0, mlpwi_1) : bf16[2,8,24]
  mlpwo = linear(swiglu, mlp.down_proj.weight) : bf16[2,8,16]
  add_2 = add(add, mlpwo) : bf16[2,8,16]
  return add_2
)");
}

TEST(MainStage, IsTheOnlyScanOrTheOneThatIsNamed) {
  Model model = tower_and_scan(Trainable::yes, Trainable::yes, 2);
  EXPECT_EQ(&main_stage(model), &model.stages[1]);
  Model two = model;
  two.stages.push_back(two.stages[1]);
  two.stages[2].name = "second";
  EXPECT_THROW(main_stage(two), InternalError);
  two.main_stage = "second";
  EXPECT_EQ(&main_stage(two), &two.stages[2]);
  model.stages.pop_back();
  EXPECT_THROW(main_stage(model), InternalError);
}

TEST(Decoder, EmitsEachLabelOnce) {
  DecoderConfig config = small_llama();
  config.family = &kQwen3Moe;
  config.experts = config.experts_per_token = 2;
  config.sparse = {true, false};
  std::vector<std::string> emitted = labels(decoder(config)), known;
  for (const LabelInfo& label : kDecoderLabels) known.emplace_back(label.name);
  std::ranges::sort(emitted);
  std::ranges::sort(known);
  EXPECT_EQ(emitted, known);
}

TEST(Llama, LogitsHeadReadsChosenRows) {
  Model model = decoder(small_llama(), {.head = Head::logits, .rows = 5});
  const Program& head = model.stages.back().programs[0];
  ASSERT_EQ(head.outputs.size(), 1u);
  EXPECT_EQ(head.outputs[0].role, OutputRole::value);
  EXPECT_EQ(head[head.outputs[0].value].type, (Type{{5, 50}, Dtype::bfloat16}));
  const Program loss = decoder(small_llama()).stages.back().programs[0];
  EXPECT_EQ(loss.outputs[0].role, OutputRole::loss);
  EXPECT_EQ(loss[loss.outputs[0].value].type, (Type{{}, Dtype::float32}));
}

}  // namespace
}  // namespace longshore::models
