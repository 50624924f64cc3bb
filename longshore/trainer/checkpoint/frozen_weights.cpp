#include "longshore/trainer/checkpoint/frozen_weights.h"

#include <cstring>
#include <map>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/integer.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/progress.h"
#include "longshore/base/split_mix.h"
#include "longshore/data/files/content_hash.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/trainer/checkpoint/manifest.h"
#include "longshore/trainer/config/load_config.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/weights/folders_read.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/initialize.h"
#include "longshore/trainer/weights/run_weights.h"
#include "longshore/trainer/weights/saved_state.h"
#include "longshore/trainer/weights/saved_tensors.h"
#include "longshore/trainer/weights/stored_numbers.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::Parameter;

// The sum of numbers, each mixed with its place.
template <class Bits>
uint64_t mixed_sum(const std::string& bytes, uint64_t first_place) {
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(Bits));
  constexpr int64_t kAlone = 1 << 16;  // elements that one thread has done before others wake
  uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) if (count > kAlone)
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    sum += split_mix((first_place + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15 ^ bits);
  }
  return sum;
}

// The mixed sum of what this process holds of a parameter. The total of all processes is the same
// however elements are dealt out to them.
uint64_t sum_of(const offload::Bucket& bucket, const offload::Parameter& parameter,
                const offload::DeviceMesh& mesh, const offload::Arguments& arguments) {
  // Enough for all processors; 64 MiB of memory at most.
  constexpr int64_t kPieceElements = int64_t{16} << 20;
  const int64_t size = models::size_bytes(bucket.dtype);
  const offload::ElementRange all =
      offload::common(bucket.held, {parameter.offset, parameter.type.shape.count()});
  const std::optional<models::Split>& split = parameter.weight.split;
  const int64_t part = split ? mesh.along(split->axis).rank : 0;
  uint64_t sum = 0;
  std::string bytes;
  for (const models::SplitRun& run : models::SplitRuns(parameter.type.shape, split)
                                         .of_part(part, all.first - parameter.offset, all.count))
    for_each_piece(run.count, kPieceElements, [&](int64_t done, int64_t count) {
      const int64_t first = parameter.offset + run.in_part + done;
      bytes.resize(static_cast<size_t>(count * size));
      arguments.read_part(argument_name(bucket, offload::Copy::compute),
                          (first - bucket.held.first) * size, bytes.data(), count * size);
      const auto place = static_cast<uint64_t>(run.in_tensor + done);
      sum += size == 1   ? mixed_sum<uint8_t>(bytes, place)
             : size == 2 ? mixed_sum<uint16_t>(bytes, place)
                         : mixed_sum<uint32_t>(bytes, place);
    });
  return sum;
}

// By the parameters' names, what sum_of() gives of all devices together.
using Sums = std::map<std::string, uint64_t>;

std::string hash_of(const Sums& sums) {
  std::string text;
  for (const auto& [name, sum] : sums) text += name + " " + std::to_string(sum) + "\n";
  return data::content_hash(text);
}

// --- of a folder

// With that bucket alone.
offload::ParameterLayout layout_of(const offload::Bucket& bucket) {
  offload::ParameterLayout layout{.buckets = {bucket}, .by_name = {}, .mesh = {}};
  for (int i = 0; i < std::ssize(bucket.parameters); ++i)
    layout.by_name[bucket.parameters[static_cast<size_t>(i)].name] = {.bucket = 0, .parameter = i};
  return layout;
}

int64_t elements_of(const offload::ParameterLayout& layout) {
  int64_t elements = 0;
  for (const offload::Bucket& bucket : layout.buckets) elements += bucket.count;
  return elements;
}

