// The tokenize program as a user meets it: what it prints and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/rows/token_file.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "tests/base/process.h"
#include "tests/data/image_samples.h"
#include "tests/data/temporary_folder.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

struct Result {
  int exit_code;
  std::string output;  // of stdout and stderr
};

Result run_command(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  std::string output;
  for (int c; (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

Result run_tokenize(const std::string& arguments) {
  return run_command(TOKENIZE_PROGRAM " " + arguments);
}

const std::string kModel = "tests/goldens/tokenizers/sp_bpe/tokenizer.model";

TEST(TokenizeProgram, FiltersJsonLines) {
  TemporaryFolder folder;
  const auto input = folder.write("in", "\"the\"\n\"\\u00e9\"");
  const Result result = run_tokenize("--tokenizer " + kModel + " --stdin-json < " + input.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output.starts_with("{\"ids\":[266],\"decoded\":\"the\"}\n{\"ids\":["))
      << result.output;
  EXPECT_TRUE(result.output.ends_with("\"decoded\":\"\\u00e9\"}\n")) << result.output;
}

TEST(TokenizeProgram, AddsBosAndEosAsItIsTold) {
  TemporaryFolder folder;
  const auto input = folder.write("in.txt", "<bos>the<eos>\n");
  auto tokenize = [&](const std::string& choice) {
    return run_tokenize("--tokenizer tests/goldens/tokenizers/gemma_bpe --out " +
                        (folder / "out.tokens").string() + " " + choice + " " + input.string());
  };
  EXPECT_THAT(tokenize("").output, HasSubstr("1 text begins or ends with \"<bos>\""));
  EXPECT_THAT(tokenize("").output, HasSubstr(": 3 tokens, 1 document"));
  EXPECT_THAT(tokenize("--add-bos-eos always").output, HasSubstr(": 5 tokens, 1 document"));
  EXPECT_EQ(tokenize("--add-bos-eos never").output,
            (folder / "out.tokens").string() + ": 3 tokens, 1 document\n");
  const Result wrong = tokenize("--add-bos-eos nevr");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.output,
            "tokenize: --add-bos-eos: found nevr, expected one of missing, always, never; nearest: "
            "never\n");
}

// The model says how images stand in text: that of --model, or of the tokenizer's folder.
TEST(TokenizeProgram, TakesImagesWithTheirModel) {
  TemporaryFolder folder;
  const ImageSamples samples("reference");
  const auto image = samples.file("grey.png");
  folder.write("a.png", {reinterpret_cast<const char*>(image.data()), image.size()});
  const auto input =
      folder.write("in.jsonl", R"({"image": "a.png", "prefix": "caption en", "suffix": "a boat"})");
  const std::string tokenizer = "tests/goldens/tokenizers/gemma_bpe",
                    models = "tests/goldens/models/";
  auto tokenize = [&](const std::string& options) {
    return run_tokenize("--out " + (folder / "out.tokens").string() + " " + options + " " +
                        input.string());
  };
  const Result result = tokenize("--tokenizer " + tokenizer + " --model " + models + "paligemma2");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(" tokens, 1 document, 1 image\n"));
  EXPECT_EQ(TokenFile(folder / "out.tokens").image_count(), 1);
  const std::string of_text = tokenize("--tokenizer " + tokenizer).output;
  EXPECT_THAT(of_text, HasSubstr("in.jsonl:1: found 1 image, but the model reads none; nearest: "));

  std::filesystem::copy(tokenizer, folder / "model");
  std::filesystem::copy(models + "paligemma2/config.json", folder / "model/config.json");
  EXPECT_EQ(tokenize("--tokenizer " + (folder / "model").string()).output, result.output);
  folder.write("model/config.json", "{\"model_type\": \"other\"}");
  EXPECT_EQ(tokenize("--tokenizer " + (folder / "model").string()).output, of_text);

  const Result small = tokenize("--tokenizer " + tokenizer + " --max-image-pixels 20 --model " +
                                models + "paligemma2");
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.output, HasSubstr("expected at most 20 pixels"));
  const Result text = tokenize("--tokenizer " + tokenizer + " --model " + models + "gemma2");
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.output, HasSubstr("gemma2: found a model of text, expected one that reads"));
}

