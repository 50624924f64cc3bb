// Writes what a run trains on and is evaluated on, so that another library can be given the same.
//
// usage: write_batches OUT CONFIG [key=value ...]
// OUT, safetensors of int32: train.tokens and train.targets [steps * gradient_accumulation_steps,
// B,T]; where there is validation text validation.tokens and validation.targets [batches,B,T]. A
// target of -1 carries no loss.
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/run/training_data.h"

namespace {

using namespace longshore;

struct Part {
  std::string name;
  const data::BatchSource& batches;
  int64_t count;
};

void write(const std::string& out, const std::vector<Part>& parts, int64_t rows, int64_t length) {
  std::vector<data::SafetensorsInfo> infos;
  for (const Part& part : parts)
    for (const char* name : {".tokens", ".targets"})
      infos.push_back({.name = part.name + name,
                       .dtype = data::SafetensorsDtype::int32,
                       .shape = {part.count, rows, length}});
  data::SafetensorsWriter writer(out, infos);
  for (const Part& part : parts) {
    for (const std::string name : {data::kTokens, data::kTargets})
      for (int64_t i = 0; i < part.count; ++i) {
        const data::Batch batch = part.batches(i);
        writer.append(part.name + "." + name, std::as_bytes(std::span(batch[name])));
      }
  }
  writer.finish();
}

void run(const std::string& out, const std::string& config_name,
         const std::vector<std::string>& overrides) {
  const trainer::Config config =
      trainer::load_config(config_name, overrides, trainer::default_configs_directory());
  const data::BatchShape shape{config.per_device_batch_size, config.max_target_length};
  const trainer::TrainingData data =
      trainer::open_data(config, shape, [](const std::string& line) { std::cerr << line << "\n"; });
  std::vector<Part> parts{
      {"train", data.training, config.steps * config.gradient_accumulation_steps}};
  if (!data.validation.empty())
    parts.push_back({"validation", data.validation[0].batches, data.validation[0].count});
  write(out, parts, config.per_device_batch_size, config.max_target_length);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: write_batches OUT CONFIG [key=value ...]\n";
    return 2;
  }
  return exit_code_of("write_batches", [&] { run(argv[1], argv[2], {argv + 3, argv + argc}); });
}
