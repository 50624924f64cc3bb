// Reading, checking and writing the value of each key.
#include "longshore/trainer/config/key_values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/eval_datasets.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/validate.h"
#include "tests/trainer/config/config_fixture.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

class KeyValuesTest : public ConfigTest {};

// Values at the edges of what a key accepts, as text after `key=`.
std::vector<std::string> edge_values(const Key& key) {
  if (auto* integer = std::get_if<IntegerKey>(&key.kind)) {
    std::vector<std::string> values = {std::to_string(integer->low), std::to_string(integer->high),
                                       "+" + std::to_string(integer->low)};
    if (integer->also)
      values.push_back(integer->also_word ? integer->also_word : std::to_string(*integer->also));
    return values;
  }
  if (auto* number = std::get_if<NumberKey>(&key.kind)) {
    if (number->low > 0 && number->low < 1)  // above what float32 rounds to 0
      return {"0.30000000000000004", fmt::format("{}", number->low), ".5", "+5E-1"};
    std::vector<std::string> values = {"0.30000000000000004", "1e-30", "1.1754943508222875e-38",
                                       ".5", "+5E-1"};
    if (number->low >= 1) values = {"1.0000000000000002", "1.7976931348623157e308", "+1E4", "3"};
    if (number->low_end == End::included) values.push_back(std::to_string(number->low));
    return values;
  }
  if (std::holds_alternative<TextKey>(key.kind) || std::holds_alternative<PathKey>(key.kind)) {
    return {"plain",
            "two words # and no comment",
            "a: b, [c] {d} &e *f !g |h >i %j @k `l",
            "\\ back",
            "say \"so\"",
            "tab\tnewline\nreturn\r\n end",
            " led and ended ",
            "caf\u00e9 \u4f60\u597d \u2028 \U0001F6A2 \ufeff",
            "true",
            "12",
            "\"\\x07 \\e\"",
            "it's"};
  }
  if (auto* list = std::get_if<ListKey>(&key.kind)) {
    if (const std::vector<std::string>& choices = list->choices; !choices.empty())
      return {"[]", choices[0], choices.back() + ", " + choices[0],
              "[ '" + choices[0] + "', " + choices[1] + " ]"};
    return {"[]",
            "a,b ,  c",
            R"(['^(?!.*mlp)', "\\d{1,2}"])",
            R"(\.[qk]_proj$)",
            "[~x]",
            "# 'it''s' \"so\": {a} caf\u00e9"};
  }
  if (std::holds_alternative<DatasetKey>(key.kind)) {
    return {"", "a.jsonl", "a.jsonl:0.7, b.tokens:3",
            "['with, comma:1e-3', \"/with:colon\", 'with:0.5:1']",
            "# 'it''s' \"so\": {a} caf\u00e9"};
  }
  if (std::holds_alternative<EvalDatasetKey>(key.kind)) {
    return {"", "a.jsonl", "wiki=a.jsonl, code=b.tokens.gz, c.tokens",
            "['a, b=with, comma', \"/with=sign\", 'a=with=sign']",
            "# 'it''s' \"so\": {a} caf\u00e9"};
  }
  return choices(key);
}

bool is_invalid(const Config& config) {
  try {
    validate(config);
    return false;
  } catch (const ConfigError&) {
    return true;
  }
}

TEST_F(KeyValuesTest, EveryKeyIsWrittenSoThatItLoadsAgain) {
  const fs::path file = root / "run/config.yml";
  fs::create_directories(file.parent_path());
  size_t checked = 0;
  for (const Key& key : config_keys()) {
    if (key.name == "model_name") continue;  // one of the models, tested below
    for (const std::string& value : edge_values(key)) {
      SCOPED_TRACE(key.name + "=" + value);
      Config config = load_text(kModelLines);
      Scalar scalar{value, ScalarStyle::plain};
      ASSERT_TRUE(read_value(key, scalar, root, config));
      EXPECT_TRUE(is_valid(key, config));
      write_resolved(config, file);
      // A value that contradicts another key is written all the same; reading it says so.
      if (is_invalid(config)) {
        EXPECT_THROW(load_config(file, {}, root / "configs"), ConfigError);
        continue;
      }
      Config again = load_config(file, {}, root / "configs");
      EXPECT_EQ(values_of(again), values_of(config));
      ++checked;
    }
  }
  EXPECT_GT(checked, 2 * config_keys().size());
}