// As training gets them from there, on one device.
Sums sums_of_folder(const Config& config, const models::DecoderConfig& decoder,
                    const offload::ParameterLayout& layout) {
  const fs::path& folder = config.load_parameters_path;
  const StoredWeights weights(folder, decoder, config.added_rows);
  check_tensors(folder, layout, weights, decoder);
  const SavedTensors saved(layout, SavedIn::model);
  const std::unique_ptr<offload::Backend> backend = offload::make_cpu_backend();
  Sums sums;
  Progress progress("reading the weights that the adapter is for", elements_of(layout));
  for (const offload::Bucket& bucket : layout.buckets) {
    progress.add(bucket.count);
    if (bucket.trainable == models::Trainable::yes) continue;
    const offload::ParameterLayout one = layout_of(bucket);
    offload::Ledger ledger;
    offload::Arguments arguments(*backend, ledger);
    write_parameters(
        one,
        [&](const Parameter& parameter, int64_t first, std::span<float> values) {
          read_numbers(weights, saved, parameter, first, values);
        },
        arguments, Copies::compute,
        [&](const Parameter& parameter, int64_t number, const WriteBytes& write) {
          return copy_matrix(weights, parameter, number, write);
        });
    for (const Parameter& parameter : bucket.parameters)
      sums[parameter.name] = sum_of(bucket, parameter, one.mesh, arguments);
  }
  return sums;
}

// The config of the run, on one device and in the dtype that it has computed in.
Config config_of(const fs::path& run, const Manifest& manifest) {
  Config config = load_config(run / kConfigFile, {}, default_configs_directory());
  config.ici_data_parallelism = config.ici_fsdp_parallelism = 1;
  config.dcn_data_parallelism = config.dcn_fsdp_parallelism = 1;
  const auto dtype = manifest.config.find("dtype");
  if (dtype != manifest.config.end())
    config.dtype = dtype->second == "bfloat16" ? ComputeDtype::bfloat16 : ComputeDtype::float32;
  return with_folders_read(std::move(config));
}

// Of the weights of all devices that lie in such buckets.
template <class Counts>
Sums sums_of_all(const offload::ParameterLayout& layout, const offload::Arguments& arguments,
                 World& world, Counts counts) {
  Sums sums;
  Progress progress("hashing weights", elements_of(layout));
  for (const auto& [name, location] : layout.by_name) {
    const offload::Bucket& bucket = layout.bucket(location);
    progress.add(layout.parameter(location).type.shape.count());
    if (!counts(bucket)) continue;
    const bool is_counted = bucket.split == models::Axis::data || layout.mesh.data.rank == 0;
    const uint64_t held = is_counted
                              ? sum_of(bucket, layout.parameter(location), layout.mesh, arguments)
                              : uint64_t{0};
    for (const std::string& text : world.gather(std::to_string(held))) {
      const std::optional<uint64_t> part = integer<uint64_t>(text);
      if (!part) throw Error("a process sent no sum of its weights");
      sums[name] += *part;
    }
  }
  return sums;
}

}  // namespace

std::string weights_hash(const offload::ParameterLayout& layout,
                         const offload::Arguments& arguments, World& world) {
  return hash_of(
      sums_of_all(layout, arguments, world, [](const offload::Bucket&) { return true; }));
}

std::string frozen_weights_hash(const offload::ParameterLayout& layout,
                                const offload::Arguments& arguments, World& world) {
  if (saves_model(layout)) return "";
  return hash_of(sums_of_all(layout, arguments, world, [](const offload::Bucket& bucket) {
    return bucket.trainable == models::Trainable::no;
  }));
}

void require_base_unchanged(const fs::path& run) {
  if (fs::exists(run / kModelFolder) || !fs::exists(run / kAdapterFolder)) return;
  const fs::path adapter = fs::canonical(folder_inside(run, kAdapterFolder));
  if (!fs::exists(adapter.parent_path() / kManifestFile)) return;
  const Manifest manifest = read_manifest(adapter.parent_path());
  const Config config = config_of(run_directory(run), manifest);
  const fs::path& base = config.load_parameters_path;
  if (manifest.frozen_weights.empty() || base.empty()) return;
  const Sums sums = sums_of_folder(config, decoder_config(config, models::Target::cpu),
                                   offload::lay_out(make_model(config, models::Target::cpu)));
  if (hash_of(sums) == manifest.frozen_weights) return;
  throw DataError(path_text(base) + ": found other weights than those that the adapter of " +
                  path_text(run) +
                  " was trained beside, expected them as they were; nearest: put those back, or "
                  "convert --from " +
                  path_text(base) + " --adapter " + path_text(run / kAdapterFolder) +
                  ", which merges the adapter into what is there");
}

}  // namespace longshore::trainer
