#include "longshore/offload/policy/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/swiglu.h"
#include "longshore/offload/lowering/layer_partitions.h"
#include "tests/message_of.h"
#include "tests/offload/toy_models.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;
using testing::Not;

using models::Node;
using models::Program;
using models::Source;
using models::ValueId;
using Custom = std::map<std::string, Action>;
using Names = std::set<std::string>;

// One of each name, and `custom` with every pair of labels, and with all.
std::vector<Policy> many_policies(const Program& layer) {
  std::vector<std::string> labels = layer.labels();
  std::vector<Policy> all;
  for (const PolicyInfo& info : policies()) all.push_back(make_policy(info.name, {}, layer));
  Custom every;
  for (const std::string& a : labels) {
    every[a] = Action::keep;
    for (const std::string& b : labels)
      if (a <= b)
        all.push_back(make_policy("custom", {{a, Action::keep}, {b, Action::keep}}, layer));
  }
  all.push_back(make_policy("custom", every, layer));
  return all;
}

Partition partition_of(const Program& layer, const Policy& policy) {
  return partition(layer, models::backward(layer), policy);
}

Partition partition_of(const Program& layer, const std::string& name, const Custom& custom = {}) {
  return partition_of(layer, make_policy(name, custom, layer));
}

Program llama_layer() { return layer_program(models::decoder(tiny_llama())); }

std::vector<ValueId> values(const std::vector<Residual>& residuals) {
  std::vector<ValueId> ids;
  for (const Residual& residual : residuals) ids.push_back(residual.value);
  return ids;
}

// What the policy decides about: values that the layer's nodes make.
Names kept(const Partition& p) {
  Names names;
  for (ValueId id : values(p.residuals))
    if (p.forward[id].source == Source::node) names.insert(p.forward[id].name);
  return names;
}

// The carry, and what other stages give: there under every policy.
Names kept_inputs(const Partition& p) {
  Names names;
  for (ValueId id : values(p.residuals))
    if (p.forward[id].source == Source::input) names.insert(p.forward[id].name);
  return names;
}

// Names of the values that are made again.
Names recomputed(const Partition& p) {
  Names names;
  for (ValueId id : p.recomputed)
    if (p.backward.find(p.forward[id].name + ".remat")) names.insert(p.forward[id].name);
  EXPECT_EQ(names.size(), p.recomputed.size());
  return names;
}

Names minus(const Names& a, const Names& b) {
  Names rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
  return rest;
}

int64_t kept_bytes(const Partition& p) {
  int64_t bytes = 0;
  for (ValueId id : values(p.residuals)) bytes += p.forward[id].type.bytes();
  return bytes;
}

std::string describe(const Names& names) {
  std::string line;
  for (const std::string& name : names) line += name + " ";
  return line;
}

// --- goldens

void expect_golden(const std::string& name, const std::string& text) {
  std::string path = std::string(LONGSHORE_SOURCE_DIR) + "/tests/goldens/plans/" + name + ".txt";
  if (std::getenv("LONGSHORE_UPDATE_GOLDENS")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, golden) << path << " differs; LONGSHORE_UPDATE_GOLDENS=1 rewrites it";
}

TEST(PartitionGolden, LlamaLayer) {
  Program layer = llama_layer();
  expect_golden("llama_layer_none", text(partition_of(layer, "none")));
  expect_golden("llama_layer_full", text(partition_of(layer, "full")));
  expect_golden("llama_layer_save_qkv_proj", text(partition_of(layer, "save_qkv_proj")));
  expect_golden(
      "llama_layer_custom",
      text(partition_of(layer, "custom", {{"context", Action::keep}, {"mlpwi_0", Action::keep}})));
}

// --- what must hold whatever the text says

