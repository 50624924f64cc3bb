#include "longshore/trainer/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "longshore/base/error.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/inputs.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_keys.h"
#include "longshore/trainer/config/rope_override.h"
#include "longshore/trainer/config/validate.h"
#include "tests/trainer/config/config_fixture.h"

namespace longshore::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(ConfigTest, MessagesSayWhereWhatAndTheNearest) {
  EXPECT_EQ(error("stepps: 3\n"),
            "configs/test.yml:12 stepps: found an unknown key, expected one that --help lists; "
            "nearest: steps");
  EXPECT_EQ(error("qqqqqqqqq: 3\n"),
            "configs/test.yml:12 qqqqqqqqq: found an unknown key, expected one that --help lists");
  EXPECT_EQ(error("base_confg: 3\n"),
            "configs/test.yml:12 base_confg: found an unknown key, expected one that --help lists; "
            "nearest: base_config");
  EXPECT_EQ(error("\n# note\nsteps: 0\n"),
            "configs/test.yml:14 steps: found 0, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("steps: \"10\"\n"),
            "configs/test.yml:12 steps: found \"10\", expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("steps:\n"),
            "configs/test.yml:12 steps: found nothing, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("eval_interval: 0\n"),
            "configs/test.yml:12 eval_interval: found 0, expected an integer from 1 to 1000000000, "
            "or -1");
  EXPECT_EQ(error("adam_b1: 1\n"),
            "configs/test.yml:12 adam_b1: found 1, expected a number from 0 to below 1");
  EXPECT_EQ(
      error("peak_tflops_per_device: 1e-300\n"),
      "configs/test.yml:12 peak_tflops_per_device: found 1e-300, expected a number from 1e-06 "
      "to 1e+09, or 0");
  EXPECT_EQ(error("adam_eps: 0\n"),
            "configs/test.yml:12 adam_eps: found 0, expected a number from 1e-37 to 1e+37");
  EXPECT_EQ(error("dtype: bflaot16\n"),
            "configs/test.yml:12 dtype: found bflaot16, expected auto, float32 or bfloat16; "
            "nearest: bfloat16");
  EXPECT_EQ(error("mlpwo: devcie\n"),
            "configs/test.yml:12 mlpwo: found devcie, expected remat, device or offload, or two of "
            "them: of the first offload_layers layers, and of the others; nearest: device");
  EXPECT_TRUE(error("", {"lora_targets=q_proj,kproj"}).ends_with("; nearest: k_proj"));
  EXPECT_TRUE(error("mlpwo: [device, ofload]\n").ends_with("; nearest: offload"));
  EXPECT_EQ(error("steps: [1]\n"),
            "configs/test.yml:12 steps: found a list, 1, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("steps: {a: 1}\n"),
            "configs/test.yml:12 steps: found a map, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("steps: 1\nseed: 2\nsteps: 1\n"),
            "configs/test.yml:14 steps: found the key again, expected it once; the first is on "
            "line 12");
  EXPECT_EQ(error("", {"stesp=3"}),
            "command line stesp: found an unknown key, expected one that --help lists; nearest: "
            "steps");
  EXPECT_EQ(error("", {"steps=many"}),
            "command line steps: found many, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("", {"steps="}),
            "command line steps: found nothing, expected an integer from 1 to 1000000000");
  EXPECT_EQ(error("", {"steps"}), "command line: found steps, expected key=value");
  EXPECT_EQ(error("", {"=3"}), "command line: found =3, expected key=value");
  EXPECT_EQ(error("", {"steps:3"}),
            "command line: found steps:3, expected key=value; nearest: steps=3");
  EXPECT_EQ(
      error("", {R"(run_name="a\qb")"}),
      R"(command line run_name: found "a\qb", expected a value that ends where its quotes end, )"
      R"(and within double quotes YAML's escapes: \\ for \)");
  EXPECT_EQ(error("", {"steps=1", "steps=2"}),
            "command line steps: found the key again, expected it once");
  EXPECT_EQ(
      error("", {"run_name=\"a\" b"}),
      "command line run_name: found \"a\" b, expected a value that ends where its quotes end");
  EXPECT_EQ(
      error("", {"run_name=tokens"}),
      "command line run_name: found \"tokens\", expected another name: tokenized texts of all "
      "runs are there");
  EXPECT_EQ(error("", {"base_config=other.yml"}),
            "command line base_config: found other.yml, expected this key in a file only");
  EXPECT_EQ(error("", {R"(run_name="a\u202e")"}),
            R"(command line run_name: found "a\u202e", expected the printable name of one folder )"
            "inside base_output_directory");
  EXPECT_EQ(error("", {"run_name=\xff"}),
            "command line run_name: found the byte 0xff, expected UTF-8 text without control "
            "characters");
  EXPECT_EQ(error("", {"model_name=smal"}),
            "command line model_name: found smal, expected a model of configs/models: large, "
            "small; nearest: small");
  EXPECT_EQ(error("model_name: ../test\n").substr(0, 44),
            "configs/test.yml:12 model_name: found ../tes");
}

TEST_F(ConfigTest, AllFaultsOfKeysAreReportedTogether) {
  EXPECT_EQ(error("stepps: 3\nsteps: 0\nseed: 1\n", {"dtype=float33"}),
            "configs/test.yml:12 stepps: found an unknown key, expected one that --help lists; "
            "nearest: steps\n"
            "  configs/test.yml:13 steps: found 0, expected an integer from 1 to 1000000000\n"
            "  command line dtype: found float33, expected auto, float32 or bfloat16; nearest: "
            "float32");
  // Also a model, a base and nested values, as other trainers' files have them.
  EXPECT_EQ(
      text_error("model_name: smal\nbase_config: base.yml\ndatasets:\n- path: a\n  type: [b]\n"
                 "special_tokens: {pad_token: b}\ntraining:\n  steps: 1\nsteps: [[1]]\nseed: x\n"),
      "configs/test.yml:2 base_config: found base.yml, expected a file beside this one or in "
      "configs/; leave it out: --help lists the defaults\n"
      "  configs/test.yml:1 model_name: found smal, expected a model of configs/models: large, "
      "small; nearest: small\n"
      "  configs/test.yml:3 datasets: found an unknown key, expected one that --help lists; "
      "nearest: dataset_path (a list of files: [a.jsonl, b.parquet])\n"
      "  configs/test.yml:6 special_tokens: found an unknown key, expected one that --help "
      "lists; leave it out: the tokenizer's folder names them; add_tokens adds others\n"
      "  configs/test.yml:7 training: found a map, expected key: value, without sections\n"
      "  configs/test.yml:9 steps: found a list of lists, expected an integer from 1 to "
      "1000000000\n"
      "  configs/test.yml:10 seed: found x, expected an integer of at least 0");
  EXPECT_THAT(message_of<ConfigError>([&] { load("a.toml"); }),
              HasSubstr("--config: found a.toml, TOML, expected flat YAML"));
  EXPECT_EQ(text_error("steps: [[[[[[[[[[1]]]]]]]]]]\n"),
            "configs/test.yml:1 steps: found more than 8 maps and lists within each other, "
            "expected key: value");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "key_" + std::to_string(i) + ": 1\n";
  const std::string shown = error(many);
  EXPECT_TRUE(shown.ends_with("\n  and 950 more")) << shown;
}

TEST_F(ConfigTest, MissingKeysOfTheModelAreNamedTogether) {
  EXPECT_EQ(
      text_error("steps: 3\n"),
      "configs/test.yml: found no base_emb_dim, base_num_decoder_layers, base_num_query_heads, "
      "base_num_kv_heads, head_dim, base_mlp_dim, vocab_size, expected a whole model; "
      "model_name, or a load_parameters_path with a config.json, brings all its keys");
}

