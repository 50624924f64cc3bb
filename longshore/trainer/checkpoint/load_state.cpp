#include "longshore/trainer/checkpoint/load_state.h"

#include <fmt/format.h>

#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/checkpoint/optimizer_state.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/load_parameters.h"

namespace longshore::trainer {

std::string load_state(const Checkpoint& checkpoint, const SavedModel& saved,
                       offload::Arguments& arguments) {
  std::string weights;
  if (const std::filesystem::path model = checkpoint.model(); !model.empty()) {
    load_weights({.folder = model, .adapter = checkpoint.adapter()}, saved.model, saved.layout,
                 arguments);
  } else if (!saved.config.load_parameters_path.empty()) {
    Config config = saved.config;
    config.load_adapter_path = checkpoint.adapter();
    weights = load_parameters(config, saved.model, saved.layout, arguments) + "\n";
  } else {
    const Adapter adapter(checkpoint.adapter(), saved.layout);
    write_parameters(
        saved.layout,
        [&](const offload::Parameter& parameter, int64_t first, std::span<float> values) {
          if (parameter.weight.of_adapter)
            adapter.read(parameter, first, values);
          else
            initial_values(parameter, static_cast<uint64_t>(saved.config.seed), first, values);
        },
        arguments, Copies::all, nullptr, "initializing weights");
  }
  read_optimizer_state(checkpoint.optimizer(), saved.layout, arguments);
  return fmt::format("{}resumes from {}, after {}", weights, path_text(checkpoint.folder),
                     plural(checkpoint.manifest.step, "step"));
}

}  // namespace longshore::trainer
