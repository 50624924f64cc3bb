#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/hf/config.h"
#include "tests/golden_cases.h"
#include "tests/message_of.h"

namespace longshore::models {
namespace {

using testing::HasSubstr;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  int64_t integer(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool coin() { return integer(0, 1) == 1; }
  double number(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(engine_);
  }
  // As people write them, or with all bits.
  double round_or_odd(double least, double most) {
    return coin() ? std::round(number(least, most)) + 1 : number(least, most);
  }

 private:
  std::mt19937 engine_;
};

YarnRopeScaling random_yarn(Random& random) {
  return {.factor = random.round_or_odd(1, 64),
          .original_max_position_embeddings = random.round_or_odd(64, 131072),
          .beta_fast = random.round_or_odd(8, 64),
          .beta_slow = random.number(0.1, 4),
          .truncate = random.coin(),
          .attention_factor = random.number(0.5, 2)};
}

// Than the sizes that all have.
bool has_to_say_more(const Family& family) {
  return &family == &kMinistral3 || &family == &kGemma4Text || !family.hf.expert_counts.empty();
}

RopeScaling random_scaling(Random& random) {
  switch (random.integer(0, 3)) {
    case 0:
      return random_yarn(random);
    case 1:
      return LinearRopeScaling{random.round_or_odd(1, 64)};
    case 2:
      return Llama3RopeScaling{random.round_or_odd(1, 64), random.number(0.1, 1),
                               random.round_or_odd(2, 8), random.round_or_odd(64, 131072)};
    default:
      return {};
  }
}

// What every family has.
DecoderConfig random_sizes(Random& random) {
  DecoderConfig c;
  c.vocabulary = random.integer(1, 1 << 20);
  c.width = random.integer(1, 1 << 14);
  c.layers = static_cast<int>(random.integer(1, 40));
  c.kv_heads = random.integer(1, 16);
  c.query_heads = c.kv_heads * random.integer(1, 8);
  c.head_dim = 2 * random.integer(1, 256);
  c.mlp_width = random.integer(1, 1 << 16);
  c.norm_epsilon = random.coin() ? 1e-6 : random.number(0, 1e-3);
  c.rope_base = random.round_or_odd(2, 1e6);
  c.rope_scaling = random_scaling(random);
  c.tied_embeddings = random.coin();
  c.max_position_embeddings = random.integer(1, 1 << 20);
  if (random.coin()) c.pad_token = random.integer(0, c.vocabulary - 1);
  c.dtype = random.coin() ? Dtype::bfloat16 : Dtype::float32;
  return c;
}

void add_windows(Random& random, DecoderConfig& c) {
  c.window = random.integer(1, 8192);
  const int64_t period = random.integer(0, 7);  // 0: anything
  for (int64_t layer = 1; layer <= c.layers; ++layer)
    c.windowed.push_back(period == 0 ? random.coin() : layer % period != 0);
}

DecoderConfig random_model(Random& random, const std::string& type) {
  DecoderConfig c = random_sizes(random);
  c.family = find_family(type);
  auto has = [&](const Field& field) {
    return std::ranges::find(c.family->hf.fields, &field, &FamilyField::field) !=
           c.family->hf.fields.end();
  };
  if (has(kAttentionBias)) c.attention_bias = random.coin();
  if (has(kMlpBias)) c.mlp_bias = random.coin();
  for (const Field* field :
       {&kEmbeddingMultiplier, &kAttentionMultiplier, &kResidualMultiplier, &kLogitsScaling})
    if (has(*field)) set_value(*field, random.round_or_odd(0.01, 20), c);
  if (c.family->hf.windows == Windows::all) c.window = random.coin() ? random.integer(1, 8192) : 0;
  if (has(kTemperatureBeta)) {
    c.rope_scaling = random_yarn(random);
    c.temperature_beta = random.number(0, 1);
  }
  if (!c.family->hf.scales_rope) c.rope_scaling = {};
  if (has(kPartialRotaryFactor)) c.partial_rotary_factor = c.head_dim % 4 == 0 ? 0.5 : 1;
  if (c.family->hf.nope_layer_interval > 0)
    for (int64_t layer = 0; layer < c.layers; ++layer) c.rotated.push_back(random.coin());
  if (!c.family->hf.expert_counts.empty() && (!c.family->hf.experts_flag || random.coin())) {
    c.experts = random.integer(1, 256);
    c.experts_per_token = random.integer(1, c.experts);
    if (has(kExpertWidth)) c.expert_width = random.integer(1, 4096);
  }
  if (has(kNormalizesExperts)) c.normalizes_experts = random.coin();
  if (c.family->hf.dense_layers != DenseLayers::none)
    for (int64_t layer = 0; layer < c.layers; ++layer) c.sparse.push_back(random.coin());
  for (const Field* field : {&kUsesQkNorm, &kUnrotatedTemperature})
    if (has(*field)) set_value(*field, random.coin() ? 1 : 0, c);
  for (const Field* field : {&kActivationAlpha, &kActivationLimit, &kUnrotatedTemperatureBeta})
    if (has(*field)) set_value(*field, random.round_or_odd(0.01, 20), c);
  if (has(kUnrotatedTemperatureLength)) c.unrotated_temperature_length = random.integer(1, 1 << 20);
  if (c.family->hf.windows != Windows::by_layer) return c;
  add_windows(random, c);
  if (!c.family->hf.scales_windows && c.rope_scaling != RopeScaling{})
    c.window_rope_base = c.rope_base;
  if (has(kGlobalHeadDim)) {
    c.windowed.back() = false;
    c.window_rope_base = random.round_or_odd(1, 1e6);
    c.logits_cap = random.coin() ? random.round_or_odd(1, 50) : 0;
    c.keys_as_values = random.coin();
    if (random.coin()) c.global_head_dim = 2 * c.head_dim;
    if (c.keys_as_values && c.kv_heads > 1) c.global_kv_heads = 1;
    c.kv_shared_layers = random.integer(0, c.layers - 1);
    while (layer_without_keys(c)) --c.kv_shared_layers;
    c.double_wide_mlp = random.coin();
    c.per_layer_width = random.coin() ? random.integer(1, 256) : 0;
  }
  if (!has(kQueryPreAttnScalar)) return c;
  c.query_pre_attn_scalar = static_cast<double>(random.integer(1, 512));
  c.logits_cap = random.coin() ? random.round_or_odd(1, 50) : 0;
  if (type == "gemma3_text")
    c.window_rope_base = random.round_or_odd(1, 1e6);
  else
    c.attention_cap = random.coin() ? random.round_or_odd(1, 50) : 0;
  return c;
}

TEST(HfConfigWriting, GivesBackRandomModelsOfEveryFamily) {
  Random random(1);
  for (const Family* family : families()) {
    for (int i = 0; i < 200; ++i) {
      const DecoderConfig config = random_model(random, family->name);
      const std::string text = write_hf_config(config);
      ASSERT_EQ(parse_hf_config(text), config) << text;
      ASSERT_THAT(text, HasSubstr("\"model_type\": \"" + std::string(family->name) + "\""));
    }
  }
}

// Features put together that no family has: nothing of them is lost in silence.
TEST(HfConfigWriting, AnythingElseIsRefusedAndNeverLost) {
  Random random(2);
  int written = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    DecoderConfig c = random_sizes(random);
    c.family = families()[random.integer(0, std::ssize(families()) - 1)];
    auto seldom = [&] { return random.integer(0, 5) == 0; };
    c.attention_bias = seldom();
    c.mlp_bias = seldom();
    if (seldom()) c.query_pre_attn_scalar = random.round_or_odd(1, 512);
    if (seldom()) c.attention_multiplier = random.round_or_odd(0.1, 2);
    if (seldom()) c.nope_layer_interval = random.integer(1, 50);
    if (seldom()) c.residual_multiplier = random.number(0.1, 1);
    if (seldom()) c.attention_cap = 50;
    if (seldom()) c.logits_cap = 30;
    if (seldom()) c.window_rope_base = 1000;
    if (random.coin()) add_windows(random, c);
    if (seldom()) c.windowed.clear();
    if (seldom()) {
      c.experts = random.integer(1, 9);
      c.experts_per_token = random.integer(1, c.experts);
      if (random.coin()) c.expert_width = random.integer(1, 99);
      if (random.coin()) c.sparse = {true, false};
      c.normalizes_experts = random.coin();
    }
    try {
      const std::string text = write_hf_config(c);
      ASSERT_EQ(with_defaults_written_out(parse_hf_config(text)), with_defaults_written_out(c))
          << text;
      ++written;
    } catch (const ConfigError& error) {
      ASSERT_THAT(error.what(), HasSubstr(", differs in "));
      ++refused;
    }
  }
  EXPECT_GT(written, 1000);
  EXPECT_GT(refused, 1000);
  // Read back it would be the same, but transformers takes integers alone.
  DecoderConfig odd = random_model(random, "gemma2");
  odd.query_pre_attn_scalar = 2.5;
  EXPECT_THAT(message_of<ConfigError>([&] { write_hf_config(odd); }),
              HasSubstr("query_pre_attn_scalar, which has to be an integer"));
}

// tests/transformers/same_model.py loads these texts with transformers.
TEST(HfConfigWriting, WritesWhatTransformersWasTriedWith) {
  int in_both_spellings = 0;
  for (const std::string& name : golden_cases(GoldenKind::text)) {
    const std::string folder = "tests/goldens/models/" + name;
    const DecoderConfig config = parse_hf_config(read_text(folder + "/config.json"));
    for (const char* file : {"/config_v4.json", "/config_v56.json"}) {
      if (!std::filesystem::exists(folder + file)) continue;
      EXPECT_EQ(parse_hf_config(read_text(folder + file)), config) << name;
      ++in_both_spellings;
    }
    EXPECT_EQ(write_hf_config(config), read_text("tests/goldens/hf_config/" + name + ".json"));
  }
  EXPECT_EQ(in_both_spellings, 12);
  for (const std::string name : {"paligemma2", "paligemma2_window", "gemma3_vision"}) {
    const DecoderConfig config =
        parse_hf_config(read_text("tests/goldens/models/" + name + "/config.json"),
                        UnknownKeys::refuse, Images::read);
    const std::string written = write_hf_config(config);
    EXPECT_EQ(written, read_text("tests/goldens/hf_config/" + name + ".json"));
    EXPECT_EQ(parse_hf_config(written, UnknownKeys::refuse, Images::read).vision, config.vision);
  }
}

TEST(HfConfigWriting, TheDtypeChangesAlone) {
  EXPECT_EQ(with_hf_dtype(R"({"z":1e-05,"a":[1,"ä"],"torch_dtype":"float16","b":null})", "float32"),
            "{\n  \"z\": 1e-05,\n  \"a\": [\n    1,\n    \"ä\"\n  ],\n"
            "  \"torch_dtype\": \"float32\",\n  \"b\": null\n}\n");
  EXPECT_EQ(with_hf_dtype(R"({"dtype":"float16","a":1})", "bfloat16"),
            "{\n  \"dtype\": \"bfloat16\",\n  \"a\": 1\n}\n");
  EXPECT_EQ(with_hf_dtype(R"({"a":10000.0})", "float16"),
            "{\n  \"a\": 10000.0,\n  \"dtype\": \"float16\"\n}\n");
  for (const char* text : {"", "[]", "{\"a\":NaN}", "{\"a\":\"\xff\"}"})
    EXPECT_THROW(with_hf_dtype(text, "float32"), DataError) << text;
}

// transformers' defaults.
TEST(HfConfigReading, TheNormsEpsilonMayBeLeftOut) {
  const std::map<std::string, double> others{
      {"olmo2", 1e-5}, {"olmo3", 1e-5}, {"phi3", 1e-5}, {"glm4", 1.5625e-07}};
  for (const Family* family : families()) {
    if (has_to_say_more(*family)) continue;
    const auto other = others.find(family->name);
    EXPECT_EQ(parse_hf_config("{\"model_type\":\"" + std::string(family->name) + "\"," +
                              R"("vocab_size":10,"hidden_size":8,"num_hidden_layers":2,)"
                              R"("num_attention_heads":2,"intermediate_size":12,)"
                              R"("num_key_value_heads":1,"head_dim":4})")
                  .norm_epsilon,
              other == others.end() ? 1e-6 : other->second)
        << family->name;
  }
}

// Nothing and null are not the same to transformers.
TEST(HfConfigReading, NullDiffersFromAnAbsentKey) {
  const std::string start =
      R"("vocab_size":10,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,)"
      R"("intermediate_size":12,"rms_norm_eps":1e-5,"num_key_value_heads":1,"head_dim":4)";
  auto read = [&](const std::string& type, const std::string& more) {
    const std::string experts =
        type == "qwen3_moe"
            ? R"(,"moe_intermediate_size":4,"num_experts":2,"num_experts_per_tok":1)"
            : "";
    return parse_hf_config("{\"model_type\":\"" + type + "\"," + start + experts + more + "}");
  };
  for (const char* type : {"mistral", "gemma2", "gemma3_text"}) {
    EXPECT_EQ(read(type, "").window, 4096);
    EXPECT_EQ(read(type, R"(,"sliding_window":null)").window, 0);
    EXPECT_EQ(read(type, R"(,"sliding_window":7)").window, 7);
  }
  EXPECT_EQ(read("gemma2", "").attention_cap, 50);
  EXPECT_EQ(read("gemma2", "").logits_cap, 30);
  EXPECT_EQ(read("gemma2", R"(,"attn_logit_softcapping":null)").attention_cap, 0);
  EXPECT_EQ(read("gemma2", R"(,"final_logit_softcapping":null)").logits_cap, 0);
  EXPECT_EQ(read("gemma3_text", "").logits_cap, 0);
  // As published, and read by nobody.
  EXPECT_EQ(read("gemma2", R"(,"sliding_window":7,"sliding_window_size":7)").window, 7);
  for (const char* type : {"qwen2", "qwen3"}) {
    const std::string on = R"(,"use_sliding_window":true,"sliding_window":7)";
    EXPECT_NO_THROW(read(type, R"(,"use_sliding_window":false,"sliding_window":7)"));
    EXPECT_NO_THROW(read(type, on));  // from layer 28 on
    EXPECT_NO_THROW(read(type, on + R"(,"max_window_layers":2)"));
    EXPECT_THROW(read(type, on + R"(,"max_window_layers":1)"), DataError);
    EXPECT_THROW(read(type, R"(,"layer_types":["full_attention","sliding_attention"])"), DataError);
    EXPECT_NO_THROW(read(type, on + R"(,"max_window_layers":1,)" +
                                   R"("layer_types":["full_attention","full_attention"])"));
  }
  for (const char* type : {"qwen2", "qwen3", "qwen3_moe"}) {
    const std::string of_first = R"(,"max_window_layers":0)";
    EXPECT_NO_THROW(read(type, of_first));
    EXPECT_NO_THROW(read(type, of_first + R"(,"use_sliding_window":true,"sliding_window":null)"));
    EXPECT_THROW(read(type, of_first + R"(,"use_sliding_window":true)"), DataError);
  }
  for (const char* type : {"qwen3_moe", "smollm3"}) {
    EXPECT_NO_THROW(read(type, R"(,"use_sliding_window":false,"sliding_window":7)"));
    EXPECT_THROW(read(type, R"(,"use_sliding_window":true,"sliding_window":7)"), DataError);
  }
  EXPECT_NO_THROW(read("smollm3", R"(,"use_sliding_window":true)"));
  EXPECT_NO_THROW(read("phi3", R"(,"resid_pdrop":0.0,"embd_pdrop":0.1)"));
  EXPECT_THROW(read("phi3", R"(,"resid_pdrop":0.1)"), DataError);
  // Layers with a window have no scaling here.
  auto gemma3 = [&](const std::string& local) {
    return read("gemma3_text", R"(,"rope_parameters":{"full_attention":{"rope_type":"linear",)"
                               R"("factor":8},"sliding_attention":{)" +
                                   local + "}}");
  };
  EXPECT_EQ(gemma3(R"("rope_theta":5)").window_rope_base, 5);
  EXPECT_THROW(gemma3(R"("rope_theta":5,"rope_type":"linear","factor":2)"), DataError);
  // transformers writes both names of a kind that it read under the older one.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    auto scaling = [&](const std::string& kind) {
      return read("llama", ",\"" + std::string(key) + "\":{" + kind + ",\"factor\":2}")
          .rope_scaling;
    };
    const RopeScaling expected = LinearRopeScaling{2};
    EXPECT_EQ(scaling(R"("type":"linear")"), expected);
    EXPECT_EQ(scaling(R"("type":"linear","rope_type":"linear")"), expected);
    EXPECT_THROW(scaling(R"("type":"default","rope_type":"linear")"), DataError);
  }
  // Both spellings have to agree.
  const std::string linear = R"({"rope_type":"linear","factor":4)";
  EXPECT_NO_THROW(read("llama", R"(,"rope_theta":5,"rope_scaling":)" + linear +
                                    R"(},"rope_parameters":)" + linear + R"(,"rope_theta":5})"));
  for (const char* older :
       {R"(,"rope_theta":6)", R"(,"rope_scaling":{"type":"linear","factor":2})"})
    EXPECT_THROW(read("llama", older + (R"(,"rope_parameters":)" + linear + R"(,"rope_theta":5})")),
                 DataError)
        << older;
}