TEST_F(ConfigTest, AdaptersAskForWhatTheyNeed) {
  EXPECT_EQ(load_text(kModelLines, {"lora_rank=8"}).lora_rank, 8);
  EXPECT_EQ(error("", {"lora_rank=8", "lora_targets=[]"}),
            "command line lora_targets: found [], expected projections, for lora_rank = 8 (command "
            "line)");
  EXPECT_THAT(error("", {"load_adapter_path=x"}),
              HasSubstr("default load_parameters_path: found \"\", "
                        "expected the weights that the adapter is for"));
  EXPECT_THAT(
      text_error("model_type: toy_a\nbase_emb_dim: 8\nbase_num_decoder_layers: 2\n"
                 "base_mlp_dim: 8\nlora_rank: 4\n"),
      HasSubstr("configs/test.yml:5 lora_rank: found 4, expected 0 with model_type = toy_a"));
}

TEST_F(ConfigTest, OnlyFlatYamlIsRead) {
  EXPECT_EQ(text_error(""), "configs/test.yml: found no keys, expected key: value");
  EXPECT_EQ(text_error("# nothing\n"), "configs/test.yml: found no keys, expected key: value");
  EXPECT_EQ(text_error("---\n"), "configs/test.yml: found no keys, expected key: value");
  EXPECT_EQ(text_error("{}"), "configs/test.yml: found no keys, expected key: value");
  EXPECT_EQ(text_error("\nsteps\n"), "configs/test.yml:2: found steps, expected key: value");
  EXPECT_EQ(text_error("- steps\n"), "configs/test.yml:1: found a list, expected key: value");
  EXPECT_EQ(text_error("[[[["), "configs/test.yml:1: found a list, expected key: value");
  EXPECT_EQ(text_error("? [a]\n: 1\n"), "configs/test.yml:1: found a list, expected key: value");
  EXPECT_EQ(text_error("? {a: 1}\n: 1\n"), "configs/test.yml:1: found a map, expected key: value");
  EXPECT_EQ(text_error("~: 3\n"), "configs/test.yml:1: found an empty key, expected key: value");
  EXPECT_EQ(error("steps: &a 3\n"),
            "configs/test.yml:12 steps: found an anchor (&name), expected a value without an "
            "anchor");
  EXPECT_EQ(text_error("&a steps: 3\nseed: *a\n"),
            "configs/test.yml:1: found an anchor (&name), expected a value without an anchor");
  EXPECT_EQ(text_error("&a {steps: 3}\n"),
            "configs/test.yml:1: found an anchor (&name), expected a value without an anchor");
  EXPECT_EQ(error("steps: !!int 3\n"),
            "configs/test.yml:12 steps: found the tag tag:yaml.org,2002:int, expected a value "
            "without a tag");
  EXPECT_EQ(error("<<: {steps: 3}\n"),
            "configs/test.yml:12: found a merge key (<<), expected base_config: other.yml");
  EXPECT_EQ(error("---\nsteps: 3\n"), "configs/test.yml:12: found a second document, expected one");
  EXPECT_EQ(error("steps: 3\n...\nnonsense\n"),
            "configs/test.yml:14: found a second document, expected one");
  EXPECT_EQ(text_error("steps: 3\nrun_name: \xc3\x28\n"),
            "configs/test.yml:2: found the byte 0xc3, expected UTF-8 text without control "
            "characters");
  EXPECT_EQ(text_error(std::string("steps: 3\0\n", 10)),
            "configs/test.yml:1: found the byte 0x00, expected UTF-8 text without control "
            "characters");
  // The parser takes 0x04 for the end of the text.
  EXPECT_EQ(text_error("steps: 3\n\x04garbage\n"),
            "configs/test.yml:2: found the byte 0x04, expected UTF-8 text without control "
            "characters");
  for (const char* text :
       {"steps: 3\n\tseed: 4\n", "run_name: \"open\n", "run_name: 'open\n", "steps: 3\n  seed: 4\n",
        "{steps: 3", "steps: 3\n]\n", "run_name: *none\n", "%YAML 9\n---\nsteps: 3\n", "a: b: c\n",
        "@: 1\n", "run_name: \"\\q\"\n"}) {
    SCOPED_TRACE(text);
    std::string message = text_error(text);
    EXPECT_TRUE(message.starts_with("configs/test.yml:")) << message;
  }
}

TEST_F(ConfigTest, QuotedAndBlockScalarsKeepTheirText) {
  auto prompt = [&](const std::string& value) {
    return load_text(kModelLines + "sample_prompt: " + value).sample_prompt;
  };
  EXPECT_EQ(prompt("two words  # a comment\n"), "two words");
  EXPECT_EQ(prompt("two\n  lines"), "two lines");
  EXPECT_EQ(prompt("'it''s # no comment'"), "it's # no comment");
  EXPECT_EQ(prompt("\"\\x41\\t\\\"\\u00e9\" # a comment\r\n"), "A\t\"\u00e9");
  EXPECT_EQ(prompt(">\n  folded\n  text\n"), "folded text\n");
  EXPECT_EQ(prompt("|\n  a\n   b\n"), "a\n b\n");
  EXPECT_EQ(prompt("|-\n  a\n"), "a");
  EXPECT_EQ(prompt("|+\n  a\n\n"), "a\n\n");
  EXPECT_EQ(prompt("|\n"), "");
}

TEST_F(ConfigTest, LargeAndHostileTextIsRefusedAtOnce) {
  const size_t large = kMaxConfigBytes;
  EXPECT_EQ(text_error("# " + std::string(large, 'x')),
            "configs/test.yml: found more than 2 MiB, expected a config");
  write_file(root / "configs/large.yml", kModelLines + "# " + std::string(10 * large, 'x'));
  EXPECT_EQ(message_of<ConfigError>([&] { load("large.yml"); }),
            "configs/large.yml: found more than 2 MiB, expected a config");
  for (const char* piece :
       {"[",   "{", "{a: ", "- ", "? ",    "a: ", "&a ", "!a ", "*a ",   "\"",    "'",
        "|\n", ">", "%",    ": ", "a:\n ", "\n",  " ",   "#",   "---\n", "...\n", "x"}) {
    SCOPED_TRACE(piece);
    std::string text = "run_name: ";
    while (text.size() + 8 < large) text += piece;
    std::string message = text_error(text);
    EXPECT_TRUE(message.starts_with("configs/test.yml")) << message.substr(0, 200);
    EXPECT_LT(message.size(), 600u);
  }
}

TEST_F(ConfigTest, LaterSourcesWin) {
  write_file(root / "configs/base.yml", "model_name: small\nsteps: 10\nseed: 10\nhead_dim: 32\n");
  write_file(root / "configs/middle.yml", "base_config: base.yml\nsteps: 20\nrun_name: middle\n");
  write_file(root / "configs/top.yml",
             "learning_rate: 0.5\nbase_config: middle.yml\nrun_name: top\n");
  Config config = load("top.yml", {"learning_rate=0.25"});
  EXPECT_EQ(config.seed, 10);
  EXPECT_EQ(origin(config, "seed"), "configs/base.yml:3");
  EXPECT_EQ(config.steps, 20);
  EXPECT_EQ(origin(config, "steps"), "configs/middle.yml:2");
  EXPECT_EQ(config.run_name, "top");
  EXPECT_EQ(location(config, "run_name"), "configs/top.yml:3 run_name");
  EXPECT_EQ(config.learning_rate, 0.25);
  EXPECT_EQ(location(config, "learning_rate"), "command line learning_rate");
  EXPECT_EQ(config.model.head_dim, 32) << "a recipe overrides its model's keys";
  EXPECT_EQ(origin(config, "head_dim"), "configs/base.yml:4");
  EXPECT_EQ(config.model.width, 64);
  EXPECT_EQ(origin(config, "base_emb_dim"), "configs/models/small.yml:2");
  EXPECT_EQ(config.adam_b1, 0.9);
  EXPECT_EQ(origin(config, "adam_b1"), "default");
  EXPECT_EQ(config.config_file, "configs/top.yml");
}

