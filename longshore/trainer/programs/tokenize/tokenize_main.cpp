#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/program.h"
#include "longshore/base/program_folder.h"
#include "longshore/base/progress.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/image_text.h"
#include "longshore/data/text/find_chat_template.h"
#include "longshore/data/text/tokenize_files.h"
#include "longshore/data/text/tokenize_json.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/data/tokenizers/tokenizer_json_parts.h"
#include "longshore/data/tokenizers/train_tokenizer.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/image_text.h"
#include "longshore/trainer/programs/tokenize/training_texts.h"

namespace {

using longshore::data::AddBosEos;

// In the order of AddBosEos, and of TrainOn.
const std::array<std::string, 3> kAddBosEos = {"missing", "always", "never"};
const std::array<std::string, 3> kTrainOn = {"assistant", "last_assistant", "all"};

constexpr const char* kDescription =
    R"(Turns text into token ids with a sentencepiece model or a tokenizer.json.

  tokenize --tokenizer PATH --out F.tokens A.txt B.jsonl
      Writes the files' documents to one token file, which training reads. Those of .jsonl, .json,
      .csv, .tsv, .parquet and .arrow are their records: {"text": ...}, {"prompt": ...,
      "completion": ...}, {"messages": [...]}, {"instruction": ..., "output": ...} or
      {"question": ..., "answer": ...}; those of another file are paragraphs, separated by blank
      lines. Texts may be packed (.gz, .zst). Conversations are written as the chat template says;
      bos, where the tokenizer begins texts with one, and eos are put around others.
      With --preference records are pairs of answers, {"prompt": ..., "chosen": ..., "rejected":
      ...} or {"chosen": ..., "rejected": ...}, or single ones, {"prompt": ..., "completion": ...,
      "label": true}. With --rollouts they are answers that a policy has drawn, {"prompt_ids": [...],
      "completion_ids": [...], "advantages": ..., "old_log_probs": [...]}.
      Pairs and messages may have images, as docs/data.md says, if the model reads them: that of
      --model, or of the tokenizer's folder where that has a config.json.
  tokenize --teacher DIR --top-k 64 --out TAUGHT.tokens F.tokens [KEY=VALUE ...]
      Writes a token file once more, with what a teacher, the model of a Hugging Face folder, finds
      most likely at each token, for objective: distill. Keys say where its weights live:
      tokenize --teacher DIR --help lists them.
  tokenize --tokenizer PATH --stdin-json
      For each line in, a JSON string, writes {"ids": [...], "decoded": "..."}.
  tokenize --train --vocab-size N --out tokenizer.json A.txt B.jsonl
      Makes a tokenizer of the files' texts with N tokens: byte-level BPE as Llama 3 has it in a
      file of that ending, or BPE with byte fallback as Llama 2 has it in a .model, which
      sentencepiece makes. The same texts give the same bytes.

PATH is a tokenizer.model, a tokenizer.json, a tekken.json, or a folder that holds one; with
both of the first two, tokenizer.json is taken.
Exit codes: 0 done, 1 failed while running, 2 wrong usage.)";

struct Arguments {
  std::filesystem::path tokenizer;
  std::vector<std::string> add_tokens;
  bool stdin_json = false;
  std::filesystem::path output;
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path model;  // a folder
  longshore::data::TokenizeOptions options;
  bool has_preferences = false, has_rollouts = false;
  std::string add_bos_eos = kAddBosEos[0], train_on = kTrainOn[0];
  longshore::data::ChatTemplateChoice chat_template;
  bool train = false;
  size_t vocab_size = 0;
};

// The enumerator that is named; `names` are in the enum's order.
template <class Enum>
Enum choice(const char* option, const std::string& name, std::span<const std::string> names) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw longshore::ConfigError(std::string(option) + ": found " + longshore::printable(name) +
                                 ", expected one of " + longshore::join(names) +
                                 longshore::nearest_help(longshore::nearest(name, names)));
  return static_cast<Enum>(found - names.begin());
}

bool names_template(const Arguments& arguments) { return arguments.chat_template.is_named(); }