// Small models of every family, with what is said besides.
DecoderConfig small_model(const std::string& type, const std::string& more,
                          UnknownKeys unknown = UnknownKeys::refuse) {
  return parse_hf_config(
      "{\"model_type\":\"" + type +
          R"(","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,)" +
          R"("intermediate_size":12,"rms_norm_eps":1e-5,"num_key_value_heads":1,"head_dim":4)" +
          more + "}",
      unknown);
}

TEST(HfConfigReading, WhatTransformersDoesNotReadChangesNothing) {
  for (const Family* family : families()) {
    const std::string type = family->name;
    if (has_to_say_more(*family)) continue;
    const DecoderConfig plain = small_model(type, "");
    for (const char* key :
         {R"("is_llama_config":true)", R"("rope_interleaved":false)", R"("max_sequence_length":9)",
          R"("tokenizer_class":"LlamaTokenizer")", R"("auto_map":{"AutoModel":"a.B"})",
          R"("_attn_implementation":"eager")", R"("partial_rotary_factor":null)",
          R"("quantization_config":null)", R"("use_mrope":false)", R"("is_causal":true)",
          R"("pruned_heads":{})", R"("temperature":0.5)", R"("pretraining_tp":2)",
          R"("nobody_knows":null)", R"("_sliding_window_pattern":2)", R"("rope_scaling":null)",
          R"("rope_scaling":{"rope_type":"default","factor":null,"beta_fast":null})",
          R"("rope_scaling":{"rope_type":"default","factor":8,"low_freq_factor":2})",
          R"("layer_types":null)"})
      EXPECT_EQ(small_model(type, std::string(",") + key), plain) << type << " " << key;
  }
  const std::pair<std::string, const char*> foreign[] = {
      {"llama", R"("sliding_window":4)"},
      {"llama", R"("layer_types":["full_attention","sliding_attention"])"},
      {"llama", R"("use_sliding_window":true)"},
      {"llama", R"("attn_logit_softcapping":50)"},
      {"mistral", R"("attention_bias":true)"},
      {"mistral", R"("mlp_bias":true)"},
      {"mistral", R"("layer_types":["full_attention","sliding_attention"])"},
      {"qwen2", R"("attention_bias":false)"},
      {"qwen2", R"("mlp_bias":true)"},
      {"gemma", R"("hidden_activation":"silu")"},
      {"gemma", R"("sliding_window":4)"},
      {"gemma2", R"("hidden_act":"silu")"},
      {"gemma2", R"("sliding_window_pattern":3)"},
      {"gemma3_text", R"("attn_logit_softcapping":50)"},
      {"gemma3_text", R"("hidden_act":"silu")"}};
  for (const auto& [type, key] : foreign)
    EXPECT_EQ(small_model(type, std::string(",") + key), small_model(type, "")) << type << key;
}