TEST_F(ConfigTest, NamingAModelReplacesTheOneBefore) {
  write_file(root / "configs/base.yml",
             "rope_max_timescale: 500\nmodel_name: small\nhead_dim: 48\nsteps: 7\n");
  Config named = load("base.yml");
  EXPECT_EQ(named.model.rope_base, 500) << "the order of keys in a file does not matter";
  EXPECT_EQ(named.model.head_dim, 48);

  Config config = load("base.yml", {"base_mlp_dim=64", "model_name=large"});
  EXPECT_EQ(config.model_name, "large");
  EXPECT_EQ(config.model.head_dim, 32);
  EXPECT_EQ(origin(config, "head_dim"), "configs/models/large.yml:5");
  EXPECT_EQ(config.model.rope_base, 10000) << "nothing of the first model is left";
  EXPECT_EQ(origin(config, "rope_max_timescale"), "default");
  EXPECT_EQ(config.model.mlp_width, 64) << "the command line's own keys stand";
  EXPECT_EQ(config.steps, 7);
}

TEST_F(ConfigTest, AnEmptyModelNameLeavesNothingOfTheModelBefore) {
  write_file(root / "configs/base.yml", "model_name: small\nhead_dim: 48\nsteps: 7\n");
  EXPECT_THAT(message_of<ConfigError>([&] { load("base.yml", {"model_name="}); }),
              HasSubstr("found no base_emb_dim, "));
  const fs::path folder = default_configs_directory().parent_path() / "tests/goldens/models/gemma2";
  const Config config =
      load("base.yml", {"model_name=", "load_parameters_path=" + folder.string()});
  EXPECT_EQ(config.model.family, &models::kGemma2);
  EXPECT_EQ(origin(config, "head_dim"), (folder / "config.json").string());
  EXPECT_EQ(config.steps, 7);
}

TEST_F(ConfigTest, RopeIsScaledAsItIsSaidAndElseAsTheWeightsAre) {
  const fs::path weights = root / "weights";
  auto turned = [&](const fs::path& folder, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"model_name=", "load_parameters_path=" + folder.string()});
    return with_rope_override(
               load_text("steps: 1\n", overrides),
               read_hf_config(folder, models::UnknownKeys::refuse, models::Images::ignore).decoder)
        .rope_scaling;
  };
  models::YarnRopeScaling yarn{.factor = 8,
                               .original_max_position_embeddings = 64,
                               .beta_fast = 32,
                               .beta_slow = 1,
                               .truncate = true,
                               .attention_factor = 1.5};
  write_file(weights / "config.json",
             R"({"model_type":"llama","vocab_size":10,"hidden_size":8,"num_hidden_layers":1,)"
             R"("num_attention_heads":2,"intermediate_size":12,"rms_norm_eps":1e-5,)"
             R"("rope_scaling":{"rope_type":"yarn","factor":8,"attention_factor":1.5,)"
             R"("original_max_position_embeddings":64}})");
  EXPECT_EQ(turned(weights, {}), models::RopeScaling(yarn));
  EXPECT_EQ(turned(weights, {"rope_type=yarn"}), models::RopeScaling(yarn));
  yarn.factor = 16;
  EXPECT_EQ(turned(weights, {"rope_factor=16", "rope_attention_factor=1.5"}),
            models::RopeScaling(yarn));
  yarn.attention_factor = models::yarn_attention_factor(16);
  EXPECT_EQ(turned(weights, {"rope_factor=16"}), models::RopeScaling(yarn));
  EXPECT_EQ(turned(weights, {"rope_type=default"}), models::RopeScaling());
  EXPECT_EQ(turned(weights, {"rope_type=linear", "rope_factor=2"}),
            models::RopeScaling(models::LinearRopeScaling{2}));
  EXPECT_THAT(
      message_of<ConfigError>([&] {
        turned(default_configs_directory().parent_path() / "tests/goldens/models/gemma4_dense",
               {"rope_type=linear", "rope_factor=2"});
      }),
      HasSubstr("rope_type: found linear, expected proportional, as the weights' config.json"));
}

// They were set with that model. What weaker sources had before, or the same one sets, stays.
TEST_F(ConfigTest, AnEmptyModelNameTakesTheModelsTokenizerWithIt) {
  const fs::path folder = default_configs_directory().parent_path() / "tests/goldens/models/gemma2";
  const std::string weights = "load_parameters_path=" + folder.string();
  auto texts_of = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"model_name=", weights};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Config config = load(file, overrides);
    return config.tokenizer_path.filename().string() + " " + config.chat_template;
  };
  write_file(root / "configs/own.yml",
             "model_name: small\ntokenizer_path: small.json\nchat_template: llama3\n"
             "dataset_type: documents\ndataset_path: a.jsonl\n");
  EXPECT_EQ(load("own.yml").chat_template, "llama3");
  EXPECT_THAT(message_of<ConfigError>([&] { texts_of("own.yml", {}); }),
              AllOf(HasSubstr("default tokenizer_path: found \"\", expected a path, to tokenize "),
                    HasSubstr("; " + folder.string() +
                              ", that of command line load_parameters_path, "
                              "holds no tokenizer.json and no tokenizer.model")));
  EXPECT_EQ(texts_of("own.yml", {"tokenizer_path=mine.json"}), "mine.json auto");
  EXPECT_EQ(texts_of("own.yml", {"tokenizer_path=mine.json", "chat_template=gemma"}),
            "mine.json gemma");
  // In a file that names another, or changes the tokenizer.
  write_file(root / "configs/other.yml",
             "base_config: own.yml\nmodel_name: large\nchat_template: chatml\n");
  EXPECT_EQ(texts_of("other.yml", {"tokenizer_path=mine.json"}), "mine.json auto");
  // Set before there was a model.
  write_file(root / "configs/base.yml",
             "tokenizer_path: base.json\nchat_template: gemma\n"
             "dataset_type: documents\ndataset_path: a.jsonl\n");
  write_file(root / "configs/named.yml",
             "base_config: base.yml\nmodel_name: small\nchat_template: llama3\n");
  EXPECT_EQ(texts_of("named.yml", {}), "base.json auto");
  EXPECT_EQ(texts_of("base.yml", {}), "base.json gemma");
  // A model of its own keys.
  write_file(root / "configs/keys.yml", kModelLines +
                                            "dataset_type: documents\n"
                                            "dataset_path: a.jsonl\ntokenizer_path: keys.json\n");
  EXPECT_EQ(texts_of("keys.yml", {"tokenizer_path=mine.json"}), "mine.json auto");
  EXPECT_THAT(message_of<ConfigError>([&] { texts_of("keys.yml", {}); }),
              HasSubstr("tokenizer_path: found \"\", expected a path"));
}