// What is said of lines of JSON would do nothing for plain text.
void require_lines_of_json(const Arguments& arguments) {
  if (std::ranges::any_of(arguments.inputs, longshore::data::has_records)) return;
  const longshore::data::TokenizeOptions& options = arguments.options;
  for (const auto& [option, is_given] : {std::pair{"--chat-template", names_template(arguments)},
                                         {"--train-on", arguments.train_on != kTrainOn[0]},
                                         {"--column", !options.columns.empty()},
                                         {"--preference", arguments.has_preferences},
                                         {"--rollouts", arguments.has_rollouts},
                                         {"--skip-bad-lines", options.skip_bad_lines},
                                         {"--model", !arguments.model.empty()}})
    if (is_given)
      throw longshore::ConfigError(std::string(option) +
                                   ": found no .jsonl file to tokenize, expected one");
}

// Templates are for messages, and bos and eos for other texts. All lines of a file are of the form
// of its first. Returns how many files have messages.
int64_t require_use_of_options(const Arguments& arguments,
                               const longshore::data::TokenizeOptions& options) {
  const auto has_messages = [&](const std::filesystem::path& path) {
    return longshore::data::has_records(path) &&
           longshore::data::first_example(path, options).takes_template;
  };
  const auto with_messages = std::ranges::count_if(arguments.inputs, has_messages);
  if (names_template(arguments) && with_messages == 0)
    throw longshore::ConfigError(
        "--chat-template: found " + arguments.chat_template.name +
        ", expected none: no file has messages, and other text is trained on "
        "as it stands");
  if (arguments.add_bos_eos != kAddBosEos[0] && with_messages == std::ssize(arguments.inputs))
    throw longshore::ConfigError("--add-bos-eos: found " + arguments.add_bos_eos +
                                 ", expected it left out: all files have messages, which the chat "
                                 "template writes whole");
  return with_messages;
}

// How the model of a folder reads images; nothing where it does not.
std::optional<longshore::data::ImageText> image_text_of(const std::filesystem::path& folder) {
  constexpr uint64_t kMostMib = 1;
  const std::filesystem::path config = folder / "config.json";
  const std::string text = longshore::data::read_small_file(config, kMostMib);
  try {
    const auto vision =
        longshore::models::parse_hf_config(text, longshore::models::UnknownKeys::ignore,
                                           longshore::models::Images::read)
            .vision;
    if (!vision) return std::nullopt;
    return longshore::trainer::image_text(*vision);
  } catch (const longshore::DataError& error) {
    throw longshore::DataError(longshore::path_text(config) + ": " + error.what());
  }
}

std::optional<longshore::data::ImageText> image_text(const Arguments& arguments) {
  if (!arguments.model.empty()) {
    if (const auto found = image_text_of(arguments.model)) return found;
    throw longshore::ConfigError("--model: " + longshore::path_text(arguments.model) +
                                 ": found a model of text, expected one that reads images");
  }
  std::error_code error;
  if (!std::filesystem::exists(arguments.tokenizer / "config.json", error)) return std::nullopt;
  try {
    return image_text_of(arguments.tokenizer);
  } catch (const longshore::DataError&) {
    return std::nullopt;  // of whatever model: its tokenizer serves all the same
  }
}

std::optional<longshore::data::ChatTemplate> chat_template(
    const Arguments& arguments, const longshore::data::Tokenizer& tokenizer) {
  try {
    return longshore::data::find_chat_template(arguments.chat_template,
                                               tokenizer.path().parent_path(), tokenizer);
  } catch (const longshore::ConfigError& error) {
    throw longshore::ConfigError(std::string("--chat-template: ") + error.what());
  }
}

void train(const Arguments& arguments) {
  const std::filesystem::path& output = arguments.output;
  const bool is_json = output.extension() == ".json";
  if (!is_json && output.extension() != ".model")
    throw longshore::ConfigError("--out: found " + longshore::path_text(output) +
                                 ", expected a name that ends with .json or .model; nearest: " +
                                 longshore::path_text(output) + ".json");
  longshore::require_no_input(output, arguments.inputs);
  longshore::TrainingTexts texts(arguments.inputs);
  longshore::Progress progress("making a tokenizer of text", 0);
  const auto next = [&](std::string& text) {
    const bool is_there = texts.next(text);
    progress.add(std::ssize(text));
    return is_there;
  };
  longshore::write_file(output,
                        is_json ? longshore::data::train_byte_level(next, arguments.vocab_size)
                                : longshore::data::train_sentencepiece(next, arguments.vocab_size));
  longshore::print(
      stdout, longshore::path_text(output) + ": " +
                  longshore::plural(static_cast<int64_t>(arguments.vocab_size), "token") + "\n");
}