// Which of the lengths YaRN scales from, and what multiplies cosines and sines.
TEST(HfConfigReading, YarnHasDefaultsOfItsOwn) {
  auto yarn = [](const std::string& keys, const std::string& beside = "") {
    const DecoderConfig read = small_model(
        "llama", beside + R"(,"rope_scaling":{"rope_type":"yarn","factor":4)" + keys + "}");
    return std::get<YarnRopeScaling>(read.rope_scaling);
  };
  const double recommended = 0.1 * std::log(4) + 1;
  const std::string length = R"(,"original_max_position_embeddings":64)";
  EXPECT_EQ(yarn(length), (YarnRopeScaling{4, 64, 32, 1, true, recommended}));
  EXPECT_EQ(yarn("", R"(,"max_position_embeddings":512)").original_max_position_embeddings, 512);
  EXPECT_EQ(yarn(length + R"(,"mscale":1,"mscale_all_dim":1)").attention_factor, 1);
  EXPECT_NEAR(yarn(length + R"(,"mscale":2,"mscale_all_dim":1)").attention_factor,
              (0.2 * std::log(4) + 1) / recommended, 1e-15);
  EXPECT_EQ(
      yarn(length + R"(,"mscale":2,"mscale_all_dim":1,"attention_factor":3)").attention_factor, 3);
  EXPECT_EQ(yarn(length + R"(,"mscale":2)").attention_factor, recommended);
  EXPECT_THROW(yarn(length + R"(,"beta_fast":1)"), DataError);
  EXPECT_THROW(yarn(length, R"(,"original_max_position_embeddings":32)"), DataError);
  EXPECT_THROW(yarn(length, R"(,"rope_theta":1)"), DataError);
  // transformers takes it for longrope.
  EXPECT_THROW(
      small_model("phi3", R"(,"rope_scaling":{"rope_type":"yarn","factor":4)" + length + "}"),
      DataError);
}

