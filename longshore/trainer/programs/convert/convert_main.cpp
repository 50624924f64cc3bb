#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "longshore/base/openmp_threads.h"
#include "longshore/base/print.h"
#include "longshore/base/program.h"
#include "longshore/base/progress.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/checkpoint/frozen_weights.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/weights/convert.h"

namespace {

constexpr const char* kDescription =
    R"(Writes a Hugging Face folder anew: its weights in another dtype, in files of another size, or
with a LoRA adapter merged into them. Of a model_type gemma3, which also reads images, it writes the
text model; with use_multimodal=true the whole.

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

Exit codes: 0 done, 1 failed while running, 2 wrong usage.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace longshore;
  using data::SafetensorsDtype;
  const std::map<std::string, SafetensorsDtype> dtypes{{"float32", SafetensorsDtype::float32},
                                                       {"bfloat16", SafetensorsDtype::bfloat16},
                                                       {"float16", SafetensorsDtype::float16}};
  CLI::App app(kDescription, "convert");
  trainer::Conversion conversion;
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
  app.add_option("--to", conversion.to, "the folder to write, which is new or empty")->required();
  app.add_option("--adapter", conversion.adapter,
                 "a folder with a LoRA adapter as peft writes it, to be merged into the weights")
      ->check(CLI::ExistingDirectory)
      ->needs(from);
  app.add_option("--dtype", dtype, "what to convert the weights to; their own if not given")
      ->check(CLI::IsMember(dtypes));
  app.add_option("--max-shard-size", conversion.max_shard_bytes,
                 "the largest file to write, such as 5GB, 200MB or a number of bytes")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()))
      ->default_str("5GB");
  app.add_flag_callback("--quiet", show_no_progress, kQuietHelp);
  std::vector<std::string> overrides;
  app.add_option("key=value", overrides,
                 "allow_unknown_config_keys and use_multimodal, as train has them");
  return run_program(app, argc, argv, [&] {
    const std::vector<std::string> keys{"allow_unknown_config_keys", "use_multimodal"};
    const trainer::Config said = trainer::override_config({}, overrides, keys);
    conversion.unknown_keys = trainer::unknown_keys(said);
    conversion.images = trainer::images(said);
    if (!dtype.empty()) conversion.dtype = dtypes.at(dtype);
    start_openmp_threads();
    if (!conversion.run.empty()) {
      trainer::verify_trained(conversion.run);
      trainer::require_base_unchanged(conversion.run);
    }
    print(stdout, trainer::convert(conversion) + "\n");
  });
}
