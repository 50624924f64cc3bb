#include "longshore/offload/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "tests/offload/toy_models.h"

namespace longshore::offload {
namespace {

using testing::HasSubstr;
using testing::Not;

using Labels = std::vector<std::string>;

Labels llama_labels() { return layer_program(models::decoder(tiny_llama())).labels(); }

// A layer whose carry has the first of the labels, and a value each of the others.
models::Program layer_emitting(const Labels& labels) {
  models::Trace t("layer");
  models::Type type{{4}};
  models::Var carry = t.input("carry", type);
  for (size_t i = 0; i < labels.size(); ++i) t.label(i == 0 ? carry : add(carry, carry), labels[i]);
  t.output(carry);
  return t.finish();
}

Policy policy_for(const std::string& name, const std::map<std::string, Action>& custom,
                  const Labels& labels) {
  return make_policy(name, custom, layer_emitting(labels));
}

std::string refusal(const std::string& name, const std::map<std::string, Action>& custom,
                    const Labels& labels) {
  try {
    policy_for(name, custom, labels);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_mentions(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part));
}

TEST(Policy, NamesAreAllListed) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.push_back(info.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"none", "full", "minimal", "minimal_with_context",
                                      "save_dot_with_context_except_mlp", "save_dot_except_mlpwi",
                                      "save_dot_except_mlp", "save_qkv_proj", "save_out_proj",
                                      "qkv_proj_offloaded", "minimal_offloaded", "custom"}));
}

TEST(Policy, EveryNameSuitsALlama) {
  Labels labels = llama_labels();
  for (const PolicyInfo& info : policies()) {
    EXPECT_FALSE(info.meaning.empty()) << info.name;
    Policy policy = policy_for(info.name, {}, labels);
    EXPECT_EQ(policy.name, info.name);
    // A row speaks only of labels there are; else it would silently do nothing.
    for (const auto& [label, action] : policy.actions)
      EXPECT_NE(std::find(labels.begin(), labels.end(), label), labels.end()) << label;
  }
}

TEST(Policy, ActionsAreTheTables) {
  Labels labels = llama_labels();
  for (const std::string& label : labels) {
    EXPECT_EQ(policy_for("none", {}, labels).action(label), Action::keep) << label;
    EXPECT_EQ(policy_for("full", {}, labels).action(label), Action::remat) << label;
    bool is_qkv = label == "query_proj" || label == "key_proj" || label == "value_proj";
    EXPECT_EQ(policy_for("save_qkv_proj", {}, labels).action(label),
              is_qkv ? Action::keep : Action::remat)
        << label;
  }
  EXPECT_EQ(policy_for("none", {}, labels).action(""), Action::keep);
  EXPECT_EQ(policy_for("full", {}, labels).action(""), Action::remat);
}

TEST(Policy, ActionsAreKnownByTheirNames) {
  for (Action action : {Action::keep, Action::offload, Action::remat})
    EXPECT_EQ(action_named(name(action)), action);
  EXPECT_THROW(action_named("host"), ConfigError);
}

TEST(Policy, CustomFollowsItsKeysAndRematsTheRest) {
  Policy policy =
      policy_for("custom", {{"context", Action::keep}, {"mlpwi_0", Action::remat}}, llama_labels());
  EXPECT_EQ(policy.action("context"), Action::keep);
  EXPECT_EQ(policy.action("mlpwi_0"), Action::remat);
  EXPECT_EQ(policy.action("mlpwi_1"), Action::remat);
  EXPECT_EQ(policy.action(""), Action::remat);
}

TEST(Policy, TheKeyForUnlabelledValuesChangesNoLabel) {
  const Labels labels = llama_labels();
  Policy policy =
      policy_for("custom", {{kUnlabelled, Action::keep}, {"context", Action::offload}}, labels);
  EXPECT_EQ(policy.action(""), Action::keep);
  for (const std::string& label : labels)
    EXPECT_EQ(policy.action(label), label == "context" ? Action::offload : Action::remat) << label;
  expect_mentions(refusal("custom", {{kUnlabelled, Action::offload}}, labels),
                  {kUnlabelled, "offload", "expected device or remat"});
}

TEST(Policy, FusedProjectionsStandForTheSeparateOnes) {
  Policy policy = policy_for("save_qkv_proj", {}, Labels{"decoder_layer_input", "qkv_proj"});
  EXPECT_EQ(policy.action("qkv_proj"), Action::keep);
  EXPECT_EQ(policy.actions.size(), 1u);
  EXPECT_EQ(policy_for("save_qkv_proj", {}, llama_labels()).actions.count("qkv_proj"), 0u);
}

TEST(Policy, AGroupMustBeThereWhole) {
  expect_mentions(refusal("save_qkv_proj", {}, {"decoder_layer_input", "query_proj", "context"}),
                  {"save_qkv_proj", "query_proj", "context"});
  expect_mentions(refusal("save_qkv_proj", {}, {}), {"save_qkv_proj"});
}

TEST(Policy, UnknownNamesGetTheNearest) {
  std::string message = refusal("save_qkv_prj", {}, llama_labels());
  expect_mentions(message, {"remat_policy", "save_qkv_prj", "nearest: save_qkv_proj"});
  for (const PolicyInfo& info : policies()) expect_mentions(message, {info.name.c_str()});
  EXPECT_THAT(refusal("elephant", {}, llama_labels()), Not(HasSubstr("Nearest")));
}

TEST(Policy, CustomKeysMustBeEmittedLabels) {
  Labels labels = llama_labels();
  std::string message = refusal("custom", {{"contxt", Action::keep}}, labels);
  expect_mentions(message, {"contxt", "nearest: context"});
  for (const std::string& label : labels) expect_mentions(message, {label.c_str()});
}

TEST(Policy, CustomKeysNeedThePolicyCustom) {
  for (const PolicyInfo& info : policies()) {
    std::string message = refusal(info.name, {{"context", Action::keep}}, llama_labels());
    if (info.name == "custom")
      EXPECT_EQ(message, "");
    else
      expect_mentions(message, {"context", "custom", info.name.c_str()});
  }
}

TEST(Policy, TheCarryIsNeverComputedAgain) {
  expect_mentions(refusal("custom", {{"decoder_layer_input", Action::remat}}, llama_labels()),
                  {"decoder_layer_input", "remat"});
  EXPECT_EQ(refusal("custom", {{"decoder_layer_input", Action::keep}}, llama_labels()), "");
}

}  // namespace
}  // namespace longshore::offload