TEST(HfConfigReading, PartsOfHeadsTurnAsTheFamilySays) {
  EXPECT_EQ(small_model("glm4", "").partial_rotary_factor, 0.5);
  EXPECT_EQ(small_model("glm4", R"(,"partial_rotary_factor":1)").partial_rotary_factor, 1);
  EXPECT_EQ(small_model("phi3", "").partial_rotary_factor, 1);
  const std::string newer = R"(,"rope_parameters":{"partial_rotary_factor":0.5})";
  EXPECT_EQ(small_model("phi3", newer).partial_rotary_factor, 0.5);
  EXPECT_THROW(small_model("phi3", newer + R"(,"partial_rotary_factor":1)"), DataError);
  EXPECT_THROW(small_model("glm4", R"(,"partial_rotary_factor":0.3)"), DataError);
  EXPECT_THROW(small_model("glm4", R"(,"partial_rotary_factor":2)"), DataError);
}

TEST(HfConfigReading, WhatStandsForAnotherComputationIsRefused) {
  for (const char* type : {"llama", "mistral", "qwen3", "gemma2"})
    for (const char* key :
         {R"("rope_interleaved":true)", R"("partial_rotary_factor":0.5)",
          R"("quantization_config":{"quant_method":"gptq"})", R"("is_causal":false)",
          R"("per_layer_config":{})", R"("use_mrope":true)", R"("num_local_experts":8)",
          R"("attention_dropout":0.1)",
          R"("rope_scaling":{"type":"default","partial_rotary_factor":0.5})",
          R"("rope_scaling":{"type":"yarn","factor":4})"})
      EXPECT_THROW(small_model(type, std::string(",") + key, UnknownKeys::ignore), DataError)
          << type << key;
  EXPECT_EQ(message_of<DataError>([] { small_model("llama", R"(,"rope_interleaved":true)"); }),
            "rope_interleaved: found true, expected false or null, since whole heads are turned, "
            "their halves against each other");
}