TEST(Partition, BothProgramsAreSound) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer)) {
    Partition p = partition_of(layer, policy);
    // Every value is made once and before it is read; residuals and inputs are there.
    for (const Program* program : {&p.forward, &p.backward}) {
      std::set<int> made;
      for (ValueId id : program == &p.forward ? layer.inputs : values(p.residuals))
        made.insert(id.index);
      if (program == &p.backward)
        for (ValueId id : program->inputs)
          if ((*program)[id].source != Source::node) made.insert(id.index);
      for (const Node& node : program->nodes) {
        for (ValueId in : node.in) EXPECT_TRUE(made.count(in.index)) << text(*program, node);
        for (ValueId out : node.out)
          EXPECT_TRUE(made.insert(out.index).second) << text(*program, node);
      }
    }
  }
}

TEST(Partition, ResidualsAreReadAndNothingIsBothKeptAndRecomputed) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer)) {
    Partition p = partition_of(layer, policy);
    std::set<ValueId> read;
    for (const Node& node : p.backward.nodes) read.insert(node.in.begin(), node.in.end());
    for (ValueId id : values(p.residuals)) EXPECT_TRUE(read.count(id)) << p.forward[id].name;
    Names again = recomputed(p);
    EXPECT_EQ(minus(kept(p), again), kept(p)) << describe(again);
  }
}

// Recomputation stops at what is kept, and nothing is made again that no gradient needs.
TEST(Partition, EveryRecomputedValueIsRead) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer)) {
    Partition p = partition_of(layer, policy);
    std::set<ValueId> read;
    for (const Node& node : p.backward.nodes) read.insert(node.in.begin(), node.in.end());
    for (const models::Output& output : p.backward.outputs) read.insert(output.value);
    for (const Node& node : p.backward.nodes)
      EXPECT_TRUE(std::any_of(node.out.begin(), node.out.end(), [&](ValueId id) {
        return read.count(id) > 0;
      })) << text(p.backward, node);
  }
}

// Clones run as late as possible: the node that wants a value comes before any node that doesn't.
TEST(Partition, RecomputationIsLate) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer)) {
    Partition p = partition_of(layer, policy);
    for (size_t i = 0; i < p.backward.nodes.size(); ++i) {
      const Node& clone = p.backward.nodes[i];
      if (!clone.recomputes) continue;
      size_t reader = i + 1;
      auto reads = [&](const Node& node) {
        return std::any_of(node.in.begin(), node.in.end(), [&](ValueId in) {
          return std::find(clone.out.begin(), clone.out.end(), in) != clone.out.end();
        });
      };
      while (!reads(p.backward.nodes[reader])) ++reader;
      for (size_t between = i + 1; between < reader; ++between)
        EXPECT_TRUE(p.backward.nodes[between].recomputes)
            << text(p.backward, clone) << " waits while there runs "
            << text(p.backward, p.backward.nodes[between]);
    }
  }
}

TEST(Partition, TheLastProjectionIsNeitherKeptNorRecomputed) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer)) {
    Partition p = partition_of(layer, policy);
    EXPECT_FALSE(kept(p).count("mlpwo")) << policy.name;
    EXPECT_FALSE(recomputed(p).count("mlpwo")) << policy.name;
    // ... nor the layer's output, which is the next layer's input.
    ValueId output = layer.outputs[0].value;
    EXPECT_FALSE(kept(p).count(layer[output].name));
    EXPECT_FALSE(recomputed(p).count(layer[output].name));
  }
}

TEST(Partition, NoneRecomputesNothing) {
  EXPECT_EQ(describe(recomputed(partition_of(llama_layer(), "none"))), "");
}

TEST(Partition, FullKeepsNothingAndRecomputesAllThatIsRead) {
  Program layer = llama_layer();
  Partition full = partition_of(layer, "full"), none = partition_of(layer, "none");
  EXPECT_EQ(describe(kept(full)), "");
  // What `none` keeps is what the backward program reads; `full` has to make it all again.
  Names again = recomputed(full);
  for (const std::string& name : kept(none)) {
    ValueId id = layer.find(name);
    std::string first = layer[layer.nodes[layer[id].producer].out[0]].name;
    EXPECT_TRUE(again.count(first)) << name;
  }
}