void check_columns(const std::vector<std::string>& columns, longshore::data::ExampleKind kind) {
  using longshore::data::ExampleKind;
  if (columns.empty()) return;
  const size_t most = kind == ExampleKind::text ? 2 : 3,
               least = kind == ExampleKind::rollout ? 3 : most - 1;
  const bool are_different =
      std::set<std::string>(columns.begin(), columns.end()).size() == columns.size();
  if (columns.size() < least || columns.size() > most || !are_different)
    throw longshore::ConfigError(
        "--column: found " + longshore::join(columns) + ", expected " +
        (kind == ExampleKind::preference
             ? "two columns, of chosen and of rejected answers, or three: before these of prompts"
         : kind == ExampleKind::rollout
             ? "three columns, of prompts, of completions and of advantages"
             : "one column, or two: of prompts and of completions"));
}

void run(const Arguments& arguments) {
  if (arguments.train) return train(arguments);
  if (arguments.tokenizer.empty())
    throw longshore::ConfigError("found neither --tokenizer nor --train, expected one of them");
  if (!arguments.stdin_json && arguments.output.empty())
    throw longshore::ConfigError("found neither --out nor --stdin-json, expected one of them");
  require_lines_of_json(arguments);
  const longshore::data::Tokenizer tokenizer(arguments.tokenizer, arguments.add_tokens);
  if (arguments.stdin_json) {
    std::ios::sync_with_stdio(false);  // with it, a read error would look like the end of the input
    longshore::data::tokenize_json_lines(tokenizer, std::cin, [](const std::string& line) {
      longshore::put_output(line);
      longshore::flush_output();
      longshore::require_output();
    });
    return;
  }
  const longshore::StopSignal listening;
  auto options = arguments.options;
  if (arguments.has_preferences) options.kind = longshore::data::ExampleKind::preference;
  if (arguments.has_rollouts) options.kind = longshore::data::ExampleKind::rollout;
  check_columns(options.columns, options.kind);
  options.encode.image_text = image_text(arguments);
  options.encode.add_bos_eos =
      choice<AddBosEos>("--add-bos-eos", arguments.add_bos_eos, kAddBosEos);
  options.encode.train_on =
      choice<longshore::data::TrainOn>("--train-on", arguments.train_on, kTrainOn);
  if (options.kind != longshore::data::ExampleKind::text &&
      options.encode.train_on == longshore::data::TrainOn::all)
    throw longshore::ConfigError(
        "--train-on: found all, expected assistant or last_assistant, since with "
        "--preference and --rollouts answers alone are learnt; nearest: assistant");
  if (require_use_of_options(arguments, options) > 0)
    options.encode.chat_template = chat_template(arguments, tokenizer);
  options.say = [](const std::string& note) { longshore::print(stdout, note + "\n"); };
  const auto summary =
      longshore::data::tokenize_files(tokenizer, arguments.inputs, arguments.output, options);
  std::string text = longshore::path_text(arguments.output) + ": " +
                     longshore::plural(summary.tokens, "token") + ", " +
                     (arguments.has_preferences ? longshore::plural(summary.documents / 2, "pair")
                      : arguments.has_rollouts  ? longshore::plural(summary.documents, "rollout")
                                                : longshore::plural(summary.documents, "document"));
  if (summary.images > 0) text += ", " + longshore::plural(summary.images, "image");
  if (arguments.options.skip_bad_lines)
    text += ", " + longshore::plural(summary.skipped_lines, "line") + " skipped";
  longshore::print(stdout, text + "\n");
}

// Whether the command line asks for what needs the libraries that models run on, which take a while
// to load: another program has them.
bool asks_teacher(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const std::string_view argument) {
    return argument == "--teacher" || argument.starts_with("--teacher=");
  });
}