TEST(HfConfigReading, NumbersBeyondFloat64AreThoseOfJson) {
  for (const std::string& number :
       {std::string("1e999"), std::string("-1e999"), std::string(400, '9')}) {
    const std::string ignored =
                          ",\"initializer_range\":" + number + ",\"id2label\":[" + number + "]",
                      unknown = ",\"fused_zebra\":" + number;
    EXPECT_EQ(small_model("llama", ignored), small_model("llama", ""));
    EXPECT_EQ(small_model("llama", unknown, UnknownKeys::ignore), small_model("llama", ""));
    for (const std::string key :
         {"rope_theta", "head_dim", "pad_token_id", "tie_word_embeddings", "partial_rotary_factor"})
      EXPECT_THAT(
          message_of<DataError>([&] { small_model("llama", ",\"" + key + "\":" + number); }),
          AllOf(HasSubstr(key + ": found " + number.substr(0, 100)), HasSubstr("expected")));
  }
  EXPECT_EQ(small_model("llama", ",\"rope_theta\":100000000000000000000").rope_base, 1e20);
  const std::string text = write_hf_config(small_model("llama", ""));
  const std::string more = "{\n  \"initializer_range\": 1e999," + text.substr(1);
  EXPECT_THAT(with_hf_pad_token(more, 4), HasSubstr("\"initializer_range\": 1e999,"));
  EXPECT_THAT(with_hf_dtype(more, "bfloat16"), HasSubstr("\"initializer_range\": 1e999,"));
}

