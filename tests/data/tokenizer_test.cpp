#include "longshore/data/tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "longshore/base/error.h"
#include "longshore/base/utf8.h"
#include "longshore/data/text/tokenize_json.h"
#include "longshore/data/tokenizers/json_tokenizer.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

const std::filesystem::path kGoldens = "tests/goldens/tokenizers";
const char* const kSentencepiece[] = {"sp_bpe", "sp_bpe_gemma", "sp_unigram"};
const char* const kJson[] = {"bytelevel_bpe_llama3", "bytelevel_bpe_qwen", "bytelevel_bpe_gpt2",
                             "gemma_bpe", "llama2_bpe"};

struct Case {
  std::string text;
  std::vector<int32_t> ids;
  std::string decoded;
};

std::vector<Case> cases_of(const std::string& name, nlohmann::json* settings = nullptr) {
  const auto file = nlohmann::json::parse(std::ifstream(kGoldens / name / "cases.json"));
  std::vector<Case> cases;
  for (const auto& entry : file.at("cases"))
    cases.push_back({entry.at("text"), entry.at("ids"), entry.at("decoded")});
  if (settings) *settings = file;
  return cases;
}

TEST(Tokenizer, AgreesWithEveryReferenceCase) {
  for (const char* name : kSentencepiece) {
    nlohmann::json settings;
    const auto cases = cases_of(name, &settings);
    const Tokenizer tokenizer(kGoldens / name / "tokenizer.model");
    EXPECT_EQ(tokenizer.vocab_size(), settings.at("vocab_size"));
    EXPECT_EQ(tokenizer.bos_id(), settings.at("bos_id"));
    EXPECT_EQ(tokenizer.eos_id(), settings.at("eos_id"));
    ASSERT_GT(cases.size(), 200u);
    for (const Case& each : cases) {
      EXPECT_EQ(tokenizer.encode(each.text), each.ids) << name << ": " << each.text;
      EXPECT_EQ(tokenizer.decode(each.ids), each.decoded) << name << ": " << each.text;
    }
  }
}

TEST(Tokenizer, JsonAgreesWithEveryReferenceCase) {
  for (const char* name : kJson) {
    const Tokenizer tokenizer(kGoldens / name / "tokenizer.json");
    const auto file = nlohmann::json::parse(std::ifstream(kGoldens / name / "cases.json"));
    EXPECT_EQ(tokenizer.vocab_size(), file.at("vocab_size"));
    ASSERT_GT(file.at("cases").size(), 200u);
    for (const auto& each : file.at("cases")) {
      const std::string text = each.at("text");
      const std::vector<int32_t> ids = each.at("ids");
      EXPECT_EQ(tokenizer.encode(text), ids) << name << ": " << text;
      EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::keep), each.at("decoded")) << name << text;
      std::vector<int32_t> with_special = ids;
      if (tokenizer.bos_id() >= 0) with_special.insert(with_special.begin(), tokenizer.bos_id());
      EXPECT_EQ(with_special, each.at("ids_with_special").get<std::vector<int32_t>>());
      EXPECT_EQ(tokenizer.decode(with_special), each.at("decoded_skip_special")) << name << text;
    }
  }
}

// Forms that the goldens do not have, as changes of their tokenizer.json; the ids are those of
// tokenizers 0.23.3.
TEST(Tokenizer, AgreesOnOtherForms) {
  const auto forms = nlohmann::json::parse(std::ifstream("tests/goldens/tokenizer_forms.json"));
  ASSERT_GT(forms.size(), 20u);
  for (const auto& form : forms) {
    const auto golden = nlohmann::json::parse(
        std::ifstream(kGoldens / std::string(form.at("tokenizer")) / "tokenizer.json"));
    const auto tokenizer = make_json_tokenizer(golden.patch(form.at("patch")).dump());
    ASSERT_GT(form.at("cases").size(), 2u) << form.at("form");
    for (const auto& each : form.at("cases"))
      EXPECT_EQ(tokenizer->encode(each.at(0).get<std::string>()),
                each.at(1).get<std::vector<int32_t>>())
          << form.at("form") << ": " << each.at(0);
  }
}