// Every recipe that names a model: nothing of that model's texts is left.
TEST(ShippedConfigs, LeaveNoTextsOfAModelThatIsTakenBack) {
  const fs::path configs = default_configs_directory();
  const std::string weights =
      "load_parameters_path=" + (configs.parent_path() / "tests/goldens/models/gemma2").string();
  int count = 0;
  for (const auto& entry : fs::directory_iterator(configs)) {
    if (entry.path().extension() != ".yml") continue;
    const std::string name = entry.path().filename().string();
    const Config config = load_config(name, overrides_of_recipe(name), configs);
    if (config.model_name.empty() || config.tokenizer_path.empty()) continue;
    ++count;
    const Config other =
        load_config(name,
                    std::vector<std::string>{"model_name=", weights, "dataset_type=tokens",
                                             "dataset_path=a.tokens", "packing=true",
                                             "offload_layers=-1", "objective=sft"},
                    configs);
    EXPECT_EQ(other.tokenizer_path, "") << name;
    EXPECT_EQ(other.chat_template, "auto") << name;
    EXPECT_EQ(other.model.family, &models::kGemma2) << name;
  }
  EXPECT_GE(count, 8);
}

// Who follows a recipe sees at once all that has to be brought.
TEST_F(ConfigTest, InputsThatAreMissingAreNamedTogether) {
  const std::string found = message_of<ConfigError>([&] {
    load_text("load_parameters_path: none\ndataset_type: documents\ndataset_path: none.jsonl\n");
  });
  EXPECT_THAT(found,
              AllOf(HasSubstr("configs/test.yml:1 load_parameters_path: found "), HasSubstr("\n  "),
                    HasSubstr("configs/test.yml:3 dataset_path: found ")));
}

TEST_F(ConfigTest, ValuesOfOtherTrainersLeadToOurs) {
  for (const auto& [setting, nearest] : {std::pair{"dtype=fp32", "float32"},
                                         {"dtype=BF16", "bfloat16"},
                                         {"backend=gpu", "cuda"},
                                         {"moment_dtype=int8", "8bit"},
                                         {"opt_type=adamw_torch", "adamw"},
                                         {"opt_type=lion_pytorch", "lion"},
                                         {"dataset_type=jsonl", "documents"},
                                         {"packing=yes", "true"},
                                         {"dtype=Float32", "float32"}})
    EXPECT_TRUE(error("", {setting}).ends_with("; nearest: " + std::string(nearest))) << setting;
  const Config all = load_text(kModelLines, {"lora_targets=all-linear"});
  EXPECT_EQ(lora_targets(all).size(), 7u);
  const Config fused = load_text(kModelLines, {"model_type=phi3"});
  EXPECT_EQ(lora_targets(fused),
            (std::vector<std::string>{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}));
  // Of experts, and of the MLPs that some layers have in their place.
  const std::vector<std::string> experts{"model_type=qwen3_moe", "num_experts=4",
                                         "num_experts_per_tok=2"};
  EXPECT_EQ(lora_targets(load_text(kModelLines, experts)).size(), 4u + 2);
  std::vector<std::string> dense = experts;
  dense.emplace_back("mlp_only_layers=0");
  EXPECT_EQ(lora_targets(load_text(kModelLines, dense)).size(), 4u + 3 + 2);
  EXPECT_THAT(error("", {"model_type=phi3", "lora_rank=2", "lora_targets=q_proj"}),
              HasSubstr("expected some of qkv_proj, o_proj, gate_up_proj, down_proj, lm_head with "
                        "model_type = phi3"));
  for (const char* tokens : {"3,x", "-1", "3,4,3", "100000000"})
    EXPECT_THAT(error("", {"lora_rank=2", std::string("trainable_token_indices=") + tokens}),
                HasSubstr("trainable_token_indices: found"))
        << tokens;
  EXPECT_EQ(error("", {"loraplus_lr_ratio=1e300"}),
            "command line loraplus_lr_ratio: found 1e300, expected a number above 0 and at most "
            "1e+06");
}