TEST(HfConfigReading, ListsThatSayNothingOfAnyLayerChangeNothing) {
  for (const char* list : {"[]", "[1,1]", "[true,true]", "null", "[1,1,1]"})
    EXPECT_EQ(small_model("llama", std::string(",\"no_rope_layers\":") + list),
              small_model("llama", ""));
  for (const char* list : {"[1,0]", "[0]", "0", "1", "[[1]]", "[\"1\"]", "[1e999]"})
    EXPECT_THAT(message_of<DataError>(
                    [&] { small_model("llama", std::string(",\"no_rope_layers\":") + list); }),
                HasSubstr(std::string("no_rope_layers: found ") + list +
                          ", expected 1 or true for each layer, or null, since all layers have "
                          "rotations"));
}

TEST(HfConfigReading, UnknownKeysAreIgnoredWhereThatIsAsked) {
  const std::string more = R"(,"fused_zebra":1,"rope_scaling":{"type":"default","zebra":2})";
  EXPECT_EQ(small_model("llama", more, UnknownKeys::ignore), small_model("llama", ""));
  const std::string what = message_of<DataError>([&] { small_model("llama", more); });
  for (const char* part : {"fused_zebra: found an unknown key", "rope_scaling.zebra",
                           "; with allow_unknown_config_keys=true it is ignored"})
    EXPECT_THAT(what, HasSubstr(part));
  EXPECT_THAT(unknown_hf_keys(R"({"model_type":"llama","vocab_size":10,"hidden_size":8,)"
                              R"("num_hidden_layers":2,"num_attention_heads":2,"zebra":[],)"
                              R"("intermediate_size":12,"rms_norm_eps":1e-5})"),
              testing::ElementsAre("zebra"));
}

