#include "longshore/trainer/programs/generate/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/text/encode_example.h"
#include "longshore/data/tokenizers/text_stream.h"
#include "longshore/data/tokenizers/tokenizer.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/config/backend_choice.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/config_text.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/config/hf_config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/row_images.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/config/unused_keys.h"
#include "longshore/trainer/config/validate.h"
#include "longshore/trainer/config/yaml.h"
#include "longshore/trainer/decoding/continuation.h"
#include "longshore/trainer/decoding/prompt.h"
#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/step/batch_arguments.h"
#include "longshore/trainer/step/memory_report.h"
#include "longshore/trainer/step/training_plans.h"
#include "longshore/trainer/weights/chat_template.h"
#include "longshore/trainer/weights/folder_model.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/load_parameters.h"
#include "longshore/trainer/weights/run_weights.h"
#include "longshore/trainer/weights/stored_formats.h"
#include "longshore/trainer/weights/text_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using models::DecoderConfig;

const std::vector<std::string> kKeys{"dtype",
                                     "backend",
                                     "frozen_weight_dtype",
                                     "frozen_weight_double_quantization",
                                     "parameter_memory_host_offload",
                                     "parameter_layers_on_device",
                                     "prefetch_layers",
                                     "allow_unknown_config_keys",
                                     "use_multimodal",
                                     "max_image_pixels",
                                     "chat_template_kwargs",
                                     "chat_template_date"};

// Tokens of a prompt that run at a time: enough that weights are read seldom.
constexpr int64_t kPrefillTokens = 256;

RunWeights source(const GenerateRequest& request) {
  RunWeights source = request.run.empty() ? RunWeights{.model = request.model,
                                                       .adapter = request.adapter,
                                                       .tokenizer = request.model}
                                          : weights_of_run(request.run);
  if (!request.run.empty()) verify_trained(request.run);
  return source;
}

Prompt plain_prompt(const std::string& text, data::AddBosEos add,
                    const data::Tokenizer& tokenizer) {
  const int32_t opening = add == data::AddBosEos::never ? -1 : tokenizer.bos_id();
  return {.tokens = data::prompt_tokens(text, opening, tokenizer),
          .end_tokens = {tokenizer.eos_id()}};
}

// A run's model reads images as it was trained; of a folder, as the key says.
models::Images read_images(const Config& config, const RunWeights& from) {
  return config.origins.contains("use_multimodal") ? images(config) : from.images;
}

// Images for a model that reads them.
std::optional<ImagePrompt> prompt_images(const GenerateRequest& request, const Config& config,
                                         const RunWeights& from, const DecoderConfig& model) {
  if (!model.vision) {
    if (request.images.empty()) return std::nullopt;
    throw ConfigError("--image: found " + path_text(request.images[0]) +
                      ", expected none: the model of " + path_text(from.model) +
                      " reads no images; nearest: use_multimodal=true, where it does");
  }
  ImagePrompt images{.how = row_images(*model.vision, from.model),
                     .files = request.images,
                     .element = element_of(model.dtype).value()};
  images.how.max_pixels = config.max_image_pixels;
  images.how.images_per_row = std::max<int64_t>(1, std::ssize(request.images));
  return images;
}

// The day, by the clock here.
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

// As the run was trained, or by the model's own, unless something else is asked for.
std::optional<data::ChatTemplate> chat_template(const GenerateRequest& request,
                                                const Config& config, const RunWeights& from,
                                                const data::Tokenizer& tokenizer) {
  data::ChatTemplateChoice choice = from.chat_template;
  if (request.chat_template) choice = {.name = *request.chat_template};
  if (!config.chat_template_kwargs.empty()) choice.kwargs = config.chat_template_kwargs;
  if (!config.chat_template_date.empty())
    choice.date = config.chat_template_date;
  else if (request.run.empty() && !data::is_built_in(choice.name))
    choice.date = today();
  std::optional<data::ChatTemplate> found;
  try {
    found = find_chat_template(from, choice, tokenizer);
  } catch (const ConfigError& error) {
    throw ConfigError(std::string("--chat-template: ") + error.what());
  }
  if (found && !request.chat_template)
    print(stderr,
          "chat template, " +
              std::string(request.run.empty() ? "that of the model" : "as the run was trained") +
              ": " + found->name() + "\n");
  return found;
}