// A list of them is a vocabulary's new part. Others are short.
TEST_F(ConfigTest, ManyTokensMayTrain) {
  auto tokens = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::to_string(4'000'000 + i);
    return list;
  };
  const std::vector<std::string> keys{"lora_rank=2", "vocab_size=4194304"};
  auto with = [&](const std::string& setting) {
    std::vector<std::string> all = keys;
    all.push_back(setting);
    return all;
  };
  const Config config = load_text(kModelLines, with("trainable_token_indices=" + tokens(100'000)));
  EXPECT_EQ(lora_config(config).trained_tokens.size(), 100'000u);
  const Config again = load_text(resolved_text(config));
  EXPECT_EQ(again.trainable_token_indices, config.trainable_token_indices);
  EXPECT_THAT(error("", with("trainable_token_indices=" + tokens(100'001))),
              HasSubstr("expected a list, [a, b], of at most 100000 tokens' numbers, each of at "
                        "most 256 bytes"));
  EXPECT_THAT(error("", with("trainable_parameters_mask=" + tokens(101))),
              HasSubstr("expected a list, [a, b], of at most 100 regular expressions"));
}

TEST_F(ConfigTest, NesterovsStepNeedsAMomentum) {
  const std::vector<std::string> keys{"opt_type=sgd", "sgd_momentum=0", "sgd_nesterov=true"};
  EXPECT_THAT(error("", keys), HasSubstr("sgd_nesterov: found true, expected false with "
                                         "sgd_momentum = 0"));
}

// On the command line and in YAML: in float64, and in float32, which kernels take.
TEST_F(ConfigTest, NumbersThatWouldCountAsZeroAreRefused) {
  const std::string least = "; in float32 the least number above 0 is 1.1754943508222875e-38";
  for (const std::string tiny : {"1e-400", "-1e-400", "+1e-99999", "1e-310", "-1e-40",
                                 "0.0000000000000000000000000000000000000000001"})
    for (const std::string key : {"learning_rate", "adam_weight_decay", "warmup_steps_fraction",
                                  "gradient_clipping_threshold", "adam_b1"}) {
      const std::string found = ": found " + tiny + ", expected a number ";
      for (const std::string& message :
           {error("", {key + "=" + tiny}), error(key + ": " + tiny + "\n")}) {
        EXPECT_NE(message.find(key + found), std::string::npos) << message;
        EXPECT_TRUE(message.ends_with(least)) << message;
      }
    }
  for (const char* zero : {"0", "0.0", "-0", "0e-999999", "0.000e5"})
    EXPECT_EQ(load_text(kModelLines, {std::string("learning_rate=") + zero}).learning_rate, 0);
  EXPECT_EQ(load_text(kModelLines, {"learning_rate=1.2e-38"}).learning_rate, 1.2e-38);
  EXPECT_EQ(error("", {"seed=1e-400"}),
            "command line seed: found 1e-400, expected an integer of at least 0");
  EXPECT_TRUE(error("", {"dataset_path=a.jsonl:1e-400"}).ends_with(least));
  EXPECT_TRUE(error("", {"learning_rate=1e400"}).ends_with("expected a number of at least 0"));
}

TEST_F(ConfigTest, AModelFileHoldsModelKeysOnly) {
  write_file(root / "configs/models/mixed.yml", kModelLines + "steps: 3\n");
  EXPECT_TRUE(message_of<ConfigError>([&] { load_text("model_name: mixed\n"); })
                  .starts_with("configs/models/mixed.yml:12 steps: found a key that is not a "
                               "model's, expected one of model_type, base_emb_dim, "));
  write_file(root / "configs/models/derived.yml", "base_config: small.yml\n");
  EXPECT_TRUE(message_of<ConfigError>([&] { load_text("model_name: derived\n"); })
                  .starts_with("configs/models/derived.yml:1 base_config: found a key that is not "
                               "a model's"));
}

TEST_F(ConfigTest, ALongChainOfBaseConfigsIsRefused) {
  for (int i = 0; i < 100; ++i)
    write_file(root / ("configs/chain" + std::to_string(i) + ".yml"),
               "base_config: chain" + std::to_string(i + 1) + ".yml\n");
  EXPECT_THAT(message_of<ConfigError>([&] { load("chain0.yml"); }),
              HasSubstr("after 32 others, expected a shorter chain"));
}

TEST_F(ConfigTest, BaseConfigIsFoundBesideTheFileFirst) {
  write_file(root / "configs/base.yml", kModelLines + "steps: 1\n");
  write_file(root / "mine/base.yml", kModelLines + "steps: 2\n");
  write_file(root / "mine/top.yml", "base_config: base.yml\n");
  write_file(root / "other/top.yml", "base_config: base.yml\n");
  EXPECT_EQ(load(root / "mine/top.yml").steps, 2);
  EXPECT_EQ(load(root / "other/top.yml").steps, 1);
  EXPECT_EQ(text_error("base_config: bass.yml\n"),
            "configs/test.yml:1 base_config: found bass.yml, expected a file beside this one or in "
            "configs/; nearest: base.yml");
  for (const char* value : {"", "\"\"", ".", "models", "/dev/zero"}) {
    std::string message = text_error(std::string("base_config: ") + value + "\n");
    EXPECT_TRUE(message.starts_with("configs/test.yml:1 base_config: found ")) << message;
  }
}

TEST_F(ConfigTest, ErrorsOfABaseNameTheBase) {
  write_file(root / "configs/base.yml", kModelLines + "steps: none\n");
  EXPECT_EQ(text_error("base_config: base.yml\nsteps: 3\n"),
            "configs/base.yml:12 steps: found none, expected an integer from 1 to 1000000000");
}

TEST_F(ConfigTest, CyclesAreRefused) {
  write_file(root / "configs/a.yml", "base_config: models/../b.yml\n");
  write_file(root / "configs/b.yml", "\nbase_config: ../configs/a.yml\n");
  EXPECT_EQ(message_of<ConfigError>([&] { load("a.yml"); }),
            "configs/b.yml:2 base_config: found ../configs/a.yml, which leads back to this file, "
            "expected a config that does not inherit from itself");
  write_file(root / "configs/self.yml", "base_config: self.yml\n");
  EXPECT_TRUE(message_of<ConfigError>([&] {
                load("self.yml");
              }).starts_with("configs/self.yml:1 base_config"));
  fs::create_symlink("self.yml", root / "configs/link.yml");
  EXPECT_TRUE(message_of<ConfigError>([&] { load("link.yml"); }).find("leads back") !=
              std::string::npos);
}

TEST_F(ConfigTest, ConfigsAreFoundByPathThenByName) {
  write_file(root / "configs/found.yml", kModelLines);
  EXPECT_EQ(load("found.yml").config_file, "configs/found.yml");
  EXPECT_EQ(load(root / "configs/found.yml").config_file, "configs/found.yml");
  EXPECT_EQ(message_of<ConfigError>([&] { load("fuond.yml"); }),
            "command line --config: found fuond.yml, expected a file, by path or in " +
                (root / "configs").string() + "; nearest: found.yml");
  for (const char* name : {"", ".", "models", "/dev/zero", "/dev/null", "/nowhere/x.yml"}) {
    EXPECT_TRUE(
        message_of<ConfigError>([&] { load(name); }).starts_with("command line --config: found "))
        << name;
  }
}

TEST_F(ConfigTest, PathsAreRelativeToWhereTheyAreWritten) {
  Config config = load_text(kModelLines + "dataset_path: .data/a.tokens\ntokenizer_path: /x/../t\n",
                            {"eval_dataset_path=b.tokens"});
  ASSERT_EQ(config.dataset_path.size(), 1u);
  EXPECT_EQ(config.dataset_path[0].path, root / ".data/a.tokens");
  EXPECT_EQ(config.tokenizer_path, "/t");
  EXPECT_EQ(config.eval_dataset_path,
            (std::vector<EvalDataset>{{"", fs::current_path() / "b.tokens"}}));
  EXPECT_EQ(config.base_output_directory, root / "runs") << "the default, too, is absolute";
  EXPECT_TRUE(load_text(kModelLines + "dataset_path: a\n", {"dataset_path="}).dataset_path.empty());
  // A profile has a name or a path.
  EXPECT_EQ(load_text(kModelLines + "hardware: h100\n").hardware, "h100");
  EXPECT_EQ(load_text(kModelLines + "hardware: machines/a\n").hardware, root / "machines/a");
  EXPECT_EQ(load_text(kModelLines, {"hardware=a.yml"}).hardware, fs::current_path() / "a.yml");
}

TEST_F(ConfigTest, CommandLineValuesAreTakenAsTheyStand) {
  auto prompt = [&](const std::string& value) {
    return load_text(kModelLines, {"sample_prompt=" + value}).sample_prompt;
  };
  EXPECT_EQ(prompt("Once: [a] {b} # c = d"), "Once: [a] {b} # c = d");
  EXPECT_EQ(prompt(""), "");
  EXPECT_EQ(prompt("\"two\\nlines\""), "two\nlines");
  EXPECT_EQ(prompt("'it''s'"), "it's");
  EXPECT_EQ(error("", {"sample_prompt=\"a\"\nsteps: 3"}).substr(0, 40),
            "command line sample_prompt: found \"a\"\\ns");
}

TEST_F(ConfigTest, ContradictionsNameBothKeysAndTheirOrigins) {
  // The files are not there either.
  auto fault = [&](const std::string& lines, const std::vector<std::string>& overrides = {}) {
    std::istringstream text(error(lines, overrides));
    std::string all;
    for (std::string line; std::getline(text, line);)
      if (line.find(", which is not there, expected ") == line.npos)
        all += (all.empty() ? "" : "\n") + line;
    return all;
  };
  EXPECT_EQ(fault("", {"base_num_kv_heads=3"}),
            "configs/test.yml:4 base_num_query_heads: found 4, expected a multiple of "
            "base_num_kv_heads = 3 (command line)");
  EXPECT_EQ(fault("", {"num_kv_shared_layers=2"}),
            "command line num_kv_shared_layers: found 2, expected fewer: no layer before those has "
            "keys for layer 0");
  EXPECT_EQ(
      fault("", {"num_experts=4"}),
      "command line num_experts: found 4, expected 0 with model_type = llama (configs/test.yml:1)");
  EXPECT_EQ(fault("", {"model_type=mixtral"}),
            "default num_experts: found 0, expected at least 1 with model_type = mixtral (command "
            "line)");
  EXPECT_EQ(fault("", {"model_type=mixtral", "num_experts=4", "num_experts_per_tok=5"}),
            "command line num_experts_per_tok: found 5, expected 1 to num_experts = 4 (command "
            "line)");
  EXPECT_EQ(fault("", {"model_type=mixtral", "num_experts=256", "num_experts_per_tok=256",
                       "per_device_batch_size=1024", "max_target_length=16384"}),
            "command line num_experts_per_tok: found 256, expected fewer than 2^31 rows with "
            "per_device_batch_size = 1024 (command line) and max_target_length = 16384 (command "
            "line)");
  EXPECT_EQ(fault("", {"model_type=qwen3_moe", "num_experts=4", "num_experts_per_tok=1",
                       "mlp_only_layers=[99]"}),
            "command line mlp_only_layers: found [\"99\"], expected numbers of layers, 0 to 1");
  for (const std::string steps : {"-1", "1.5", "01", "x", "1000000000"})
    EXPECT_EQ(fault("", {"memory_report_steps=[" + steps + "]"}),
              "command line memory_report_steps: found [\"" + steps +
                  "\"], expected numbers of steps, from 0");
  EXPECT_EQ(fault("", {"log_period=0"}),
            "command line log_period: found 0, expected an integer from 1 to 1000000000");
  EXPECT_EQ(fault("", {"head_dim=15"}), "command line head_dim: found 15, expected an even number");
  const std::string on_device = "parameter_layers_on_device: auto\n",
                    on_host = "parameter_memory_host_offload: true\n";
  EXPECT_EQ(fault(on_device + on_host),
            "default hardware: found \"\", expected a profile, whose memory is what "
            "parameter_layers_on_device = auto (configs/test.yml:12) goes by: hardware=NAME names "
            "one, and for plan --hardware NAME (plan --measure makes that of this machine)");
  EXPECT_NO_THROW(load_text(kModelLines + on_device));  // of no effect
  EXPECT_EQ(fault("rope_factor: 8\n"),
            "configs/test.yml:12 rope_factor: found 8, expected 1 with rope_type = default "
            "(default)");
  EXPECT_NO_THROW(load_text(kModelLines + "rope_factor: 8\nrope_type: linear\n"));
  EXPECT_EQ(fault("dcn_fsdp_parallelism: 2\nici_data_parallelism: 2\n"),
            "configs/test.yml:12 dcn_fsdp_parallelism: found 2, expected 1 with "
            "ici_data_parallelism = 2 (configs/test.yml:13): replicas are within a node only "
            "where shards are; nearest: ici_fsdp_parallelism and dcn_data_parallelism");
  EXPECT_EQ(fault("ici_data_parallelism: -1\nici_fsdp_parallelism: -1\n"),
            "configs/test.yml:12 ici_data_parallelism: found -1, expected a number with "
            "ici_fsdp_parallelism = -1 (configs/test.yml:13): only one can be filled");
  EXPECT_EQ(
      fault("dtype: float32\nweight_dtype: bfloat16\n"),
      "configs/test.yml:13 weight_dtype: found bfloat16, expected float32 with dtype = float32 "
      "(configs/test.yml:12)");
  EXPECT_EQ(fault("per_device_batch_size: 4097\nmax_target_length: 4096\n"),
            "configs/test.yml:12 per_device_batch_size: found 4097, expected at most 16777216 "
            "tokens with max_target_length = 4096 (configs/test.yml:13)");
  EXPECT_NO_THROW(
      load_text(kModelLines + "per_device_batch_size: 4096\nmax_target_length: 4096\n"));
  EXPECT_EQ(fault("mlpwi_0: device\n"),
            "configs/test.yml:12 mlpwi_0: found device, expected this key only with remat_policy: "
            "custom or auto, not with remat_policy = \"full\" (default)");
  EXPECT_NO_THROW(load_text(kModelLines + "mlpwi_0: device\nremat_policy: custom\n"));
  EXPECT_NO_THROW(load_text(kModelLines + "mlpwi_0: device\n", {"mlpwi_0="}));
  EXPECT_EQ(fault("dataset_type: tokens\n"),
            "default dataset_path: found [], expected a path, for dataset_type = tokens "
            "(configs/test.yml:12)");
  const std::string documents = "dataset_type: documents\n";
  const std::string tokens = "dataset_type: tokens\ndataset_path: a.tokens\n";
  EXPECT_EQ(fault(documents + "dataset_path: a.tokens:1, b.tokens\n").substr(0, 37),
            "configs/test.yml:13 dataset_path: fou");
  EXPECT_TRUE(fault(documents + "dataset_path: a.tokens:1, b.tokens\n")
                  .ends_with("expected a weight for each file, or for none"));
  EXPECT_EQ(fault(documents + "dataset_path: /a.jsonl\n"),
            "default tokenizer_path: found \"\", expected a path, to tokenize /a.jsonl");
  EXPECT_EQ(fault(tokens + "eval_dataset_path: /a.txt\n"),
            "default tokenizer_path: found \"\", expected a path, to tokenize /a.txt");
  EXPECT_EQ(fault(documents + "dataset_path: a.txt\ntokenizer_path: t\nchat_template: llama2\n"),
            "configs/test.yml:15 chat_template: found \"llama2\", expected none, or a file in "
            "dataset_path that is not plain text");
  EXPECT_EQ(load_text(kModelLines + tokens + "chat_template: llama2\n").chat_template, "llama2");
  EXPECT_EQ(fault(tokens + "skip_bad_lines: true\n"),
            "configs/test.yml:14 skip_bad_lines: found true, expected false, or a file of "
            "examples, such as .jsonl, in "
            "dataset_path");
  EXPECT_EQ(fault(tokens + "packing: false\n"),
            "configs/test.yml:14 packing: found false, expected true with dataset_type = tokens "
            "(configs/test.yml:12)");
  EXPECT_EQ(fault(tokens + "add_bos_eos: never\n"),
            "configs/test.yml:14 add_bos_eos: found never, expected missing, or a file of text, "
            "such as .jsonl or .txt, in "
            "dataset_path");
  EXPECT_EQ(fault(tokens + "excess_length_strategy: split\n"),
            "configs/test.yml:14 excess_length_strategy: found split, expected truncate with "
            "dataset_type = tokens (configs/test.yml:12)");
  const std::string streamed = documents + "dataset_path: a.tokens\nshuffle_window: 9\n";
  EXPECT_EQ(fault(streamed + "num_epoch: 2\n"),
            "configs/test.yml:15 num_epoch: found 2, expected 0 with shuffle_window = 9 "
            "(configs/test.yml:14): rows are counted as they are read; nearest: steps");
  EXPECT_EQ(fault(streamed + "eval_fraction: 0.5\n"),
            "configs/test.yml:15 eval_fraction: found 0.5, expected 0 with shuffle_window = 9 "
            "(configs/test.yml:14): files are read as they are needed; nearest: "
            "eval_dataset_path, of a file that is not trained on");
  EXPECT_NO_THROW(load_text(kModelLines + streamed + "keep_tokens: false\n"));
  EXPECT_NO_THROW(
      load_text(kModelLines + documents +
                "dataset_path: a.jsonl, b.txt\ntokenizer_path: t\nchat_template: gemma\n"
                "skip_bad_lines: true\npacking: false\nexcess_length_strategy: skip\n"));
  EXPECT_EQ(fault("eval_interval: 5\n"),
            "default eval_dataset_path: found [], expected a path, for eval_interval = 5 "
            "(configs/test.yml:12)");
  EXPECT_NO_THROW(load_text(kModelLines + tokens +
                            "eval_interval: 5\ntokenizer_path: t\nsample_tokens: 5\n"
                            "eval_prompts_path: a.txt\n"));
  EXPECT_EQ(fault("eval_prompts_path: /a.txt\n"),
            "default sample_tokens: found 0, expected more than 0, for eval_prompts_path = "
            "\"/a.txt\" (configs/test.yml:12); nearest: 64");
  EXPECT_THAT(fault("eval_prompts_path: /a.tokens\nsample_tokens: 5\n"),
              HasSubstr("expected a file of records, such as .jsonl, with prompt or messages"));
  EXPECT_EQ(fault("keep_best: validation_loss\neval_interval: 5\n").substr(0, 97),
            "default eval_dataset_path: found [], expected a path, for eval_interval = 5 "
            "(configs/test.yml:13)");
  EXPECT_EQ(fault("keep_best: validation_loss\n"),
            "configs/test.yml:12 keep_best: found validation_loss, expected none without "
            "validation text; nearest: eval_dataset_path or eval_fraction, with dataset_type "
            "documents or tokens");
  EXPECT_THAT(fault("keep_best: choices_accuracy\n"),
              HasSubstr("expected none without questions; nearest: eval_choices_path"));
  EXPECT_THAT(
      fault("keep_best: validation_rewards_margins\n"),
      HasSubstr("expected none without answers that are compared; nearest: objective: dpo"));
  const std::string evaluated = tokens + "eval_dataset_path: b.tokens\n";
  EXPECT_EQ(fault(evaluated + "early_stopping_patience: 3\n"),
            "default eval_interval: found -1, expected a number of steps, for "
            "early_stopping_patience = 3 (configs/test.yml:15); nearest: 10");
  EXPECT_EQ(fault(evaluated + "eval_interval: 5\nkeep_best: validation_loss\n"
                              "enable_checkpointing: false\n"),
            "configs/test.yml:16 keep_best: found validation_loss, expected none with "
            "enable_checkpointing = false (configs/test.yml:17): nothing is saved");
  EXPECT_NO_THROW(load_text(kModelLines + evaluated +
                            "eval_interval: 5\nearly_stopping_patience: 3\n"
                            "enable_checkpointing: false\n"));
  EXPECT_EQ(fault("sample_tokens: 5\n"),
            "default tokenizer_path: found \"\", expected a path, for sample_tokens = 5 "
            "(configs/test.yml:12)");
  for (const char* name : {"a/b", "..", "."}) {
    EXPECT_TRUE(fault("", {std::string("run_name=") + name})
                    .starts_with("command line run_name: found \"" + std::string(name) + "\""));
  }
  EXPECT_EQ(fault("", {"base_output_directory="}),
            "command line base_output_directory: found \"\", expected a path");
}

// Keys of which each is right, files, and keys that do not go together; of a faulty key nothing
// else is said.
TEST_F(ConfigTest, ContradictionsAndMissingInputsAreReportedTogether) {
  const std::vector<std::string> missing{"dataset_type=documents", "dataset_path=none.jsonl",
                                         "tokenizer_path=nothing", "load_parameters_path=absent"};
  auto lines_of = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), missing.begin(), missing.end());
    std::vector<std::string> keys;
    std::istringstream text(error("", overrides));
    for (std::string line; std::getline(text, line);) {
      const size_t end = line.find(": found ");
      keys.push_back(line.substr(line.rfind(' ', end - 1) + 1, end - line.rfind(' ', end - 1) - 1));
    }
    return keys;
  };
  EXPECT_THAT(lines_of({"steps=0", "stepps=1"}),
              testing::UnorderedElementsAre("steps", "stepps", "dataset_path", "tokenizer_path",
                                            "load_parameters_path"));
  EXPECT_THAT(lines_of({"head_dim=17", "weight_dtype=bfloat16", "dtype=float32", "run_name=..",
                        "eval_interval=3", "remat_policy=auto"}),
              testing::UnorderedElementsAre("head_dim", "weight_dtype", "run_name",
                                            "eval_dataset_path", "hardware", "dataset_path",
                                            "tokenizer_path", "load_parameters_path"));
  EXPECT_THAT(lines_of({"remat_policy=fulll"}),
              testing::UnorderedElementsAre("remat_policy", "dataset_path", "tokenizer_path",
                                            "load_parameters_path"));
  // No dataset_type that is missing, where it is only misspelt.
  EXPECT_THAT(error("", {"dataset_type=documets", "dataset_path=none.jsonl", "packing=false"}),
              AllOf(HasSubstr("dataset_type: found documets"), Not(HasSubstr("\n"))));
  // Of the folder that was to bring the model.
  EXPECT_EQ(
      text_error("load_parameters_path: absent\nweight_dtype: bfloat16\ndtype: float32\n"),
      "configs/test.yml:2 weight_dtype: found bfloat16, expected float32 with dtype = float32 "
      "(configs/test.yml:3)\n  configs/test.yml:1 load_parameters_path: found " +
          (root / "absent").string() + ", which is not there, expected a folder");
}

TEST_F(ConfigTest, InputsMustBeThere) {
  write_file(root / "data/stories.txt", "a");
  fs::create_directories(root / "weights");
  const std::string data = (root / "data").string() + "/", kWeights = (root / "weights").string();
  auto require = [&](const std::vector<std::string>& overrides) {
    require_inputs(load_text(kModelLines, overrides));
  };
  auto missing = [&](const std::vector<std::string>& overrides) {
    std::string text = message_of<ConfigError>([&] { require(overrides); });
    for (size_t at; (at = text.find(root.string() + "/")) != std::string::npos;)
      text.erase(at, root.string().size() + 1);
    return text;
  };
  const std::string tokens = "dataset_type=tokens";
  const std::string nothing = "dataset_path=" + data + "storys.tokens";
  EXPECT_NO_THROW(require({"dataset_type=synthetic", nothing}));  // tokens are made up
  EXPECT_EQ(missing({nothing}),
            "command line dataset_path: found no dataset_type beside it, expected documents or "
            "tokens; by default a run trains on random tokens");
  EXPECT_EQ(missing({tokens, "dataset_path=" + data + "storys.tok"}),
            "command line dataset_path: found data/storys.tok, which is not there, expected a "
            "file; nearest: data/stories.txt");
  EXPECT_EQ(missing({tokens, "dataset_path=" + kWeights}),
            "command line dataset_path: found weights, a folder without files of \"train\", "
            "expected some of .jsonl, .json, .csv, .tsv, .parquet, .arrow, .txt or .tokens");
  EXPECT_EQ(missing({"eval_dataset_path=" + data + "x/y.tokens"}),
            "command line eval_dataset_path: found data/x/y.tokens, which is not there, expected a "
            "file");
  EXPECT_EQ(missing({"tokenizer_path=" + data + "none"}),
            "command line tokenizer_path: found data/none, which is not there, expected a file or "
            "a folder");
  EXPECT_NO_THROW(require({"load_parameters_path=" + kWeights}));
  EXPECT_EQ(missing({"load_parameters_path=" + data + "stories.txt"}),
            "command line load_parameters_path: found data/stories.txt, a file, expected a folder");
  for (const std::string key : {"load_parameters_path", "load_full_state_path"})
    EXPECT_EQ(missing({key + "=" + kWeights + "s"}),
              "command line " + key +
                  ": found weightss, which is not there, expected a folder; "
                  "nearest: weights");
  // It goes on from its own checkpoint.
  fs::create_directories(root / "runs/mine");
  EXPECT_NO_THROW(require({"load_parameters_path=/none", "run_name=mine",
                           "base_output_directory=" + (root / "runs").string()}));
}

TEST_F(ConfigTest, ValidateHoldsForConfigsChangedInCode) {
  Config config = load_text(kModelLines);
  validate(config);
  config.adam_b2 = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message_of<ConfigError>([&] { validate(config); }),
            "default adam_b2: found nan, expected a number from 0 to below 1");
  config = load_text(kModelLines);
  config.label_actions["context"] = {"somewhere"};
  config.remat_policy = "custom";
  EXPECT_EQ(
      message_of<ConfigError>([&] { validate(config); }),
      "default context: found somewhere, expected remat, device or offload, or two of them: of "
      "the first offload_layers layers, and of the others");
}

TEST_F(ConfigTest, TheResolvedFileShowsEveryKeyWithItsOrigin) {
  write_file(root / "configs/top.yml", "model_name: small\nhead_dim: 32\ndataset_path: a b\n");
  Config config = load("top.yml", {"seed=3"});
  fs::path file = root / "config.yml";
  write_resolved(config, file);
  std::string text = read_file(file);
  for (const char* line :
       {"\nmodel_name: \"small\"  # configs/top.yml:1\n", "\nhead_dim: 32  # configs/top.yml:2\n",
        "\nbase_emb_dim: 64  # configs/models/small.yml:2\n", "\nseed: 3  # command line\n",
        "\nadam_b1: 0.9  # default\n", "\nlearning_rate: 3e-05  # default\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const Key& key : config_keys()) {
    EXPECT_THAT(text, HasSubstr("\n" + key.name + ": "));
  }
  Config again = load(file);
  EXPECT_EQ(values_of(again), values_of(config));
  write_resolved(again, file);
  EXPECT_EQ(values_of(load(file)), values_of(config)) << "and over an older file";
  EXPECT_FALSE(fs::exists(root / "config.yml.partial"));
}

TEST_F(ConfigTest, AFileThatCannotBeWrittenLeavesNothing) {
  Config config = load_text(kModelLines);
  EXPECT_THROW(write_resolved(config, root / "missing/config.yml"), Error);
  EXPECT_FALSE(fs::exists(root / "missing"));
  fs::create_directories(root / "occupied/config.yml");
  EXPECT_THROW(write_resolved(config, root / "occupied/config.yml"), Error);
  EXPECT_FALSE(fs::exists(root / "occupied/config.yml.partial"));
}

TEST_F(ConfigTest, OddFileNamesStayOnTheirLine) {
  write_file(root / "configs/odd\xff\nsteps: 9.yml", kModelLines + "seed: 5\n");
  Config config = load("odd\xff\nsteps: 9.yml");
  EXPECT_EQ(origin(config, "seed"), "configs/odd\\xff\\nsteps: 9.yml:12");
  write_resolved(config, root / "config.yml");
  EXPECT_EQ(values_of(load(root / "config.yml")), values_of(config));
}

// Cuts and byte changes of a valid file: an error of ours, or a config that is valid and whole.
TEST_F(ConfigTest, DamagedTextIsAnErrorOrAConfig) {
  write_file(root / "configs/base.yml", "steps: 3\n");
  const std::string text =
      "# a config\nbase_config: base.yml\nmodel_name: small  # note\nrun_name: \"q \\\"x\\\" "
      "\\x41\"\n"
      "sample_prompt: 'it''s'\nlearning_rate: 1.5e-3\nlogits_via_embedding: true\n"
      "remat_policy: custom\nquery_proj: device\nadam_b1: 0.5\ndataset_path: >\n  folded\n  text\n"
      "tokenizer_path: |\n  block\nseed: 12\n";
  ASSERT_NO_THROW(load_text(text));
  size_t loaded = 0, refused = 0;
  auto check = [&](const std::string& damaged) {
    try {
      Config config = load_text(damaged);
      validate(config);
      ++loaded;
    } catch (const ConfigError& error) {
      std::string message = error.what();
      bool says_where = message.starts_with("configs/") || message.starts_with("default ");
      EXPECT_TRUE(says_where) << message;
      // Nothing but breaks of ours, before what else is wrong.
      for (const char* next : {"\n  configs/", "\n  default ", "\n  and "})
        for (size_t at; (at = message.find(next)) != message.npos;) message.erase(at, 1);
      EXPECT_THAT(message, Not(HasSubstr("\n")));
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "escaped: " << error.what() << " for\n" << damaged;
    }
  };
  const std::string bytes("\0\4\t\n\r \"'#%&*,-.0:>?@[]`{|}~!\x7f\x80\xc3\xff", 33);
  for (size_t i = 0; i <= text.size(); ++i) {
    check(text.substr(0, i));
    check(text.substr(i));
    for (char byte : bytes) {
      std::string inserted = text, replaced = text;
      check(inserted.insert(i, 1, byte));
      if (i < text.size()) replaced[i] = byte;
      check(replaced);
    }
    if (i < text.size()) check(std::string(text).erase(i, 1));
  }
  EXPECT_GT(loaded, 1000u);
  EXPECT_GT(refused, 10000u);
}

TEST(ConfigHelp, ListsEveryKeyWithItsMeaning) {
  std::string help = config_help();
  EXPECT_THAT(help, HasSubstr("base_config"));
  for (const Key& key : config_keys()) {
    EXPECT_THAT(help, HasSubstr("\n  " + key.name + " = "));
    EXPECT_THAT(help, HasSubstr(key.doc + " [" + expected(key) + "]")) << key.name;
  }
}

// The shipped files.

int64_t parameter_count(const Config& config) {
  const int64_t D = config.model.width, H = config.model.head_dim, V = config.model.vocabulary;
  const int64_t attention = D * H * (2 * config.model.query_heads + 2 * config.model.kv_heads);
  const int64_t layer = attention + 3 * D * config.model.mlp_width + 2 * D;
  const int64_t tables = config.model.tied_embeddings ? 1 : 2;
  return config.model.layers * layer + tables * V * D + D;
}

TEST(ShippedConfigs, ModelsHaveTheirPublishedParameterCounts) {
  const std::map<std::string, int64_t> published = {
      {"llama2_7b", 6'738'415'616}, {"llama2_13b", 13'015'864'320}, {"llama2_70b", 68'976'648'192},
      {"llama3_8b", 8'030'261'248}, {"llama3_70b", 70'553'706'496},
  };
  const fs::path configs = default_configs_directory();
  for (const auto& [name, count] : published) {
    Config config =
        load_config_text("model_name: " + name + "\n", configs / "test.yml", {}, configs);
    EXPECT_EQ(parameter_count(config), count) << name;
    EXPECT_EQ(config.model.rope_base, name.starts_with("llama3") ? 500000 : 10000) << name;
  }
}

TEST(ShippedConfigs, AllLoadAndSurviveWriting) {
  const fs::path configs = default_configs_directory();
  std::string name = (fs::temp_directory_path() / "config_test_XXXXXX").string();
  const fs::path directory = mkdtemp(name.data());
  auto check = [&](const Config& config) {
    write_resolved(config, directory / "config.yml");
    EXPECT_EQ(values_of(load_config(directory / "config.yml", {}, configs)), values_of(config))
        << config.config_file;
  };
  size_t recipes = 0, models = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(configs)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename();
    check(load_config(name, overrides_of_recipe(name), configs));
    ++recipes;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(configs / "models")) {
    std::string text = "model_name: " + entry.path().stem().string() + "\n";
    check(load_config_text(text, configs / "test.yml", {}, configs));
    ++models;
  }
  EXPECT_GE(recipes, 5u);
  EXPECT_GE(models, 5u);
  fs::remove_all(directory);
}

TEST(ShippedConfigs, QuickstartHasAboutTenMillionParameters) {
  Config config = load_config("quickstart.yml", {}, default_configs_directory());
  EXPECT_NEAR(static_cast<double>(parameter_count(config)), 10e6, 1e6);
  EXPECT_EQ(config.dataset_type, DatasetType::tokens);
}

}  // namespace
}  // namespace longshore::trainer