// As tests/tokenizers/forms.py writes them.
TEST(Tokenizer, AgreesOnOtherSteps) {
  const auto forms =
      nlohmann::json::parse(std::ifstream("tests/goldens/tokenizer_json_forms.json"));
  ASSERT_GT(forms.size(), 50u);
  for (const auto& form : forms) {
    const std::string name = form.at("tokenizer");
    auto file = name.empty()
                    ? nlohmann::json::object()
                    : nlohmann::json::parse(std::ifstream(kGoldens / name / "tokenizer.json"));
    for (const char* replaced : {"normalizer", "pre_tokenizer", "decoder"})
      if (form.at("change").contains(replaced)) file.erase(replaced);
    file.merge_patch(form.at("change"));
    const auto tokenizer = make_json_tokenizer(file.dump());
    ASSERT_GT(form.at("cases").size(), 10u) << form.at("form");
    for (const auto& each : form.at("cases")) {
      const std::vector<int32_t> ids = each.at(1);
      EXPECT_EQ(tokenizer->encode(each.at(0).get<std::string>()), ids)
          << form.at("form") << ": " << each.at(0);
      EXPECT_EQ(tokenizer->decode(ids, SpecialTokens::keep), each.at(2)) << form.at("form");
    }
  }
}

TEST(Tokenizer, FindsTheFileInAFolder) {
  TemporaryFolder folder;
  const std::string message = message_of<DataError>([&] { Tokenizer tokenizer(folder / ""); });
  EXPECT_THAT(message, HasSubstr("found none"));
  folder.write("tokenizer.model", read_file(kGoldens / "sp_bpe" / "tokenizer.model"));
  EXPECT_EQ(Tokenizer(folder / "").vocab_size(), 850);
  folder.write("tokenizer.json", read_file(kGoldens / "gemma_bpe" / "tokenizer.json"));
  EXPECT_EQ(Tokenizer(folder / "").path(), folder / "tokenizer.json");
  EXPECT_EQ(Tokenizer(folder / "tokenizer.model").vocab_size(), 850);
  // Made from tokenizer.model, it is for other readers.
  folder.write("tokenizer_config.json", R"({"sentencepiece_model": "tokenizer.model"})");
  EXPECT_EQ(Tokenizer(folder / "").path(), folder / "tokenizer.model");
  std::filesystem::remove(folder / "tokenizer.model");
  EXPECT_EQ(Tokenizer(folder / "").path(), folder / "tokenizer.json");
}

TEST(Tokenizer, BosIsTheTemplatesAndEosTheConfigurations) {
  TemporaryFolder folder;
  const auto path = folder.write("tokenizer.json",
                                 read_file(kGoldens / "bytelevel_bpe_llama3" / "tokenizer.json"));
  EXPECT_EQ(Tokenizer(path).bos_id(), 703);
  EXPECT_EQ(Tokenizer(path).eos_id(), 704);
  folder.write(
      "tokenizer_config.json",
      R"({"bos_token": "<|eot_id|>", "eos_token": {"content": "<|eot_id|>"}, "chat_template": ""})");
  EXPECT_EQ(Tokenizer(path).bos_id(), 703);
  EXPECT_EQ(Tokenizer(path).eos_id(), 707);
  folder.write("tokenizer_config.json",
               R"({"model_max_length": 1e999, "eos_token": "<|eot_id|>", "a": [-1e999, )" +
                   std::string(400, '9') + "]}");
  EXPECT_EQ(Tokenizer(path).eos_id(), 707);
  for (const char* wrong : {R"({"eos_token": "</s>"})", R"({"eos_token": 5})", "[]", "{",
                            R"({"eos_token": {}})", R"({"eos_token": 1e999})"}) {
    folder.write("tokenizer_config.json", wrong);
    const std::string message = message_of<DataError>([&] { Tokenizer tokenizer(path); });
    EXPECT_TRUE(message.starts_with((folder / "tokenizer_config.json: ").string())) << message;
  }
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::filesystem::create_directory(folder / "tokenizer_config.json");
  EXPECT_EQ(message_of<DataError>([&] { Tokenizer tokenizer(path); }),
            (folder / "tokenizer_config.json").string() +
                ": expected a tokenizer file, found no regular file");
}

TEST(Tokenizer, TokensHaveNames) {
  const Tokenizer json(kGoldens / "gemma_bpe" / "tokenizer.json");
  EXPECT_EQ(json.id_of("<start_of_turn>"), 5);
  EXPECT_EQ(json.id_of("<start>"), std::nullopt);
  EXPECT_EQ(json.spelling(5), "<start_of_turn>");
  EXPECT_EQ(json.spelling(-1), "");
  const Tokenizer model(kGoldens / "sp_bpe" / "tokenizer.model");
  EXPECT_EQ(model.id_of("</s>"), 2);
  EXPECT_EQ(model.id_of("<unk>"), 0);
  EXPECT_EQ(model.spelling(2), "</s>");
  EXPECT_EQ(model.id_of("<start_of_turn>"), std::nullopt);
}