TEST(HfConfigReading, ThePadTokenIsTorchsPaddingIndex) {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"})
    EXPECT_EQ(small_model(type, "").pad_token, std::nullopt) << type;
  for (const char* type : {"gemma", "gemma2", "gemma3_text"})
    EXPECT_EQ(small_model(type, "").pad_token, 0) << type;
  for (const char* type : {"llama", "gemma"}) {
    auto read = [&](const std::string& id) {
      return small_model(type, ",\"pad_token_id\":" + id).pad_token;
    };
    EXPECT_EQ(read("null"), std::nullopt);
    EXPECT_EQ(read("3"), 3);
    EXPECT_EQ(read("-1"), 9);
    for (const char* id : {"10", "-11", "1.5", "[1]", "\"1\"", "true", "18446744073709551615"})
      EXPECT_THROW(read(id), DataError) << id;
  }
  EXPECT_EQ(
      parse_hf_config(with_hf_pad_token(write_hf_config(small_model("llama", "")), 4)).pad_token,
      4);
}

TEST(HfConfigReading, ErrorsNameKeyFoundExpectedAndNearest) {
  auto refusal = [](const std::string& more) {
    return message_of<DataError>([&] { small_model("gemma2", "," + more); });
  };
  EXPECT_EQ(refusal(R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,)"
                    R"("high_freq_factor":1,"original_max_position_embeddings":8192})"),
            "rope_scaling.low_freq_factor: found 4, expected at most high_freq_factor, 1");
  EXPECT_EQ(refusal(R"("sliding_window":2147483649)"),
            "sliding_window: found 2147483649, expected an integer from 0 to 2147483648");
  EXPECT_EQ(refusal(R"("rope_scaling":[])"), "rope_scaling: found [], expected an object");
  EXPECT_EQ(refusal(R"("rope_theta":0)"), "rope_theta: found 0, expected a number above 0");
  EXPECT_EQ(refusal(R"("sliding_window":null,"layer_types":["sliding_attention"])"),
            "layer_types: found \"sliding_attention\", expected full_attention, since there is no "
            "sliding_window");
  EXPECT_EQ(refusal(R"("layer_types":["full_attention"])"),
            "layer_types: found a list of 1, expected a list of 2, as num_hidden_layers says");
  EXPECT_EQ(
      refusal(R"("layer_types":"full_attention")"),
      "layer_types: found \"full_attention\", expected a list of 2, as num_hidden_layers says");
  EXPECT_EQ(refusal(R"("layer_types":["full_attention","other"])"),
            "layer_types: found \"other\", expected full_attention or sliding_attention");
  EXPECT_EQ(refusal(R"("tie_word_embedding":true)"),
            "tie_word_embedding: found an unknown key, which may change results; nearest: "
            "tie_word_embeddings; with allow_unknown_config_keys=true it is ignored");
  EXPECT_EQ(message_of<DataError>([] { parse_hf_config("[1]"); }),
            "found a JSON array, expected a JSON object");
  EXPECT_EQ(message_of<DataError>([] { parse_hf_config("{"); }),
            "no valid JSON at byte 2: found the end");
  EXPECT_EQ(message_of<DataError>([] { parse_hf_config(std::string_view("{}\0", 3)); }),
            "no valid JSON: found a zero at byte 2");
}

TEST(HfConfigReading, LayersThatReadKeysNeedEarlierOnesThatHaveThem) {
  auto refusal = [](const std::string& key, int said, int now) {
    std::string text = read_text("tests/goldens/models/gemma4_e2b/config.json");
    const std::string before = "\"" + key + "\": " + std::to_string(said);
    const size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before;
    text.replace(at, before.size(), "\"" + key + "\": " + std::to_string(now));
    return message_of<DataError>([&] { parse_hf_config(text); });
  };
  // Layer 5 is the first without a window.
  EXPECT_EQ(refusal("num_kv_shared_layers", 5, 7),
            "num_kv_shared_layers: found 7, expected fewer: no layer before those has keys for "
            "layer 5");
  EXPECT_EQ(refusal("num_kv_shared_layers", 5, 12),
            "num_kv_shared_layers: found 12, expected fewer: no layer before those has keys for "
            "layer 0");
  EXPECT_EQ(refusal("num_kv_shared_layers", 5, 4097),
            "num_kv_shared_layers: found 4097, expected 0 to 4096");
  EXPECT_EQ(refusal("vocab_size_per_layer_input", 127, 128),
            "vocab_size_per_layer_input: found 128, expected vocab_size, 127");
}

