#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "longshore/base/print.h"
#include "longshore/base/program.h"
#include "longshore/base/text.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/generate/generate.h"

namespace {

// CLI::Range accepts NaN, which is neither below nor above its bounds, and takes for 0 what is
// nearer to it than any float64.
CLI::Validator number_from(double least, double most) {
  const CLI::Range range(least, most);
  return {[range](std::string& text) {
            const double number = std::strtod(text.c_str(), nullptr);
            if (std::isnan(number)) return "found " + text + ", expected a number";
            const bool is_zero =
                text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == text.npos;
            if (number == 0 && !is_zero)
              return "found " + text + ", expected a number that float64 can tell from 0";
            return range(text);
          },
          range.get_description()};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app(
      "Continues a text with a model of a Hugging Face folder, or with what a run has "
      "trained. The text goes to standard output as it comes.",
      "generate");
  trainer::GenerateRequest request;
  trainer::Sampling& sampling = request.sampling;
  auto* from = app.add_option_group("model");
  CLI::Option* model = from->add_option("--model", request.model,
                                        "a folder with config.json, weights and a tokenizer")
                           ->check(CLI::ExistingDirectory);
  from->add_option("--run", request.run,
                   "a run directory with model/ or adapter/, or its best, or a checkpoint in it")
      ->check(CLI::ExistingDirectory);
  from->require_option(1);
  app.add_option("--adapter", request.adapter,
                 "a folder with a LoRA adapter for the model, as peft writes it")
      ->check(CLI::ExistingDirectory)
      ->needs(model);
  CLI::Option* prompt =
      app.add_option("--prompt", request.prompt, "how the text begins, or what the user says")
          ->required();
  app.add_option("--image", request.images,
                 "a PNG or JPEG file that the prompt is about, for a model that reads images; may "
                 "be given several times")
      ->allow_extra_args(false)
      ->check(CLI::ExistingFile);
  app.add_option(
      "--chat-template", request.chat_template,
      "how a conversation is written: " + join(data::kChatTemplates) +
          ", a .jinja file, or another template of the folder; none: the prompt as plain text; by "
          "default what the run was trained with, or the model's own");
  app.add_option("--max-tokens", request.max_tokens, "the most tokens to add")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--temperature", sampling.temperature,
                 "what logits are divided by; 0: always the likeliest token")
      ->check(number_from(0, 1e6))
      ->capture_default_str();
  CLI::Option* top_k =
      app.add_option("--top-k", sampling.top_k, "only the so many likeliest tokens; 0: all")
          ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
          ->capture_default_str();
  CLI::Option* top_p =
      app.add_option("--top-p", sampling.top_p,
                     "only the likeliest tokens that together have this probability")
          ->check(number_from(std::numeric_limits<double>::min(), 1))
          ->capture_default_str();
  CLI::Option* seed =
      app.add_option("--seed", sampling.seed, "of the random numbers; the same gives the same text")
          ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()))
          ->capture_default_str();
  app.add_option("key=value", request.overrides, "keys, as listed below");
  app.footer(trainer::generate_footer());
  return run_program(
      app, argc, argv,
      [&] {
        trainer::require_one_process("generate");
        for (const CLI::Option* option : {top_k, top_p, seed})
          if (sampling.temperature == 0 && option->count() > 0)
            print(stderr,
                  "warning: " + option->get_name() +
                      ": found --temperature 0, which draws nothing and does not read it\n");
        trainer::generate(request);
      },
      trainer::meant_key, prompt);
}