TEST(Partition, SavedQueriesKeysAndValuesAreNotMadeAgain) {
  Partition p = partition_of(llama_layer(), "save_qkv_proj");
  EXPECT_EQ(kept(p), (Names{"query_proj", "key_proj", "value_proj"}));
  int recomputed_linears = 0;
  for (const Node& node : p.backward.nodes) {
    if (!node.recomputes) continue;
    EXPECT_STRNE(node.op->name, "rope");
    if (std::string(node.op->name) != "linear") continue;
    ++recomputed_linears;
    std::string weight = p.backward[node.in[1]].name;
    for (const char* projection : {"q_proj", "k_proj", "v_proj", "down_proj"})
      EXPECT_THAT(weight, Not(HasSubstr(projection)));
  }
  EXPECT_EQ(recomputed_linears, 3);  // out, gate, up
}

TEST(Partition, KeptContextBringsItsLogSumExpAndNoAttentionRunsAgain) {
  Program layer = llama_layer();
  Partition p = partition_of(layer, "custom", {{"context", Action::keep}});
  const Node& attention = layer.nodes[layer[layer.find("context")].producer];
  ASSERT_EQ(attention.out.size(), 2u);
  EXPECT_EQ(kept(p), (Names{layer[attention.out[0]].name, layer[attention.out[1]].name}));
  for (const Node& node : p.backward.nodes) EXPECT_STRNE(node.op->name, "attention");
  // Keeping only what attention reads does recompute it, once.
  Partition without = partition_of(layer, "save_qkv_proj");
  EXPECT_EQ(std::count_if(without.backward.nodes.begin(), without.backward.nodes.end(),
                          [](const Node& n) { return std::string(n.op->name) == "attention"; }),
            1);
}

TEST(Partition, TheCarryIsKeptUnderEveryPolicy) {
  Program layer = llama_layer();
  for (const Policy& policy : many_policies(layer))
    EXPECT_EQ(kept_inputs(partition_of(layer, policy)),
              (Names{"decoder_layer_input", "rope_cos", "rope_sin"}))
        << policy.name;
}

TEST(Partition, KeepingMoreRecomputesLess) {
  Program layer = llama_layer();
  std::vector<std::string> labels = layer.labels();
  Custom custom;
  Partition before = partition_of(layer, "custom", custom);
  for (const std::string& label : labels) {
    custom[label] = Action::keep;
    Partition after = partition_of(layer, "custom", custom);
    EXPECT_EQ(describe(minus(recomputed(after), recomputed(before))), "") << label;
    EXPECT_GE(kept_bytes(after), kept_bytes(before)) << label;
    before = std::move(after);
  }
}

TEST(Partition, AFrozenWeightKeepsNoInputOfItsMatmul) {
  Program layer = llama_layer();
  Names all = kept(partition_of(layer, "none"));
  auto lost_by_freezing = [&](std::initializer_list<std::string_view> weights) {
    Names some = kept(partition_of(with_frozen(layer, weights), "none"));
    EXPECT_EQ(describe(minus(some, all)), "");
    return minus(all, some);
  };
  auto input_of = [&](const char* weight) {
    for (const Node& node : layer.nodes)
      if (node.in.size() == 2 && layer[node.in[1]].name == weight) return layer[node.in[0]].name;
    return std::string("no such weight");
  };
  EXPECT_EQ(lost_by_freezing({"mlp.down_proj.weight"}), Names{input_of("mlp.down_proj.weight")});
  EXPECT_EQ(lost_by_freezing({"mlp.gate_proj.weight"}), Names{});  // up's matmul reads it too
  EXPECT_EQ(lost_by_freezing({"mlp.gate_proj.weight", "mlp.up_proj.weight"}),
            Names{input_of("mlp.up_proj.weight")});
  EXPECT_EQ(lost_by_freezing(
                {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}),
            Names{input_of("self_attn.q_proj.weight")});
  // Attention's own gradient reads the context, whoever trains.
  EXPECT_EQ(lost_by_freezing({"self_attn.o_proj.weight"}), Names{});
}