TEST(HfConfigReading, WeightsInFewBitsAreThoseThatAreRead) {
  auto refusal = [](const std::string& said, const std::string& type = "llama") {
    const std::string text = R"("vocab_size":10,"hidden_size":8,"num_hidden_layers":2,)"
                             R"("num_attention_heads":2,"intermediate_size":12,)"
                             R"("rms_norm_eps":1e-5,"quantization_config":)";
    try {
      parse_hf_config("{\"model_type\":\"" + type + "\"," + text + said + "}");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* said : {R"({"quant_method":"bitsandbytes","load_in_4bit":true})",
                           R"({"load_in_4bit":true})", R"({"load_in_8bit":true})",
                           R"({"quant_method":"fp8","weight_block_size":[128,128]})", "null"})
    EXPECT_EQ(refusal(said), "") << said;
  for (const char* other : {"gptq", "awq", "compressed-tensors", "mxfp4", "modelopt"})
    EXPECT_EQ(refusal(R"({"quant_method":")" + std::string(other) + "\"}"),
              "quantization_config.quant_method: found \"" + std::string(other) +
                  "\", expected bitsandbytes, fp8");
  EXPECT_EQ(refusal(R"({"quant_method":"fp8","weight_block_size":null})"),
            "quantization_config.weight_block_size: found null, expected [128,128]");
  EXPECT_EQ(refusal(R"({"quant_method":"fp8","weight_block_size":[64,128]})"),
            "quantization_config.weight_block_size: found [64,128], expected [128,128]");
  EXPECT_EQ(refusal("7"), "quantization_config: found 7, expected an object");
}

// What transformers would take from one published model is to be said; Llama derives it.
TEST(HfConfigReading, SizesAreNotTakenFromAnotherModel) {
  const std::string rest =
      R"("vocab_size":10,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,)"
      R"("intermediate_size":12,"rms_norm_eps":1e-5)";
  auto read = [&](const std::string& type, const std::string& said) {
    return parse_hf_config("{\"model_type\":\"" + type + "\"," + rest + said + "}");
  };
  auto refusal = [&](const std::string& type, const std::string& said) {
    return message_of<DataError>([&] { read(type, said); });
  };
  const std::string heads = R"(,"num_key_value_heads":1)", head_dim = R"(,"head_dim":6)";
  EXPECT_EQ(read("llama", "").kv_heads, 2);
  EXPECT_EQ(read("llama", "").head_dim, 4);
  for (const char* type : {"mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"})
    EXPECT_EQ(refusal(type, head_dim), "num_key_value_heads: found nothing, expected a value")
        << type;
  for (const char* type : {"qwen3", "gemma", "gemma2", "gemma3_text"})
    EXPECT_EQ(refusal(type, heads), "head_dim: found nothing, expected a value") << type;
  for (const char* type : {"mistral", "qwen2"}) EXPECT_EQ(read(type, heads).head_dim, 4) << type;
  const std::string experts =
      R"(,"moe_intermediate_size":4,"num_experts":2,"num_experts_per_tok":1)";
  EXPECT_EQ(read("qwen3_moe", heads + experts).head_dim, 4);
}

TEST(HfConfigReading, HostileSizesAndNestingAreRefused) {
  auto read = [](const std::string& key, const std::string& value) {
    std::string text =
        R"({"model_type":"gemma2","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,)"
        R"("num_attention_heads":2,"intermediate_size":12,"rms_norm_eps":1e-5,)"
        R"("num_key_value_heads":1,"head_dim":4})";
    const size_t at = text.find("\"" + key + "\":");
    if (at == std::string::npos) {
      text.insert(1, "\"" + key + "\":" + value + ",");
    } else {
      const size_t begin = at + key.size() + 3;
      text.replace(begin, text.find_first_of(",}", begin) - begin, value);
    }
    return parse_hf_config(text);
  };
  EXPECT_NO_THROW(read("vocab_size", "11"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"vocab_size", "4194305"},
                                                        {"vocab_size", "1"},
                                                        {"hidden_size", "262145"},
                                                        {"num_hidden_layers", "4097"},
                                                        {"num_attention_heads", "1026"},
                                                        {"head_dim", "1026"},
                                                        {"intermediate_size", "1048577"},
                                                        {"num_key_value_heads", "0"},
                                                        {"query_pre_attn_scalar", "0"},
                                                        {"rope_theta", "0"},
                                                        {"hidden_activation", deep},
                                                        {"id2label", deep}}) {
    try {
      read(key, value);
      ADD_FAILURE() << key;
    } catch (const DataError& error) {
      const std::string what = error.what();
      EXPECT_THAT(what, HasSubstr(value.size() > 100 ? "nested deeper" : key));
    }
  }
}

}  // namespace
}  // namespace longshore::models