// Special tokens are recognised, and stay in what is decoded.
TEST(TokenizeProgram, TakesAFolderWithATokenizerJson) {
  TemporaryFolder folder;
  const auto input = folder.write("in", "\"the<|eot_id|>\"\n\"\"\n");
  const Result result = run_tokenize(
      "--tokenizer tests/goldens/tokenizers/bytelevel_bpe_llama3 --stdin-json < " + input.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(
      result.output,
      "{\"ids\":[83,257,707],\"decoded\":\"the<|eot_id|>\"}\n{\"ids\":[],\"decoded\":\"\"}\n");
}

TEST(TokenizeProgram, WritesATokenFileByATokenizerJson) {
  TemporaryFolder folder;
  const std::string tokenizer = "tests/goldens/tokenizers/gemma_bpe/tokenizer.json";
  const auto output = folder / "out.tokens";
  const Result result = run_tokenize("--tokenizer " + tokenizer + " --out " + output.string() +
                                     " " + folder.write("in.txt", "the\n\nthe\n").string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const TokenFile file(output);
  std::vector<int32_t> tokens(static_cast<size_t>(file.token_count()));
  file.read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{2, 724, 1, 2, 724, 1}));
  EXPECT_NO_THROW(file.require_tokenizer(Tokenizer(tokenizer).fingerprint(), tokenizer));
  EXPECT_THROW(file.require_tokenizer(Tokenizer(kModel).fingerprint(), kModel), ConfigError);
}

TEST(TokenizeProgram, WritesATokenFile) {
  TemporaryFolder folder;
  const auto input = folder.write("in.txt", "the\n\nthe\n");
  const auto output = folder / "out.tokens";
  const Result result =
      run_tokenize("--tokenizer " + kModel + " --out " + output.string() + " " + input.string());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, output.string() + ": 6 tokens, 2 documents\n");
  EXPECT_EQ(TokenFile(output).token_count(), 6);
}

TEST(TokenizeProgram, WritesConversations) {
  TemporaryFolder folder;
  const auto input = folder.write(
      "in.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "the"}]})"
      "\nbroken\n");
  const auto output = folder / "out.tokens";
  const std::string command = "--tokenizer tests/goldens/tokenizers/gemma_bpe --out " +
                              output.string() + " " + input.string();
  Result result = run_tokenize(command + " --chat-template gemma");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("in.jsonl:2: no valid JSON"));
  result = run_tokenize(command + " --skip-bad-lines");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("in.jsonl:1: found messages, expected a chat template"));
  EXPECT_EQ(run_tokenize(command + " --chat-template gema").exit_code, 2);
  result = run_tokenize(command + " --skip-bad-lines --chat-template gemma");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output.ends_with(" tokens, 1 document, 1 line skipped\n")) << result.output;
  const TokenFile file(output);
  std::vector<int32_t> tokens(static_cast<size_t>(file.token_count()));
  std::vector<uint8_t> carries_loss(tokens.size());
  file.read(0, tokens);
  file.read_loss_mask(0, carries_loss);
  const Tokenizer tokenizer("tests/goldens/tokenizers/gemma_bpe");
  EXPECT_EQ(tokenizer.decode(tokens, SpecialTokens::keep),
            "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nthe<end_of_turn>\n");
  EXPECT_EQ(std::accumulate(carries_loss.begin(), carries_loss.end(), 0), 2);
}

TEST(TokenizeProgram, WritesPairs) {
  TemporaryFolder folder;
  const auto input =
      folder.write("in.jsonl", R"({"prompt": "a", "chosen": " the", "rejected": " c"})"
                               "\n"
                               R"({"prompt": "a", "chosen": " the", "rejected": " the"})"
                               "\n");
  const auto output = folder / "out.tokens";
  auto tokenize = [&](const std::string& options) {
    return run_tokenize("--tokenizer " + kModel + " --out " + output.string() + " " +
                        input.string() + " " + options);
  };
  EXPECT_EQ(tokenize("").output,
            "tokenize: " + input.string() +
                ":1: expected text, prompt and completion, messages, instruction and output, or "
                "question and answer; found chosen and rejected, of which one is to be preferred; "
                "nearest: objective: dpo (tokenize: --preference)\n");
  const Result equal = tokenize("--preference");
  EXPECT_EQ(equal.exit_code, 1);
  EXPECT_EQ(equal.output,
            "tokenize: " + input.string() +
                ":2: found the same answer as chosen and as rejected, expected two\n");
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_EQ(tokenize("--preference --skip-bad-lines").output,
            output.string() + ": 8 tokens, 1 pair, 1 line skipped\n");
  EXPECT_TRUE(TokenFile(output).has_pairs());
  for (const char* wrong : {"--train-on all", "--column chosen", "--column a --column a",
                            "--column a --column b --column c --column d"}) {
    const Result result = tokenize(std::string("--preference ") + wrong);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("expected "));
  }
}

