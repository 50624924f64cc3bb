#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/openmp_threads.h"
#include "longshore/base/print.h"
#include "longshore/base/program.h"
#include "longshore/base/progress.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/weights/convert.h"
#include "longshore/trainer/weights/convert_gguf.h"

namespace {

using longshore::data::GgufType;
using longshore::data::SafetensorsDtype;

// What --dtype may say; of a dtype that no Hugging Face folder has, nothing for that.
struct DtypeChoice {
  std::optional<SafetensorsDtype> in_folder;
  GgufType in_gguf;
};

const std::map<std::string, DtypeChoice> kDtypes{
    {"float32", {SafetensorsDtype::float32, GgufType::float32}},
    {"bfloat16", {SafetensorsDtype::bfloat16, GgufType::bfloat16}},
    {"float16", {SafetensorsDtype::float16, GgufType::float16}},
    {"q8_0", {std::nullopt, GgufType::q8_0}}};

constexpr const char* kDescription =
    R"(Writes a Hugging Face folder anew: its weights in another dtype, in files of another size, or
with a LoRA adapter merged into them; or all of it as one GGUF file, for llama.cpp. Of a model_type
gemma3, which also reads images, it writes the text model; with use_multimodal=true the whole.

  convert --from DIR --to NEW_DIR --dtype bfloat16
      Reads config.json and checks every tensor against it; writes config.json, the weights, their
      index, and the files of tokenizer, chat templates, generation and licence where there are any.
      NEW_DIR appears when all is done.
  convert --from DIR --adapter ADAPTER_DIR --to NEW_DIR
      Also adds the adapter's product to the weights it is for, in float32, and rounds the sum to
      the dtype that is written.
  convert --run runs/NAME --to NEW_DIR
      What a run has trained: its model/, or the weights that it began from, with its adapter/. The
      weights have to be those that the adapter was trained beside.
  convert --from DIR --to-gguf FILE --dtype q8_0
  convert --run runs/NAME --to-gguf FILE
      The same as one file, with tokenizer and chat template; norms, vectors and routers in float32.
  convert --from DIR --adapter ADAPTER_DIR --adapter-only --to-gguf FILE
      The adapter by itself, in float32 or the dtype, for llama.cpp to add to a model of that
      family; of DIR only config.json is read. Also of a run.

Exit codes: 0 done, 1 failed while running, 2 wrong usage.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app(kDescription, "convert");
  trainer::Conversion conversion;
  std::filesystem::path gguf;
  bool adapter_only = false;
  std::string dtype;
  auto* source = app.add_option_group("source");
  CLI::Option* from =
      source
          ->add_option("--from", conversion.from, "a folder with config.json and safetensors files")
          ->check(CLI::ExistingDirectory);
  source
      ->add_option("--run", conversion.run,
                   "a run directory with model/ or adapter/, or its best, or a checkpoint in it")
      ->check(CLI::ExistingDirectory);
  source->require_option(1);
  auto* target = app.add_option_group("target");
  CLI::Option* to =
      target->add_option("--to", conversion.to, "the folder to write, which is new or empty");
  CLI::Option* to_gguf =
      target->add_option("--to-gguf", gguf, "the GGUF file to write, which may be there already");
  target->require_option(1);
  app.add_option("--adapter", conversion.adapter,
                 "a folder with a LoRA adapter as peft writes it, to be merged into the weights")
      ->check(CLI::ExistingDirectory)
      ->needs(from);
  app.add_flag("--adapter-only", adapter_only, "write the adapter by itself, instead of merging it")
      ->needs(to_gguf);
  app.add_option(
         "--dtype", dtype,
         "what to convert the weights to, q8_0 in a GGUF file alone; their own if not given")
      ->check(CLI::IsMember(kDtypes));
  app.add_option("--max-shard-size", conversion.max_shard_bytes,
                 "the largest file to write, such as 5GB, 200MB or a number of bytes")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()))
      ->default_str("5GB")
      ->needs(to);
  app.add_flag_callback("--quiet", show_no_progress, kQuietHelp);
  std::vector<std::string> overrides;
  app.add_option("key=value", overrides,
                 "allow_unknown_config_keys and use_multimodal, as train has them");
  return run_program(app, argc, argv, [&] {
    const std::vector<std::string> keys{"allow_unknown_config_keys", "use_multimodal"};
    const trainer::Config said = trainer::override_config({}, overrides, keys);
    conversion.unknown_keys = trainer::unknown_keys(said);
    conversion.images = trainer::images(said);
    std::optional<DtypeChoice> choice;
    if (!dtype.empty()) choice = kDtypes.at(dtype);
    if (choice) conversion.dtype = choice->in_folder;
    if (choice && !choice->in_folder && gguf.empty())
      throw ConfigError("--dtype: found " + dtype +
                        ", expected float32, bfloat16 or float16, or --to-gguf");
    start_openmp_threads();
    if (!conversion.run.empty()) {
      trainer::verify_trained(conversion.run);
      trainer::require_base_unchanged(conversion.run);
    }
    if (gguf.empty()) {
      print(stdout, trainer::convert(conversion) + "\n");
      return;
    }
    trainer::GgufConversion to_file{.source = {.from = conversion.from,
                                               .run = conversion.run,
                                               .adapter = conversion.adapter,
                                               .unknown_keys = conversion.unknown_keys,
                                               .images = conversion.images},
                                    .to = gguf,
                                    .adapter_only = adapter_only};
    if (choice) to_file.type = choice->in_gguf;
    print(stdout, trainer::convert_to_gguf(to_file) + "\n");
  });
}