Prompt make_prompt(const std::string& text, const std::optional<ImagePrompt>& images,
                   const std::optional<data::ChatTemplate>& chat, data::AddBosEos add,
                   const data::Tokenizer& tokenizer, const DecoderConfig& model) {
  const std::string origin = chat ? "--chat-template " + chat->name() : "";
  Prompt prompt = images ? image_prompt(text, *images, chat, add, tokenizer, origin)
                  : chat ? chat_prompt(text, *chat, tokenizer, origin)
                         : plain_prompt(text, add, tokenizer);
  if (prompt.tokens.empty())
    throw ConfigError("--prompt: found nothing, expected some text: the tokenizer " +
                      path_text(tokenizer.path()) + " has no bos that could stand for it");
  for (int32_t token : prompt.tokens)
    if (token >= model.vocabulary)
      throw DataError(fmt::format(
          "{}: found the token {} in the prompt, expected 0 to {}: the model's vocab_size is {}",
          path_text(tokenizer.path()), token, model.vocabulary - 1, model.vocabulary));
  return prompt;
}

// Positions are computed for a text of any length, so a longer one is no error.
void warn_of_length(const fs::path& folder, const DecoderConfig& model, int64_t tokens) {
  const std::optional<int64_t> most = model.max_position_embeddings;
  if (most && tokens > *most)
    print(
        stderr,
        fmt::format("{}: max_position_embeddings is {}, and prompt and --max-tokens have {} tokens "
                    "together: what is beyond may make no sense\n",
                    path_text(folder / "config.json"), *most, tokens));
}

// With all of its weights, whether the prompt has images or not.
DecoderConfig whole(DecoderConfig model) {
  if (model.vision) model.vision->images = std::max<int64_t>(1, model.vision->images);
  return model;
}

// The model that the weights are for, all of them frozen: stored as the config says, or as the run
// had them.
models::Model stored_model(const RunWeights& source, const DecoderConfig& model,
                           const Config& config) {
  models::Model stored = models::decoder(whole(model));
  std::optional<models::Quantization> how = frozen_quantization(config, model.dtype);
  if (!how && !config.origins.contains("frozen_weight_dtype")) how = source.frozen;
  const auto formats = stored_formats(source.model, model);
  const bool is_automatic = config.frozen_weight_dtype == FrozenWeightDtype::automatic;
  if (!how && (!is_automatic || formats->empty())) return stored;
  set_trainable(stored, [](const std::string&) { return false; });
  const models::ChooseQuantization as_said = [&](const std::string&) { return how; };
  quantize_weights(stored, how ? as_said : models::as_stored(*formats));
  return stored;
}

class Generation {
 public:
  Generation(const RunWeights& source, const DecoderConfig& model, const Config& config,
             models::Target target, int64_t prompt_tokens, int64_t max_tokens)
      : backend_(make_backend(target)), arguments_(*backend_, ledger_) {
    layout_ = offload::lay_out(stored_model(source, model, config), layout_options(config));
    offload::Transfers transfers;
    if (config.prefetch_layers) transfers.prefetch_layers = *config.prefetch_layers;
    // Images' rows and prompts see each other both ways, so they come in one run.
    const int64_t whole = model.vision ? prompt_tokens : std::min(prompt_tokens, kPrefillTokens);
    const std::array lengths{whole, std::max(prompt_tokens % whole, int64_t{1})};
    plans_ = plan_decoding(model, layout_, prompt_tokens + max_tokens, lengths, transfers, target);
    if (std::string table = shortage(analyze(plans_.all()), *backend_); !table.empty())
      throw PlanError(fmt::format("{} with {} tokens does not fit on this machine:\n{}",
                                  path_text(source.model), plans_.capacity, table));
    load(source);
    weights_ = path_text(source.model);
    if (!source.adapter.empty()) weights_ += " with the adapter " + path_text(source.adapter);
    arenas_.emplace(*backend_, plans_.all());
    decoding_.emplace(plans_, *backend_, arguments_, *arenas_);
  }

  std::vector<int32_t> run(const Prompt& prompt, const ContinuationOptions& options,
                           const std::function<void(int32_t)>& on_token) {
    try {
      return continue_text(*decoding_, prompt, options, ledger_, on_token);
    } catch (const NonFiniteLogit& error) {
      throw Error(weights_ + ": " + error.what() + ": these weights give no text");
    }
  }