TEST(TokenizeProgram, RefusesWhatOnlyLinesOfJsonNeed) {
  TemporaryFolder folder;
  const std::string command = "--tokenizer " + kModel + " --out " + (folder / "out").string() +
                              " " + folder.write("in.txt", "the\n").string();
  for (const std::string option : {"--chat-template gemma", "--skip-bad-lines", "--preference"}) {
    const Result result = run_tokenize(command + " " + option);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.output, HasSubstr(": found no .jsonl file to tokenize, expected one"));
  }
}

TEST(TokenizeProgram, RefusesWhatNoLineReads) {
  TemporaryFolder folder;
  const std::string text = folder.write("text.jsonl", "{\"text\": \"a\"}\n").string();
  const std::string chat =
      folder
          .write("chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}, )"
                               R"({"role": "assistant", "content": "the"}]})"
                               "\n")
          .string();
  auto result_of = [&](const std::string& rest) {
    return run_tokenize("--tokenizer tests/goldens/tokenizers/gemma_bpe --out " +
                        (folder / "out").string() + " " + rest);
  };
  const std::string chat_template = " --chat-template gemma", always = " --add-bos-eos always";
  for (const std::string& wrong : {text + chat_template, chat + chat_template + always}) {
    const Result result = result_of(wrong);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("expected "));
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  EXPECT_EQ(result_of(text + " " + chat + chat_template + always).exit_code, 0);
}

TEST(TokenizeProgram, NothingThatIsReadIsWrittenOver) {
  TemporaryFolder folder;
  const std::string tokenizer = "tests/goldens/tokenizers/bytelevel_bpe_llama3/tokenizer.json";
  const auto json = folder.write("tokenizer.json", read_file(tokenizer));
  const auto config = folder.write("tokenizer_config.json", "{}");
  const auto text = folder.write("in.txt", "the\n");
  for (const auto& output : {json, config, text}) {
    const std::string before = read_file(output);
    const Result result = run_tokenize("--tokenizer " + (folder / "").string() + " --out " +
                                       output.string() + " " + text.string());
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(result.output.starts_with("tokenize: " + output.string() + ": found "))
        << result.output;
    EXPECT_EQ(read_file(output), before);
  }
}

TEST(TokenizeProgram, WhatCannotBeReadIsNotTheEnd) {
  TemporaryFolder folder;
  const Result result =
      run_tokenize("--tokenizer " + kModel + " --stdin-json < " + (folder / "").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output, "tokenize: line 1: cannot read: Is a directory\n");
}

// By the shell's limit on the sizes of files.
TEST(TokenizeProgram, AFileBeyondTheLimitIsAnErrorAndLeavesNothing) {
  TemporaryFolder folder, outputs;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "the boats wait\n\n";
  const Result result =
      run_command("ulimit -f 16; " TOKENIZE_PROGRAM " --tokenizer " + kModel + " --out " +
                  (outputs / "out.tokens").string() + " " + folder.write("in.txt", text).string());
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr(": cannot write: File too large"));
  EXPECT_EQ(outputs.file_count(), 0u);
}

TEST(TokenizeProgram, ASignalLeavesNothing) {
  TemporaryFolder folder, outputs;
  std::string text;
  for (int i = 0; i < 4'000'000; ++i) text += "the boats wait\n\n";
  Process process(TOKENIZE_PROGRAM " --tokenizer " + kModel + " --out " +
                      (outputs / "out.tokens").string() + " " +
                      folder.write("in.txt", text).string(),
                  folder / "log");
  while (outputs.file_count() == 0 && !process.is_over()) usleep(2000);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_EQ(process.output(), "tokenize: " + (outputs / "out.tokens").string() +
                                  ": SIGTERM while it was written; nothing is left of it\n");
  EXPECT_EQ(outputs.file_count(), 0u);
}