// Goes on as that program, which lies beside this one.
int become_teacher(char** argv) {
  const std::filesystem::path program = longshore::program_folder() / "teach";
  execv(program.c_str(), argv);
  longshore::print(stderr, "tokenize: " + longshore::path_text(program) +
                               ": cannot be started: " + std::strerror(errno) + "; nearest: " +
                               (longshore::is_installed() ? "install Longshore again"
                                                          : "build it, as scripts/train does") +
                               "\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (asks_teacher(argc, argv)) return become_teacher(argv);
  Arguments arguments;
  CLI::App app(kDescription, "tokenize");
  app.add_option("--tokenizer", arguments.tokenizer,
                 "tokenizer.model, tokenizer.json, tekken.json or a folder")
      ->check(CLI::ExistingPath);
  app.add_option(
         "--add-token", arguments.add_tokens,
         "a token that the tokenizer.json is to have as well, as add_tokens in a config; may "
         "come again")
      ->expected(1)
      ->allow_extra_args(false)  // else CLI11 takes brackets for a list's
      ->take_all();
  auto* stdin_json = app.add_flag("--stdin-json", arguments.stdin_json, "filter JSON lines");
  auto* output =
      app.add_option("--out", arguments.output, "token file to write")->excludes(stdin_json);
  auto* inputs =
      app.add_option("INPUT", arguments.inputs, "UTF-8 text files")->check(CLI::ExistingFile);
  app.add_option(
         "--chat-template", arguments.chat_template.name,
         "how conversations are written: auto (default), by the template of the tokenizer's "
         "folder, where it has one; none; " +
             longshore::join(longshore::data::kChatTemplates) +
             "; a .jinja file; or the name of another template of the folder")
      ->needs(output);
  app.add_option("--chat-template-kwarg", arguments.chat_template.kwargs,
                 "NAME=VALUE that the template reads; may come again")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->needs(output);
  app.add_option("--chat-template-date", arguments.chat_template.date,
                 "the day that templates show which ask for it, YYYY-MM-DD")
      ->needs(output);
  app.add_option("--train-on", arguments.train_on,
                 "what is learnt of conversations: assistant (default), last_assistant, all")
      ->needs(output);
  app.add_option("--column", arguments.options.columns,
                 "a column of records to read: of a text or of messages; twice, of prompts and of "
                 "completions; of preferences, twice of chosen and of rejected answers, or before "
                 "these of prompts; of rollouts, of prompts, completions and advantages; by "
                 "default those that are known by their names")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->needs(output);
  auto* preference =
      app.add_flag(
             "--preference", arguments.has_preferences,
             "records are pairs of answers, one better than the other, or answers and whether "
             "they are good")
          ->needs(output);
  app.add_flag("--rollouts", arguments.has_rollouts,
               "records are answers that a policy has drawn, with their advantages")
      ->needs(output)
      ->excludes(preference);
  app.add_flag("--skip-bad-lines", arguments.options.skip_bad_lines,
               "count records that cannot be read, and go on")
      ->needs(output);
  app.add_option("--model", arguments.model,
                 "folder of Hugging Face's with the model that reads the images of records")
      ->check(CLI::ExistingDirectory)
      ->needs(output);
  app.add_option("--max-image-pixels", arguments.options.max_image_pixels,
                 "width times height that an image may have")
      ->check(
          CLI::Range(int64_t{1}, longshore::data::kMaxImageSide * longshore::data::kMaxImageSide))
      ->capture_default_str()
      ->needs(output);
  app.add_option("--add-bos-eos", arguments.add_bos_eos,
                 "around texts: missing (default; not where one begins or ends with it itself), "
                 "always, never")
      ->needs(output);
  auto* vocab_size = app.add_option("--vocab-size", arguments.vocab_size,
                                    "tokens of the tokenizer that is made, special ones included")
                         ->check(CLI::Range(size_t{1}, longshore::data::kMaxTokenizerTokens));
  auto* train = app.add_flag("--train", arguments.train, "make a tokenizer of the files' texts");
  train->needs(vocab_size)->needs(output);
  vocab_size->needs(train);
  for (CLI::Option* other : app.get_options())
    if (other != train && other != vocab_size && other != output && other != inputs &&
        other != app.get_help_ptr())
      train->excludes(other);
  app.add_flag_callback("--quiet", longshore::show_no_progress, longshore::kQuietHelp);
  output->needs(inputs);
  inputs->needs(output);
  return longshore::run_program(app, argc, argv, [&] { run(arguments); });
}