 private:
  void load(const RunWeights& source) {
    print(stderr,
          load_weights(
              {.folder = source.model, .adapter = source.adapter, .added_rows = source.added_rows},
              plans_.model, layout_, arguments_, Copies::compute) +
              "\n");
  }

  std::string weights_;  // where they are from
  std::unique_ptr<offload::Backend> backend_;
  offload::ParameterLayout layout_;
  DecodingPlans plans_;
  offload::Ledger ledger_;
  offload::Arguments arguments_;
  std::optional<offload::Arenas> arenas_;
  std::optional<Decoding> decoding_;
};

// The first new token comes of the prompt's run, the others of one run each.
class Speed {
 public:
  explicit Speed(int64_t prompt_tokens) : prompt_tokens_(prompt_tokens) {}

  void token_came() {
    last_ = Clock::now();
    if (tokens_++ == 0) first_ = last_;
  }
  std::string text() const {
    auto seconds = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double>(to - from).count();
    };
    if (tokens_ == 0) return "the text ends with the prompt";
    std::string text = fmt::format("prompt of {} and the first token: {:.2f} s",
                                   plural(prompt_tokens_, "token"), seconds(start_, first_));
    if (tokens_ > 1)
      text +=
          fmt::format("; {} more: {:.2f} s, {:.1f} tokens/s", tokens_ - 1, seconds(first_, last_),
                      static_cast<double>(tokens_ - 1) / seconds(first_, last_));
    return text;
  }

 private:
  int64_t prompt_tokens_, tokens_ = 0;
  Clock::time_point start_ = Clock::now(), first_, last_;
};

// The text as it comes, to standard output: to a file or a pipe as the model wrote it, to a
// terminal without what a terminal would obey.
class GeneratedText {
 public:
  // Flushes each piece, so that a full disk ends the program before more is computed.
  void print(const std::string& piece) const {
    const std::string text = is_terminal_ ? printable_lines(piece) : piece;
    put_output(text);
    flush_output();
    require_output();
  }

 private:
  const bool is_terminal_ = isatty(STDOUT_FILENO);
};

}  // namespace

void generate(const GenerateRequest& request) {
  const Config config = override_config({}, request.overrides, kKeys);
  const models::Target target = choose_backend(config).target;
  require_dtype(config, target);
  const RunWeights from = source(request);
  DecoderConfig model = read_folder_model(from.model, from.adapter, unknown_keys(config),
                                          read_images(config, from), from.added_rows);
  if (from.turned_as) {
    model.rope_scaling = from.turned_as->rope_scaling;
    model.window_rope_base = from.turned_as->window_rope_base;
    model.max_position_embeddings = from.turned_as->max_position_embeddings;
  }
  model.dtype = compute_dtype(config, target);
  require_layers_on_device(config, from.model, model.layers);
  for (const std::string& line :
       unused_keys_of(config, {"parameter_memory_host_offload", "frozen_weight_dtype"}))
    print(stderr, "warning: " + line + "\n");
  const data::Tokenizer tokenizer(from.tokenizer, from.add_tokens);
  const std::optional<ImagePrompt> images = prompt_images(request, config, from, model);
  Prompt prompt =
      make_prompt(request.prompt, images, chat_template(request, config, from, tokenizer),
                  from.add_bos_eos, tokenizer, model);
  if (images) model.vision->images = std::ssize(images->files);
  std::ranges::copy(eos_ids(from.model), std::back_inserter(prompt.end_tokens));

  const int64_t prompt_tokens = std::ssize(prompt.tokens);
  warn_of_length(from.model, model, prompt_tokens + request.max_tokens);
  Generation generation(from, model, config, target, prompt_tokens, request.max_tokens);
  data::TextStream stream(tokenizer, prompt.tokens);
  const GeneratedText generated;
  Speed speed(prompt_tokens);
  generation.run(prompt,
                 {.max_tokens = request.max_tokens,
                  .vocabulary = tokenizer.vocab_size(),
                  .end_tokens = prompt.end_tokens,
                  .sampling = request.sampling},
                 [&](int32_t token) {
                   speed.token_came();
                   generated.print(stream.add(token));
                 });
  generated.print(stream.finish() + "\n");
  print(stderr, speed.text() + "\n");
}

std::string generate_footer() {
  return "Keys, with what is taken by default; parameter_layers_on_device is a number here:\n" +
         config_help(Config{}, kKeys);
}

}  // namespace longshore::trainer