TEST(TokenizeProgram, NamedPipesAreRefused) {
  TemporaryFolder folder;
  for (const char* name : {"pipe.txt", "pipe.jsonl"}) {
    ASSERT_EQ(mkfifo((folder / name).c_str(), 0600), 0);
    const Result result =
        run_command("timeout 20 " TOKENIZE_PROGRAM " --tokenizer " + kModel + " --out " +
                    (folder / "out.tokens").string() + " " + (folder / name).string());
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output,
                HasSubstr(std::string(name) + ": expected a text file, found no regular"));
  }
}

TEST(TokenizeProgram, TrainsTokenizers) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += R"({"messages": [{"role": "user", "content": "Where is boat )" + std::to_string(i) +
             R"(?"}, {"role": "assistant", "content": "In the port."}]})" + "\n";
  const auto chat = folder.write("chat.jsonl", lines);
  const auto text = folder.write("text.txt", "The boats wait.\n\nIn the port.\n");
  auto train = [&](const std::string& options) {
    return run_tokenize("--train " + options + " " + text.string() + " " + chat.string());
  };
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const auto out = folder / name;
    const Result result = train("--vocab-size 330 --out " + out.string());
    EXPECT_EQ(result.output, out.string() + ": 330 tokens\n");
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(Tokenizer(out).vocab_size(), 330);
    EXPECT_LE(Tokenizer(out).encode("Where is boat").size(), 4u);
  }
  const std::string out = (folder / "new.json").string();
  struct Wrong {
    std::string options, expected;
    int exit_code;
  };
  for (const Wrong& each : std::initializer_list<Wrong>{
           {"--vocab-size 90000 --out " + out, "found text from which only ", 1},
           {"--vocab-size 300 --out " + (folder / "new.bin").string(),
            "expected a name that ends with .json or .model; nearest: ", 2},
           {"--vocab-size 300 --out " + text.string(), "expected a name that ends with", 2},
           {"--out " + out, "--vocab-size", 2},
           {"--vocab-size 0 --out " + out, "--vocab-size", 2},
           {"--vocab-size 300", "--out", 2},
           {"--vocab-size 300 --tokenizer " + kModel + " --out " + out, "--tokenizer", 2},
           {"--vocab-size 300 --skip-bad-lines --out " + out, "--skip-bad-lines", 2}}) {
    const Result result = train(each.options);
    EXPECT_EQ(result.exit_code, each.exit_code) << each.options << result.output;
    EXPECT_THAT(result.output, HasSubstr(each.expected)) << each.options;
    EXPECT_FALSE(std::filesystem::exists(out)) << each.options;
  }
  folder.write("bad.jsonl", "{\"text\": 5}\n");
  const Result bad =
      run_tokenize("--train --vocab-size 300 --out " + out + " " + (folder / "bad.jsonl").string());
  EXPECT_THAT(bad.output, HasSubstr("bad.jsonl:1: "));
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(run_tokenize("--out " + out + " " + text.string()).exit_code, 2);
}

TEST(TokenizeProgram, ExitCodesTellHelpFailureAndWrongUsageApart) {
  TemporaryFolder folder;
  const std::string tokenizer = "--tokenizer " + kModel;
  const std::string out = " --out " + (folder / "out.tokens").string();
  const std::string text = " " + folder.write("in.txt", "the\n").string();

  EXPECT_EQ(run_tokenize("--help").exit_code, 0);
  EXPECT_THAT(run_tokenize("--help").output, HasSubstr("--stdin-json"));
  for (const std::string& wrong :
       {std::string(), tokenizer, tokenizer + out, tokenizer + text, out + text,
        std::string("--tokenizer none.model --stdin-json"), tokenizer + out + " none.txt",
        tokenizer + " --stdin-json" + out + text, tokenizer + out + text + " --unknown"}) {
    const Result result = run_tokenize(wrong + " < /dev/null");
    EXPECT_EQ(result.exit_code, 2) << wrong << "\n" << result.output;
    EXPECT_NE(result.output, "");
  }
  EXPECT_THAT(run_tokenize("--tokeniser=" + kModel + out + text).output,
              HasSubstr("nearest: --tokenizer"));
  const Result bad_line = run_tokenize(tokenizer + " --stdin-json <" + text);
  EXPECT_EQ(bad_line.exit_code, 1);
  EXPECT_TRUE(bad_line.output.starts_with("tokenize: line 1: ")) << bad_line.output;
  const Result damaged = run_tokenize("--tokenizer" + text + " --stdin-json < /dev/null");
  EXPECT_EQ(damaged.exit_code, 1) << damaged.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.tokens"));
}

}  // namespace
}  // namespace longshore::data