TEST(Tokenizer, HashTellsModelsApart) {
  TemporaryFolder folder;
  std::set<uint64_t> hashes;
  for (const char* name : kJson)
    hashes.insert(Tokenizer(kGoldens / name / "tokenizer.json").fingerprint());
  for (const char* name : kSentencepiece) {
    const auto path = kGoldens / name / "tokenizer.model";
    const auto copy = folder.write("copy.model", read_file(path));
    EXPECT_EQ(Tokenizer(path).fingerprint(), Tokenizer(copy).fingerprint());
    hashes.insert(Tokenizer(path).fingerprint());
  }
  EXPECT_EQ(hashes.size(), 8u);
}

TEST(Tokenizer, SaysWhatIsWrongWithAFile) {
  TemporaryFolder folder;
  const std::string model = read_file(kGoldens / "sp_bpe" / "tokenizer.model");
  auto message = [](const std::filesystem::path& path) {
    return message_of<DataError>([&] { Tokenizer tokenizer(path); });
  };
  EXPECT_THAT(message(folder / "none"), HasSubstr("none: no such tokenizer file"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("no regular file"));
  EXPECT_THAT(message(folder.write("empty", "")), HasSubstr("no pieces"));
  EXPECT_THAT(message(folder.write("some.json", " {\"a\": 1}")),
              HasSubstr("some.json: the file: \"a\" is not supported"));
  EXPECT_THAT(message(folder.write("text", "Some text.\n")),
              HasSubstr("not a sentencepiece model"));
  EXPECT_THAT(message(folder.write("text.json", "Some text.\n")), HasSubstr("JSON"))
      << message(folder / "text.json");
  // Two pieces that would turn a terminal red.
  const std::string piece = "\x0a\x07\x0a\x05\x1b[31m";
  EXPECT_THAT(message(folder.write("red", model + piece + piece)),
              HasSubstr("\\x1b[31m is already defined"));
  const auto large = folder.write("large", "");
  std::filesystem::resize_file(large, (64 << 20) + 1);
  EXPECT_THAT(message(large), HasSubstr("found 67108865 bytes, expected at most 64 MiB"));
}

// Files of other tokenizers are named as what they are.
TEST(Tokenizer, KnowsWhatItDoesNotRead) {
  TemporaryFolder folder;
  nlohmann::json vocabulary;
  for (int i = 0; i < 300; ++i) vocabulary[std::to_string(i)] = i;
  auto model = [](const std::string& type) {
    return R"({"version": "1.0", "model": {"type": ")" + type + R"(", "unk_id": 0, "vocab": )";
  };
  struct File {
    const char* name;
    std::string bytes, expected;
  };
  for (const File& file : std::vector<File>{
           {"tokenizer.model", "IQ== 0\nIg== 1\n", "found a tiktoken file of 2 tokens"},
           {"cl100k_base.tiktoken", "IQ== 0\r\n", "found a tiktoken file of 1 token"},
           {"wordpiece.json", model("WordPiece") + "{}}}",
            "model/type: expected BPE, Unigram, or a sentencepiece model"},
           {"vocab.json", vocabulary.dump(), "found a vocab.json"},
           {"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})",
            "found a tokenizer_config.json"},
           {"merges.txt", "#version: 0.2\nh e\n", "found a merges.txt"},
           {"vocab.txt", "[PAD]\n[UNK]\n", "found the vocab.txt of a WordPiece tokenizer"},
           {"tokenizer.json", "version https://git-lfs.github.com/spec/v1\n",
            "found a pointer of Git LFS"},
           {"model.gguf", "GGUF\x03", "found a GGUF file"}}) {
    const auto path = folder.write(file.name, file.bytes);
    const std::string message = message_of<DataError>([&] { Tokenizer tokenizer(path); });
    EXPECT_TRUE(message.starts_with(path.string() + ": " + file.expected)) << message;
    std::filesystem::remove(path);
  }
}

TEST(Tokenizer, SaysWhatAFolderHasInstead) {
  for (const auto& [files, expected] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "found none"},
           {{"spiece.model"}, "found spiece.model, which can be named itself"},
           {{"tiktoken.model"}, "found tiktoken.model, which does not say how text is split"},
           {{"vocab.json", "merges.txt"}, "found vocab.json and merges.txt"},
           {{"vocab.txt"}, "found the vocab.txt"}}) {
    TemporaryFolder folder;
    for (const std::string& name : files) folder.write(name, "");
    EXPECT_THAT(
        message_of<DataError>([&] { Tokenizer tokenizer(folder / ""); }),
        HasSubstr("expected a tokenizer.json, tokenizer.model or tekken.json in this folder, " +
                  expected));
  }
}