TEST_F(KeyValuesTest, EveryKeyRefusesWhatItDoesNotExpect) {
  for (const Key& key : config_keys()) {
    SCOPED_TRACE(key.name);
    std::vector<std::string> wrong = {"", "~", "null", "[1, 2]", "{a: 1}", "\n  a: 1", "\n  - 1"};
    bool is_number =
        std::holds_alternative<IntegerKey>(key.kind) || std::holds_alternative<NumberKey>(key.kind);
    if (is_number) {
      for (const char* value :
           {"abc", "true", "\"1\"", "'1'", ".nan", "nan", ".inf", "-.inf", "inf", "1e999", "0x10",
            "1 2", "--1", "+-1", "99999999999999999999999999x", "1,5", "\"\""}) {
        wrong.push_back(value);
      }
    }
    if (auto* integer = std::get_if<IntegerKey>(&key.kind)) {
      for (const char* value : {"1.5", "1e-3", "1e300", "_5", "5_", "5__0", "5_.0",
                                "9223372036854775808", "-9223372036854775809"}) {
        wrong.push_back(value);
      }
      wrong.push_back(std::to_string(integer->low - (integer->also ? 3 : 1)));
      if (integer->high < std::numeric_limits<int64_t>::max()) {
        wrong.push_back(std::to_string(integer->high + 1));
      }
    }
    if (auto* number = std::get_if<NumberKey>(&key.kind)) {
      wrong.push_back("-1e-9");
      if (number->low_end == End::excluded) wrong.push_back(std::to_string(number->low));
      if (number->high == 1) wrong.push_back("1.0000000000000002");
      if (number->high_end == End::excluded) wrong.push_back("1");
    }
    if (!choices(key).empty()) {
      for (const char* value : {"nonsense", "1", "yes"}) wrong.push_back(value);
    }
    if (std::holds_alternative<TextKey>(key.kind) || std::holds_alternative<PathKey>(key.kind)) {
      wrong.push_back("\"nul \\0\"");
    }
    auto* list = std::get_if<ListKey>(&key.kind);
    if (list || std::holds_alternative<DatasetKey>(key.kind) ||
        std::holds_alternative<EvalDatasetKey>(key.kind)) {
      std::erase(wrong, "[1, 2]");
      std::erase(wrong, "\n  - 1");
      for (const char* value : {"[a, [b]]", "[a, {b: c}]", "[a, ~]", "[\"\"]", "[a, &b c]",
                                "[a, !!str b]", "!!set [a]", "&x [a]", "a,,b", "a,"})
        wrong.push_back(value);
      wrong.push_back("[\"nul \\0\"]");
      std::string many = "x";
      for (size_t i = 0; i < (list ? list->most : kMaxItems); ++i) many += ",x";
      wrong.push_back(many);
    }
    if (list) {
      wrong.push_back("\"\"");
      if (list->choices.empty()) wrong.push_back(std::string(257, 'x'));
      if (!list->choices.empty())
        wrong.push_back("[" + list->choices[0] + ", " + list->choices[0] + "]");
    }
    for (const std::string& value : wrong) {
      SCOPED_TRACE(value);
      // Without the model, so that no key is there twice: the value is refused before the missing
      // keys are.
      std::string message = text_error("# one\n# two\n" + key.name + ": " + value + "\n");
      EXPECT_TRUE(message.starts_with("configs/test.yml:3 " + key.name + ": found ")) << message;
      EXPECT_THAT(message, HasSubstr(", expected "));
    }
  }
}

