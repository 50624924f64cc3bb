#include "longshore/trainer/checkpoint/same_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "longshore/base/build.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/models/families/family.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

constexpr const char* kSchedule = "learning_rate_schedule_steps";

// Whether the value of a key changes the steps. Files are compared by content, and so is what was
// made of them: not by name.
bool decides_steps(const Key& key) {
  static const std::set<std::string> kFree{"dataset_path",
                                           "tokenizer_path",
                                           "chat_template",
                                           "chat_template_kwargs",
                                           "chat_template_date",
                                           "train_on",
                                           "train_data_columns",
                                           "skip_bad_lines",
                                           "verify_token_files",
                                           "keep_tokens",
                                           "add_bos_eos",
                                           "eval_dataset_path",
                                           "eval_interval",
                                           "eval_steps",
                                           "on_non_finite",
                                           "per_device_batch_size",
                                           "max_position_embeddings",
                                           "eval_prompts_path",
                                           "eval_choices_path",
                                           "reference_memory_host_offload"};
  switch (key.section) {
    case Section::model:
    case Section::training:
    case Section::batch:
    case Section::optimizer:
    case Section::data:
      return !kFree.contains(key.name);
    default:
      return key.name == "seed";
  }
}

std::string value_of(const std::string& key, const Manifest& manifest) {
  const auto found = manifest.config.find(key);
  // A key that came later: then its default is what there was.
  return found == manifest.config.end() ? value_text(*find_key(key), Config{}) : found->second;
}

// Whether values of a key give the same steps: a mistral is a llama by another name.
bool are_alike(const std::string& key, const std::string& here, const std::string& there) {
  if (here == there) return true;
  const models::Family *one = models::find_family(here), *other = models::find_family(there);
  return key == "model_type" && one && other && computes_as(*one, *other);
}

std::string place_of(const Checkpoint& checkpoint) {
  return path_text(checkpoint.folder / kManifestFile);
}

// The key of `config` as the manifest has it; `place` is where that stands.
void take(const char* name, const Manifest& manifest, const std::string& place, Config& config) {
  const Key& key = *find_key(name);
  const Scalar value{.text = value_of(name, manifest)};
  if (!read_value(key, value, {}, config))
    throw DataError(place + ": config: " + name + ": found " + excerpt(value.text) + ", expected " +
                    expected(key));
}

// Sequences of a micro-batch, on however many devices.
int64_t sequences(const Manifest& manifest, const std::string& place) {
  Config config;
  for (const char* key : {"per_device_batch_size", "ici_data_parallelism", "ici_fsdp_parallelism",
                          "dcn_data_parallelism", "dcn_fsdp_parallelism"})
    take(key, manifest, place, config);
  int64_t product = config.per_device_batch_size;
  for (int64_t devices : {config.ici_data_parallelism, config.ici_fsdp_parallelism,
                          config.dcn_data_parallelism, config.dcn_fsdp_parallelism})
    if (__builtin_mul_overflow(product, std::max(int64_t{1}, devices), &product))
      throw DataError(place +
                      ": config: found more sequences in a micro-batch than can be "
                      "counted, expected fewer");
  return product;
}

}  // namespace

Manifest describe_run(const Config& config, models::Dtype dtype, std::vector<std::string> data,
                      std::string frozen_weights) {
  Config resolved = config;
  resolved.dtype =
      dtype == models::Dtype::bfloat16 ? ComputeDtype::bfloat16 : ComputeDtype::float32;
  if (!resolved.learning_rate_schedule_steps)
    resolved.learning_rate_schedule_steps = resolved.steps;
  Manifest manifest{.product_version = version_and_commit(),
                    .seed = config.seed,
                    .data = std::move(data),
                    .frozen_weights = std::move(frozen_weights),
                    .config = {},
                    .files = {}};
  for (const Key& key : config_keys())
    if (is_valid(key, resolved)) manifest.config[key.name] = value_text(key, resolved);
  return manifest;
}

Config with_schedule_of(const Checkpoint& checkpoint, Config config) {
  if (config.learning_rate_schedule_steps) return config;
  take(kSchedule, checkpoint.manifest, place_of(checkpoint), config);
  config.origins[kSchedule] = place_of(checkpoint);
  return config;
}

void require_same_run(const Config& config, const Manifest& here, const Checkpoint& checkpoint) {
  const Manifest& there = checkpoint.manifest;
  std::vector<std::string> differing;
  auto add = [&](const std::string& key, const std::string& remark) {
    differing.push_back(fmt::format("{}: {} here ({}), {} there{}", key,
                                    excerpt(value_of(key, here)), origin(config, key),
                                    excerpt(value_of(key, there)), remark));
  };
  for (const Key& key : config_keys())
    if (decides_steps(key) &&
        !are_alike(key.name, value_of(key.name, here), value_of(key.name, there)))
      add(key.name, "");
  const int64_t sequences_here = sequences(here, "this run"),
                sequences_there = sequences(there, place_of(checkpoint));
  if (sequences_here != sequences_there)
    differing.push_back(fmt::format(
        "per_device_batch_size: {} here ({}), {} there; with the devices, {} sequences and {}",
        value_of("per_device_batch_size", here), origin(config, "per_device_batch_size"),
        value_of("per_device_batch_size", there), sequences_here, sequences_there));
  if (here.data != there.data) add("dataset_path", ", with other tokens or weights");
  if (here.frozen_weights != there.frozen_weights)
    add("load_parameters_path", ", with other weights");
  if (config.steps < there.step)
    differing.push_back(fmt::format("steps: {} here ({}), {} done there", config.steps,
                                    origin(config, "steps"), there.step));
  if (differing.empty()) return;
  throw ConfigError(fmt::format(
      "{}: is of another run, and going on from it would not be the same as never having "
      "stopped:\n  {}\nNearest: another run_name; load_parameters_path takes the weights alone",
      path_text(checkpoint.folder), fmt::join(differing, "\n  ")));
}

}  // namespace longshore::trainer