// h and u are kept, so their product is quicker to make again than to keep, although a label asks
// for it; where one of them is not there, it is kept.
TEST(Partition, CheapOpsWithKeptInputsAreRecomputed) {
  models::Trace t("layer");
  models::Weight matrix{.init = {models::Init::Kind::normal, 1}};
  models::Var x = t.label(t.input("carry", {{2, 4, 8}}), "decoder_layer_input");
  models::Var h = t.label(linear(x, t.weight("wh", {{8, 8}}, matrix)), "mlpwi_0");
  models::Var u = t.label(linear(x, t.weight("wu", {{8, 8}}, matrix)), "mlpwi_1");
  models::Var a = t.label(swiglu(h, u), "mlpwi");
  t.output(linear(a, t.weight("wo", {{8, 8}}, matrix)));
  Program layer = t.finish();

  Custom custom{{"mlpwi_0", Action::keep}, {"mlpwi_1", Action::keep}, {"mlpwi", Action::keep}};
  Partition both = partition_of(layer, "custom", custom);
  EXPECT_EQ(kept(both), (Names{"mlpwi_0", "mlpwi_1"}));
  EXPECT_EQ(recomputed(both), Names{"mlpwi"});

  custom["mlpwi_1"] = Action::remat;
  Partition one = partition_of(layer, "custom", custom);
  EXPECT_EQ(kept(one), (Names{"mlpwi_0", "mlpwi"}));
  EXPECT_EQ(recomputed(one), Names{"mlpwi_1"});

  // `none` keeps everything that is read.
  EXPECT_EQ(kept(partition_of(layer, "none")), (Names{"mlpwi_0", "mlpwi_1", "mlpwi"}));
}

TEST(Partition, BackToBackTheLossIsMadeOnce) {
  models::Model model = models::decoder(tiny_llama());
  const Program& head = model.stages[stage_index(model, "head")].programs[0];
  models::BackwardProgram backward = models::backward(head);
  auto losses = [](const Program& program) {
    return std::count_if(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
      return std::string(node.op->name) == "linear_cross_entropy";
    });
  };
  Partition apart = partition(head, backward, keep_all(), Schedule::apart);
  EXPECT_EQ(losses(apart.forward), 1);
  EXPECT_TRUE(apart.remade_outputs.empty());

  Partition joined = partition(head, backward, keep_all(), Schedule::back_to_back);
  EXPECT_EQ(losses(joined.forward), 0);
  EXPECT_EQ(joined.forward.nodes.size(), apart.forward.nodes.size() - 1);
  ASSERT_EQ(joined.remade_outputs.size(), 1u);
  EXPECT_EQ(joined.remade_outputs[0].output, head.outputs[0].value);
  EXPECT_EQ(joined.backward[joined.remade_outputs[0].value].type, head[head.outputs[0].value].type);
}

// Labels that somebody names must be read in the layers that follow that policy, and only there.
TEST(LayerPartitions, HonourEachPolicyInItsOwnLayers) {
  const models::Model model = models::decoder(tiny_llama());
  auto with_others = [&](const char* label) {
    auto offloading = [&](const char* one) {
      return make_policy("custom", {{one, Action::offload}}, llama_layer());
    };
    return partition_layers(
        model,
        StagePolicy{
            .first = offloading("query_proj"), .offload_layers = 1, .others = offloading(label)},
        InitialGradients::nothing);
  };
  EXPECT_EQ(with_others("mlpwi_0").plans.size(), 4u);
  const std::string message = message_of<ConfigError>([&] { with_others("mlpwo"); });
  EXPECT_TRUE(message.starts_with("mlpwo: offload cannot be honoured")) << message;
}

// Nothing of a stage without anything to train is kept, and it has no backward pass.
TEST(Partition, AFrozenTowerKeepsNothing) {
  models::Model model = toy();
  for (const char* name : {"patches", "tower"}) {
    const Program& program = model.stages[stage_index(model, name)].programs[0];
    Partition p = partition_of(program, keep_all());
    EXPECT_TRUE(p.residuals.empty()) << name;
    EXPECT_TRUE(p.backward.nodes.empty()) << name;
    EXPECT_TRUE(p.gradients.empty()) << name;
    EXPECT_EQ(p.forward.nodes.size(), program.nodes.size()) << name;
  }
}

}  // namespace
}  // namespace longshore::offload