TEST(Tokenizer, RefusesIdsAndTextsOutOfRange) {
  const Tokenizer tokenizer(kGoldens / "sp_bpe" / "tokenizer.model");
  for (int32_t id : {-1, tokenizer.vocab_size(), INT32_MAX}) {
    const std::string message = message_of<DataError>([&] {
      tokenizer.decode(std::vector<int32_t>{5, id});
    });
    EXPECT_THAT(message, HasSubstr("token id " + std::to_string(id) + "; the vocabulary has 850"));
  }
  EXPECT_THROW(tokenizer.encode(std::string(kMaxTextBytes + 1, 'a')), DataError);
}

TEST(Tokenizer, TakesAnyBytes) {
  for (const char* file : {"sp_bpe/tokenizer.model", "bytelevel_bpe_qwen/tokenizer.json",
                           "gemma_bpe/tokenizer.json"}) {
    const Tokenizer tokenizer(kGoldens / file);
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) {
      std::string bytes(random() % 60, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      for (int32_t id : tokenizer.encode(bytes)) {
        EXPECT_GE(id, 0);
        EXPECT_LT(id, tokenizer.vocab_size());
      }
      std::vector<int32_t> ids(random() % 60);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % tokenizer.vocab_size());
      const std::string text = tokenizer.decode(ids, SpecialTokens::keep);
      EXPECT_EQ(valid_utf8_prefix(text), text.size());
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xff")), "a\xef\xbf\xbd");
  }
}

