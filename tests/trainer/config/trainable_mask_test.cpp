#include "longshore/trainer/config/trainable_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "longshore/base/error.h"
#include "longshore/models/families/lora_config.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "tests/offload/toy_models.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

using Names = std::set<std::string>;

Config with_mask(std::vector<std::string> mask) {
  Config config;
  config.trainable_parameters_mask = std::move(mask);
  return config;
}

models::DecoderConfig lora() {
  models::DecoderConfig config = offload::tiny_llama();
  config.lora = {.rank = 2, .targets = {"q_proj"}};
  return config;
}

Names trained(const std::vector<std::string>& mask,
              const models::DecoderConfig& decoder = offload::tiny_llama()) {
  models::Model model = models::decoder(decoder);
  apply_mask(with_mask(mask), model);
  Names names;
  for (const offload::Bucket& bucket : offload::lay_out(model).buckets)
    for (const offload::Parameter& parameter : bucket.parameters)
      if (bucket.trainable == models::Trainable::yes) names.insert(parameter.name);
  return names;
}

std::string refusal(const std::vector<std::string>& mask) {
  try {
    trained(mask);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainableMask, AnyExpressionThatIsFoundCounts) {
  Names all = trained({});
  EXPECT_GT(all.size(), 20u);
  EXPECT_EQ(trained({"."}), all);
  EXPECT_EQ(trained({R"(layers\.1\.self_attn\.[qk]_proj)", "^lm_head"}),
            (Names{"model.layers.1.self_attn.q_proj.weight",
                   "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"}));
  // Everything but: a look-ahead that PCRE2 has.
  Names but = all;
  std::erase_if(but, [](const std::string& name) { return name.find("mlp") != name.npos; });
  EXPECT_LT(but.size(), all.size());
  EXPECT_EQ(trained({"^(?!.*mlp)"}), but);
}

// Tied embeddings are one parameter.
TEST(TrainableMask, HoldsWhereverAParameterIsUsed) {
  models::DecoderConfig config = offload::tiny_llama();
  config.tied_embeddings = true;
  EXPECT_EQ(trained({"embed_tokens"}, config), Names{"model.embed_tokens.weight"});
}

TEST(TrainableMask, ReachesSingleExperts) {
  models::DecoderConfig config = offload::tiny_llama();
  config.family = &models::kQwen3Moe;
  config.experts = 4;
  config.experts_per_token = 2;
  models::Model model = models::decoder(config);
  apply_mask(with_mask({R"(layers\.1\.mlp\.experts\.[13]\.up_proj)"}), model);
  EXPECT_EQ(count_parameters(model).trainable, 2 * config.width * expert_width(config));
}

TEST(TrainableMask, AddsToAdapters) {
  Names adapters = trained({}, lora());
  for (const std::string& name : adapters) EXPECT_TRUE(models::is_lora_weight(name)) << name;
  EXPECT_EQ(adapters.size(), 2u * static_cast<size_t>(lora().layers));
  Names more = adapters;
  more.insert("model.norm.weight");
  EXPECT_EQ(trained({R"(^model\.norm)"}, lora()), more);
}

TEST(TrainableMask, WhatIsFoundNowhereIsRefused) {
  EXPECT_EQ(refusal({"q_proj"}), "");
  std::string what = refusal({"q_proj", "self_attn.v_prj"});
  for (const char* part : {"default trainable_parameters_mask: found self_attn.v_prj, expected",
                           "model.embed_tokens.weight", "nearest: v_proj"})
    EXPECT_THAT(what, HasSubstr(part));
  what = refusal({"zzzzzzzz"});
  EXPECT_THAT(what, HasSubstr("found zzzzzzzz, expected"));
  EXPECT_THAT(what, Not(HasSubstr("nearest")));
}

TEST(TrainableMask, WhatIsNoExpressionIsRefused) {
  for (const char* text : {"(", "[a", "*a", "a{2,1}", "(?<n>a)(?<n>b)", "\\", "(?C"}) {
    std::string what = refusal({text});
    EXPECT_THAT(what, HasSubstr("expected a regular expression; at byte ")) << text;
  }
}

// Time, stack and memory are bounded, whatever the expression.
TEST(TrainableMask, EndlessExpressionsEnd) {
  auto start = std::chrono::steady_clock::now();
  std::string nested(120, '(');
  nested += "a*";
  for (int i = 0; i < 120; ++i) nested += ")*";
  for (const std::string& text :
       {std::string("(\\w*)*(\\w*)*(\\w*)*!"), std::string("^(\\w+\\.?)+!$"),
        std::string("(.*)*(.*)*(.*)*(.*)*(.*)*!"), std::string("(?R)?.(?R)?!"),
        nested.substr(0, 256)})
    EXPECT_NE(refusal({text}), "") << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace longshore::trainer
