#include "longshore/trainer/checkpoint/optimizer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/problem_list.h"
#include "longshore/base/progress.h"
#include "longshore/data/safetensors/safetensors_float.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/trainer/weights/hf_folder.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;
using data::SafetensorsInfo;
using offload::Bucket;
using offload::Copy;
using offload::Parameter;
using offload::ParameterLayout;

// What an optimizer keeps of a parameter: a tensor of the file. Numbers count its values.
struct StateTensor {
  SafetensorsInfo info;
  std::string argument;
  models::SplitRuns runs;
  int64_t part = 0;                 // that this device has, where the parameter is split
  int64_t offset = 0;               // in the bucket
  int64_t bucket_count = 0;         // of the bucket's copy
  offload::ElementRange held = {};  // what of that this device has

  int64_t value_bytes() const { return data::size_bytes(info.dtype); }
};

std::map<std::string, StateTensor> state_tensors(const ParameterLayout& layout) {
  std::map<std::string, StateTensor> tensors;
  for (const Bucket& bucket : layout.buckets) {
    const int64_t part = bucket.split ? layout.mesh.along(*bucket.split).rank : 0;
    for (size_t i = 0; i < bucket.states.size(); ++i) {
      const Copy copy = offload::state_copy(i);
      const int64_t block = bucket.states[i].block;
      const auto values = [&](int64_t elements) {
        return offload::elements(bucket, copy, elements);
      };
      for (const Parameter& parameter : bucket.parameters) {
        const models::Shape shape = parameter.tensor_shape();
        StateTensor tensor{
            .info = {.name = parameter.name + "." + bucket.states[i].name,
                     .dtype = file_dtype(dtype(bucket, copy)),
                     .shape = block > 1 ? std::vector{values(shape.count())} : shape.sizes()},
            .argument = argument_name(bucket, copy),
            .runs = {parameter.type.shape, parameter.weight.split, block},
            .part = part,
            .offset = values(parameter.offset),
            .bucket_count = values(bucket.count),
            .held = {values(bucket.part(copy).first), values(bucket.part(copy).count)}};
        tensors.emplace(tensor.info.name, std::move(tensor));
      }
    }
  }
  return tensors;
}

std::string text(const SafetensorsInfo& info) {
  return fmt::format("{} [{}]", data::name(info.dtype), fmt::join(info.shape, ","));
}

// What is read, checked and written at a time stays in the processor's cache.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

void check(const data::SafetensorsFile& file, const std::map<std::string, StateTensor>& expected) {
  ProblemList problems;
  for (const auto& [name, tensor] : expected) {
    if (!file.contains(name))
      problems.add("missing " + name);
    else if (const SafetensorsInfo& found = file.at(name); found != tensor.info)
      problems.add(fmt::format("{} is {}, expected {}", name, text(found), text(tensor.info)));
  }
  for (const data::SafetensorsTensor& tensor : file.tensors())
    if (!expected.contains(tensor.name)) problems.add("not expected: " + excerpt(tensor.name));
  if (!problems.empty())
    throw DataError(path_text(file.path()) + ": is not this model's:\n  " + problems.text());
}

}  // namespace

void write_optimizer_state(const std::filesystem::path& path, const ParameterLayout& layout,
                           const offload::ArgumentReader& arguments) {
  const std::map<std::string, StateTensor> states = state_tensors(layout);
  std::vector<SafetensorsInfo> tensors;
  for (const auto& [name, state] : states) tensors.push_back(state.info);
  tensors = data::sorted_as_safetensors(std::move(tensors));
  data::SafetensorsWriter writer(path, tensors);
  std::vector<std::byte> piece;
  for (const SafetensorsInfo& tensor : tensors) {
    const StateTensor& state = states.at(tensor.name);
    const int64_t size = state.value_bytes();
    for_each_piece(tensor.element_count(), kPieceBytes / size, [&](int64_t first, int64_t count) {
      piece.resize(static_cast<size_t>(count * size));
      for (const models::SplitRun& run : state.runs.of_tensor(first, count))
        arguments.read_part(state.argument,
                            (run.part * state.bucket_count + state.offset + run.in_part) * size,
                            piece.data() + (run.in_tensor - first) * size, run.count * size);
      data::require_finite({tensor, piece});
      writer.append(tensor.name, piece);
    });
  }
  writer.finish();
}

void read_optimizer_state(const std::filesystem::path& path, const ParameterLayout& layout,
                          offload::Arguments& arguments) {
  const data::SafetensorsFile file(path);
  const std::map<std::string, StateTensor> states = state_tensors(layout);
  check(file, states);
  int64_t values = 0;
  for (const auto& [name, state] : states) values += state.runs.part_count();
  Progress progress("reading the optimizer's state", values);
  for (const auto& [name, state] : states) {
    const std::byte* data = file.at(name).data.data();
    const int64_t size = state.value_bytes();
    const auto [first, held] = offload::common(state.held, {state.offset, state.runs.part_count()});
    for (const models::SplitRun& run : state.runs.of_part(state.part, first - state.offset, held))
      for_each_piece(run.count, kPieceBytes / size, [&](int64_t done, int64_t count) {
        arguments.write_part(state.argument,
                             (state.offset + run.in_part + done - state.held.first) * size,
                             data + (run.in_tensor + done) * size, count * size);
        progress.add(count);
      });
  }
}

}  // namespace longshore::trainer