// A damaged model is refused, or works on any text.
TEST(Tokenizer, DamagedModelsAreRefusedOrSafe) {
  TemporaryFolder folder;
  std::mt19937_64 random(1);
  std::string text;
  for (const Case& each : cases_of("sp_unigram")) text += each.text + "\xff";
  int refused = 0, loaded = 0;
  for (const char* name : kSentencepiece) {
    const std::string model = read_file(kGoldens / name / "tokenizer.model");
    for (int i = 0; i < 300; ++i) {
      std::string changed = model;
      for (size_t n = 1 + random() % 3; n > 0; --n) {
        const size_t at = random() % changed.size();
        if (random() % 4 == 0)
          changed.resize(at + 1);
        else
          changed[at] = static_cast<char>(random());
      }
      try {
        const Tokenizer tokenizer(folder.write("changed.model", changed));
        ++loaded;
        tokenizer.decode(tokenizer.encode(text));
      } catch (const DataError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(loaded, 50);
}

std::string filter(const Tokenizer& tokenizer, const std::string& lines) {
  std::istringstream in(lines);
  std::string out;
  tokenize_json_lines(tokenizer, in, [&](const std::string& line) { out += line; });
  return out;
}

TEST(TokenizeJson, AnswersEachLine) {
  for (const char* name : kSentencepiece) {
    const Tokenizer tokenizer(kGoldens / name / "tokenizer.model");
    const auto cases = cases_of(name);
    std::string lines;
    for (const Case& each : cases) lines += nlohmann::json(each.text).dump() + "\n";
    std::istringstream answers(filter(tokenizer, lines));
    for (const Case& each : cases) {
      std::string line;
      ASSERT_TRUE(std::getline(answers, line));
      EXPECT_TRUE(
          std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
      const auto answer = nlohmann::json::parse(line);
      EXPECT_EQ(answer.at("ids").get<std::vector<int32_t>>(), each.ids);
      EXPECT_EQ(answer.at("decoded").get<std::string>(), each.decoded);
    }
    EXPECT_EQ(answers.peek(), EOF);
  }
}

TEST(TokenizeJson, NamesTheLineItCannotRead) {
  const Tokenizer tokenizer(kGoldens / "sp_bpe" / "tokenizer.model");
  EXPECT_EQ(filter(tokenizer, ""), "");
  for (const std::string& bad :
       {std::string("Hello"), std::string(""), std::string("5"), std::string("1e999"),
        std::string("[\"a\"]"), std::string("\"a\" \"b\""), std::string("\"\xff\""),
        std::string("\"\\ud800\""), std::string("\"open"), std::string(1'000'000, '[')}) {
    const std::string message =
        message_of<DataError>([&] { filter(tokenizer, "\"a\"\n" + bad + "\n\"b\"\n"); });
    EXPECT_TRUE(message.starts_with("line 2: expected a JSON string")) << message;
  }
}

// As transformers' add_tokens makes of them; a token that is there keeps its id.
TEST(Tokenizer, TokensCanBeAddedToATokenizerJson) {
  TemporaryFolder folder;
  for (const char* name : kJson) {
    SCOPED_TRACE(name);
    const Tokenizer plain(kGoldens / name);
    const auto file = nlohmann::json::parse(std::ifstream(kGoldens / name / "tokenizer.json"));
    const std::string there = file["added_tokens"][0]["content"];
    const std::vector<std::string> added{"<\"new\\>", there, "<n\u2192y>"};
    const Tokenizer tokenizer(kGoldens / name, added);
    const int32_t first = plain.vocab_size();
    EXPECT_EQ(tokenizer.vocab_size(), first + 2);
    EXPECT_EQ(tokenizer.ordinary_vocab_size(), first + 2);
    EXPECT_EQ(tokenizer.id_of(added[0]), first);
    EXPECT_EQ(tokenizer.id_of(there), plain.id_of(there));
    EXPECT_EQ(tokenizer.id_of(added[2]), first + 1);
    EXPECT_EQ(tokenizer.eos_id(), plain.eos_id());
    EXPECT_NE(tokenizer.fingerprint(), plain.fingerprint());
    for (const Case& each : cases_of(name)) EXPECT_EQ(tokenizer.encode(each.text), each.ids);
    const std::string text = "a" + added[0] + added[2] + added[0];
    const std::vector<int32_t> ids = tokenizer.encode(text);
    EXPECT_EQ(std::vector(ids.end() - 3, ids.end()),
              (std::vector<int32_t>{first, first + 1, first}));
    EXPECT_EQ(tokenizer.decode(ids), text);

    // All else of the file is as it was, and the file is the tokenizer.
    auto json = nlohmann::json::parse(tokenizer.extended_json());
    auto& list = json["added_tokens"];
    list.erase(list.end() - 2, list.end());
    EXPECT_EQ(json, file);
    const Tokenizer written(folder.write("tokenizer.json", tokenizer.extended_json()));
    EXPECT_EQ(written.encode(text), ids);
    EXPECT_EQ(written.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(Tokenizer(kGoldens / name, std::vector{there}).extended_json(), "");
  }
  // A piece of the vocabulary is found before others and keeps its id.
  const std::vector<std::string> piece{Tokenizer(kGoldens / "bytelevel_bpe_llama3").spelling(300)};
  const Tokenizer tokenizer(kGoldens / "bytelevel_bpe_llama3", piece);
  EXPECT_EQ(tokenizer.vocab_size(), 709);
  const int32_t q = tokenizer.id_of("Q").value();
  EXPECT_EQ(tokenizer.encode("Q" + piece[0] + "Q"), (std::vector<int32_t>{q, 300, q}));

  const std::vector<std::string> added{"<new>"};
  auto gap = nlohmann::json::parse(std::ifstream(kGoldens / "bytelevel_bpe_llama3/tokenizer.json"));
  gap["added_tokens"].push_back({{"id", 720}, {"content", "<far>"}, {"special", true}});
  folder.write("tokenizer.json", gap.dump());
  EXPECT_THAT(message_of<DataError>([&] { Tokenizer(folder / "tokenizer.json", added); }),
              HasSubstr("found numbers that are no token's"));
  for (const std::string wrong : {"", "a\xff"})
    EXPECT_THAT(message_of<DataError>(
                    [&] { Tokenizer(kGoldens / "bytelevel_bpe_llama3", std::vector{wrong}); }),
                HasSubstr("among the tokens to add, expected UTF-8"));
  for (const char* name : kSentencepiece)
    EXPECT_THAT(message_of<DataError>([&] { Tokenizer(kGoldens / name, added); }),
                HasSubstr("is a sentencepiece model, expected a tokenizer.json"));
}

}  // namespace
}  // namespace longshore::data