TEST_F(KeyValuesTest, ChoicesMeanTheirEnumerators) {
  auto with = [&](const std::string& override) { return load_text(kModelLines, {override}); };
  EXPECT_EQ(with("backend=auto").backend, BackendChoice::automatic);
  EXPECT_EQ(with("backend=cpu").backend, BackendChoice::cpu);
  EXPECT_EQ(with("backend=cuda").backend, BackendChoice::cuda);
  EXPECT_EQ(with("backend=cuda_composed").backend, BackendChoice::cuda_composed);
  EXPECT_EQ(with("dtype=auto").dtype, ComputeDtype::automatic);
  EXPECT_EQ(with("dtype=float32").dtype, ComputeDtype::float32);
  EXPECT_EQ(with("dtype=bfloat16").dtype, ComputeDtype::bfloat16);
  EXPECT_EQ(with("weight_dtype=float32").weight_dtype, WeightDtype::float32);
  EXPECT_EQ(with("model_type=llama").model.family, &models::kLlama);
  EXPECT_EQ(with("dataset_type=synthetic").dataset_type, DatasetType::synthetic);
  auto of_type = [&](const std::string& type) {
    return load_text(kModelLines + "dataset_path: x\n", {"dataset_type=" + type}).dataset_type;
  };
  EXPECT_EQ(of_type("tokens"), DatasetType::tokens);
  EXPECT_EQ(of_type("documents"), DatasetType::documents);
  auto with_excess = [&](const std::string& strategy) {
    return with("excess_length_strategy=" + strategy).excess_length_strategy;
  };
  EXPECT_EQ(with_excess("truncate"), data::ExcessLength::truncate);
  EXPECT_EQ(with_excess("split"), data::ExcessLength::split);
  EXPECT_EQ(with_excess("skip"), data::ExcessLength::skip);
  EXPECT_EQ(with("train_on=last_assistant").train_on, data::TrainOn::last_assistant);
  EXPECT_EQ(with("train_on=all").train_on, data::TrainOn::all);
  EXPECT_TRUE(with("logits_via_embedding=True").model.tied_embeddings);
  EXPECT_FALSE(with("logits_via_embedding=FALSE").model.tied_embeddings);
}

TEST_F(KeyValuesTest, NoTwoKeysShareANameOrAMember) {
  const Config defaults = load_text(kModelLines);
  for (const Key& key : config_keys()) {
    for (const std::string& value : edge_values(key)) {
      Config config = defaults;
      ASSERT_TRUE(read_value(key, {value, ScalarStyle::plain}, root, config));
      for (const Key& other : config_keys()) {
        if (&other == &key) continue;
        EXPECT_NE(other.name, key.name);
        EXPECT_EQ(value_text(other, config), value_text(other, defaults))
            << key.name << " changes " << other.name;
      }
    }
  }
}

TEST_F(KeyValuesTest, ListsAreReadInEverySpelling) {
  using List = std::vector<std::string>;
  auto targets = [&](const std::string& value) {
    return load_text(kModelLines + "lora_targets: " + value + "\n").lora_targets;
  };
  const List expected{"q_proj", "up_proj"};
  for (const char* value :
       {"[q_proj, up_proj]", "['q_proj', \"up_proj\"]", "q_proj,up_proj", "q_proj, up_proj",
        "\n  - q_proj\n  - up_proj", "\n- q_proj\n- up_proj"})
    EXPECT_EQ(targets(value), expected) << value;
  auto mask = [&](const std::string& value) {
    return load_text(kModelLines, {"trainable_parameters_mask=" + value}).trainable_parameters_mask;
  };
  EXPECT_EQ(mask("a,b"), (List{"a", "b"}));
  EXPECT_EQ(mask("[a, b]"), (List{"a", "b"}));
  EXPECT_EQ(mask("['a,b']"), List{"a,b"});
  EXPECT_EQ(mask("'a{1,2}'"), List{"a{1,2}"});
  EXPECT_EQ(mask("[]"), List{});
  EXPECT_EQ(mask(R"(['\.[0-9]'])"), List{R"(\.[0-9])"});
  EXPECT_EQ(load_text(kModelLines, {"run_name=[a]"}).run_name, "[a]");
  EXPECT_EQ(error("lora_targets: [q_prj]\n").substr(0, 55),
            "configs/test.yml:12 lora_targets: found a list, q_prj, ");
  EXPECT_EQ(error("run_name: [a]\n"),
            "configs/test.yml:12 run_name: found a list, a, expected text");
  EXPECT_EQ(error("", {"lora_targets="}).substr(0, 42),
            "command line lora_targets: found nothing, ");
}

