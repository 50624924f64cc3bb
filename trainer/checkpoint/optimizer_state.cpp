#include "trainer/checkpoint/optimizer_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/pieces.h"
#include "base/printable.h"
#include "base/problem_list.h"
#include "data/safetensors/safetensors_float.h"
#include "data/safetensors/safetensors_writer.h"
#include "trainer/weights/hf_folder.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;
using data::SafetensorsInfo;
using offload::Bucket;
using offload::Copy;
using offload::Parameter;
using offload::ParameterLayout;

// Where a tensor of the file lies.
struct Part {
  SafetensorsInfo info;
  std::string argument;
  int64_t offset_bytes = 0;              // in the bucket
  int64_t held_begin = 0, held_end = 0;  // what of the bucket's copy this device has, in bytes
};

std::map<std::string, Part> parts_of(const ParameterLayout& layout) {
  std::map<std::string, Part> parts;
  for (const Bucket& bucket : layout.buckets) {
    for (size_t i = 0; i < bucket.states.size(); ++i) {
      const Copy copy = offload::state_copy(i);
      const auto bytes_of = [&](int64_t elements) {
        return offload::elements(bucket, copy, elements) * models::size_bytes(dtype(bucket, copy));
      };
      for (const Parameter& parameter : bucket.parameters) {
        const models::Shape& shape = parameter.type.shape;
        Part part{.info = {.name = parameter.name + "." + bucket.states[i].name,
                           .dtype = file_dtype(dtype(bucket, copy)),
                           .shape = bucket.states[i].block > 1 ? std::vector{offload::elements(
                                                                     bucket, copy, shape.count())}
                                                               : shape.sizes()},
                  .argument = argument_name(bucket, copy),
                  .offset_bytes = bytes_of(parameter.offset),
                  .held_begin = bytes_of(bucket.part(copy).first),
                  .held_end = bytes_of(bucket.part(copy).end())};
        parts.emplace(part.info.name, std::move(part));
      }
    }
  }
  return parts;
}

std::string text(const SafetensorsInfo& info) {
  return fmt::format("{} [{}]", data::name(info.dtype), fmt::join(info.shape, ","));
}

// What is read, checked and written at a time stays in the processor's cache.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

void check(const data::SafetensorsFile& file, const std::map<std::string, Part>& parts) {
  ProblemList problems;
  for (const auto& [name, part] : parts) {
    if (!file.contains(name))
      problems.add("missing " + name);
    else if (const SafetensorsInfo& found = file.at(name); found != part.info)
      problems.add(fmt::format("{} is {}, expected {}", name, text(found), text(part.info)));
  }
  for (const data::SafetensorsTensor& tensor : file.tensors())
    if (!parts.contains(tensor.name)) problems.add("not expected: " + excerpt(tensor.name));
  if (!problems.empty())
    throw DataError(path_text(file.path()) + ": is not this model's:\n  " + problems.text());
}

}  // namespace

void write_optimizer_state(const std::filesystem::path& path, const ParameterLayout& layout,
                           const offload::ArgumentReader& arguments) {
  const std::map<std::string, Part> parts = parts_of(layout);
  std::vector<SafetensorsInfo> tensors;
  for (const auto& [name, part] : parts) tensors.push_back(part.info);
  tensors = data::sorted_as_safetensors(std::move(tensors));
  data::SafetensorsWriter writer(path, tensors);
  std::vector<std::byte> piece;
  for (const SafetensorsInfo& tensor : tensors) {
    const Part& part = parts.at(tensor.name);
    for_each_piece(tensor.bytes(), kPieceBytes, [&](int64_t first, int64_t bytes) {
      piece.resize(static_cast<size_t>(bytes));
      arguments.read_part(part.argument, part.offset_bytes + first, piece.data(), bytes);
      data::require_finite({tensor, piece});
      writer.append(tensor.name, piece);
    });
  }
  writer.finish();
}

void read_optimizer_state(const std::filesystem::path& path, const ParameterLayout& layout,
                          offload::Arguments& arguments) {
  const data::SafetensorsFile file(path);
  const std::map<std::string, Part> parts = parts_of(layout);
  check(file, parts);
  for (const auto& [name, part] : parts) {
    const std::span<const std::byte> data = file.at(name).data;
    const int64_t begin = std::max(part.offset_bytes, part.held_begin),
                  end = std::min(part.offset_bytes + std::ssize(data), part.held_end);
    for_each_piece(end - begin, kPieceBytes, [&](int64_t first, int64_t bytes) {
      arguments.write_part(part.argument, begin - part.held_begin + first,
                           data.data() + (begin - part.offset_bytes) + first, bytes);
    });
  }
}

}  // namespace longshore::trainer