TEST_F(KeyValuesTest, DatasetsHaveWeightsBehindAColon) {
  using Files = std::vector<std::pair<std::string, std::optional<double>>>;
  auto files = [&](const std::string& value) {
    Files files;
    for (const DatasetFile& file :
         load_text(kModelLines + "dataset_path: " + value + "\n").dataset_path)
      files.emplace_back(file.path.lexically_relative(root).string(), file.weight);
    return files;
  };
  EXPECT_EQ(files("a.jsonl"), (Files{{"a.jsonl", std::nullopt}}));
  EXPECT_EQ(files("a.jsonl:0.7, b.tokens:3"), (Files{{"a.jsonl", 0.7}, {"b.tokens", 3}}));
  EXPECT_EQ(files("[a, 'b, c:1', d:e]"),
            (Files{{"a", std::nullopt}, {"b, c", 1}, {"d:e", std::nullopt}}));
  EXPECT_EQ(files("a:0.5:1"), (Files{{"a:0.5", 1}}));
  EXPECT_EQ(files("\"\""), Files{});
  for (const char* value : {"a:0", "a:-1", "a:inf", "a:nan", ":1", "[a, '']", "a,,b"}) {
    std::string message = error("dataset_path: " + std::string(value) + "\n");
    EXPECT_TRUE(message.starts_with("configs/test.yml:12 dataset_path: found ")) << message;
    EXPECT_THAT(message, HasSubstr("with or without weights above 0"));
  }
}

TEST_F(KeyValuesTest, EvalDatasetsHaveNamesBeforeAnEqualsSign) {
  using Sets = std::vector<std::pair<std::string, std::string>>;
  const auto sets_of = [&](const Config& config) {
    Sets sets;
    for (const EvalDataset& set : named_eval_datasets(config))
      sets.emplace_back(set.name, set.path.lexically_relative(root).string());
    return sets;
  };
  const auto sets = [&](const std::string& value) {
    return sets_of(load_text(kModelLines + "eval_dataset_path: " + value + "\n"));
  };
  EXPECT_EQ(sets("a.jsonl"), (Sets{{"", "a.jsonl"}}));
  EXPECT_EQ(sets("wiki=a.jsonl"), (Sets{{"wiki", "a.jsonl"}}));
  EXPECT_EQ(sets("wiki=a.jsonl, x/b.jsonl.gz, c/"),
            (Sets{{"wiki", "a.jsonl"}, {"b", "x/b.jsonl.gz"}, {"c", "c/"}}));
  EXPECT_EQ(sets("./a=1.jsonl"), (Sets{{"", "a=1.jsonl"}}));
  EXPECT_EQ(sets("['a b, c=d=e', f]"), (Sets{{"a b, c", "d=e"}, {"f", "f"}}));
  EXPECT_EQ(sets("[]"), Sets{});
  for (const std::string value : {"=a", "a=", "[a, '']", "['a\u202eb=c']", "\"x\\x1b=c\""})
    EXPECT_THAT(error("eval_dataset_path: " + value + "\n"),
                HasSubstr("expected a path, or a list of at most 100: [wiki=a.jsonl, "))
        << value;
  EXPECT_THAT(error("eval_dataset_path: " + std::string(65, 'x') + "=a\n"),
              HasSubstr("names of at most 64 bytes"));
  EXPECT_THAT(error("eval_dataset_path: /x/a.jsonl, /y/a.csv\n"),
              HasSubstr("configs/test.yml:12 eval_dataset_path: found /x/a.jsonl and /y/a.csv, "
                        "both called \"a\"; expected different names; nearest: NAME=/y/a.csv"));
  EXPECT_THAT(error("eval_dataset_path: ['/x/a\tb', c]\n"),
              HasSubstr("whose name cannot be that of a set; expected a name before it"));
}

TEST_F(KeyValuesTest, LabelKeysFillTheCustomPolicy) {
  Config config = load_text(
      kModelLines + "remat_policy: custom\nquery_proj: device\nmlpwo: remat\ncontext: device\n",
      {"context="});
  std::map<std::string, std::vector<std::string>> actions = {{"query_proj", {"device"}},
                                                             {"mlpwo", {"remat"}}};
  EXPECT_EQ(config.label_actions, actions);
}

// As MaxText's configs have them.
TEST_F(KeyValuesTest, NumbersMayBeWrittenInYamlsOtherWays) {
  for (const char* text : {"12000", "12_000", "12000.0", "1.2e4", "+1_2_0_00"}) {
    const Config config = load_text(
        kModelLines, {std::string("steps=") + text, std::string("rope_max_timescale=") + text});
    EXPECT_EQ(config.steps, 12000) << text;
    EXPECT_EQ(config.model.rope_base, 12000) << text;
  }
}

}  // namespace
}  // namespace longshore::trainer
