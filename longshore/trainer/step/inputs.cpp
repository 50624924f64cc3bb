#include "longshore/trainer/step/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/images/patches.h"
#include "longshore/data/safetensors/safetensors_writer.h"
#include "longshore/models/families/vision.h"
#include "longshore/trainer/config/config.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

using data::SafetensorsDtype;
using data::SafetensorsTensor;

constexpr const char *kPixels = "pixel_values", *kTypes = "token_type_ids";
const std::vector<std::string> kTextInputs{"input_ids", "labels", "attention_mask", "segment_ids",
                                           "position_ids"};
constexpr int64_t kNoLabel = -100;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// Results that reference files hold in addition to their inputs.
bool is_result(const std::string& name) {
  static const std::set<std::string> kNames{"logits", "base_logits", "token_loss", "loss"};
  constexpr std::array kGroups{"hidden.", "grad.", "grad_adapter.", "grad_lm_attention."};
  return kNames.contains(name) ||
         std::ranges::any_of(kGroups, [&](const char* group) { return name.starts_with(group); });
}

std::string shape_text(const SafetensorsTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ","));
}

// Valid values; `also` is one more.
struct Range {
  int64_t low = 0, high = kMaxInt32;
  std::optional<int64_t> also = std::nullopt;

  bool holds(int64_t value) const { return (value >= low && value <= high) || value == also; }
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, bool reads_images) : file_(path) {
    std::vector<std::string> inputs = kTextInputs;
    if (reads_images) inputs.insert(inputs.end(), {kPixels, kTypes});
    for (const SafetensorsTensor& tensor : file_.tensors())
      if (std::ranges::find(inputs, tensor.name) == inputs.end() && !is_result(tensor.name))
        fail(excerpt(tensor.name), "a tensor that is no input of a probe",
             join(inputs) + ", or results: logits, token_loss, loss, hidden.*, grad.*");
    shape_ = find_shape();
  }

  data::BatchShape shape() const { return shape_; }
  int64_t count() const { return shape_.rows * shape_.length; }
  bool has(const std::string& name) const { return file_.contains(name); }

  std::vector<int32_t> read(const std::string& name, const Range& range) const {
    const SafetensorsTensor& tensor = file_.at(name);
    if (tensor.dtype != SafetensorsDtype::int64 && tensor.dtype != SafetensorsDtype::int32)
      fail(name, data::name(tensor.dtype), "I64 or I32");
    if (std::vector<int64_t> expected{shape_.rows, shape_.length}; tensor.shape != expected)
      fail(name, shape_text(tensor),
           fmt::format("[{},{}], the shape of input_ids", shape_.rows, shape_.length));
    std::vector<int32_t> values;
    values.reserve(static_cast<size_t>(count()));
    for (int64_t i = 0; i < count(); ++i) {
      int64_t value = tensor.dtype == SafetensorsDtype::int64 ? element<int64_t>(tensor, i)
                                                              : element<int32_t>(tensor, i);
      if (!range.holds(value))
        fail_at(name, i, std::to_string(value),
                fmt::format("{} to {}", range.low, range.high) +
                    (range.also ? fmt::format(", or {}", *range.also) : ""));
      values.push_back(static_cast<int32_t>(value));
    }
    return values;
  }

  const SafetensorsTensor& tensor(const std::string& name) const { return file_.at(name); }

  [[noreturn]] void fail(const std::string& tensor, const std::string& found,
                         const std::string& expected) const {
    throw DataError(fmt::format("{}: {}: found {}, expected {}", path_text(file_.path()), tensor,
                                found, expected));
  }
  // At an element of a tensor [B,T].
  [[noreturn]] void fail_at(const std::string& tensor, int64_t index, const std::string& found,
                            const std::string& expected) const {
    fail(fmt::format("{}[{},{}]", tensor, index / shape_.length, index % shape_.length), found,
         expected);
  }

 private:
  template <class T>
  static T element(const SafetensorsTensor& tensor, int64_t index) {
    T value;  // the mapped file need not be aligned
    std::memcpy(&value, tensor.data.data() + index * static_cast<int64_t>(sizeof value),
                sizeof value);
    return value;
  }

  data::BatchShape find_shape() const {
    if (!has("input_ids")) fail("input_ids", "nothing", "a tensor [B,T]");
    const SafetensorsTensor& ids = file_.at("input_ids");
    bool is_batch = ids.shape.size() == 2 && ids.element_count() >= 1;
    if (!is_batch || ids.element_count() > kMaxTokens)
      fail("input_ids", shape_text(ids),
           fmt::format("[B,T] with at least one and at most {} tokens", kMaxTokens));
    return {ids.shape[0], ids.shape[1]};
  }

  data::SafetensorsFile file_;
  data::BatchShape shape_;
};

std::vector<int32_t> positions(const Reader& reader) {
  if (reader.has("position_ids")) return reader.read("position_ids", {});
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < reader.count(); ++i)
    positions.push_back(static_cast<int32_t>(i % reader.shape().length));
  return positions;
}

// The label of the next position is this one's target.
std::vector<int32_t> targets(const std::vector<int32_t>& labels, int64_t length) {
  std::vector<int32_t> targets(labels.size(), data::kIgnoredTarget);
  for (size_t i = 0; i + 1 < labels.size(); ++i)
    if ((static_cast<int64_t>(i) + 1) % length != 0 && labels[i + 1] != kNoLabel)
      targets[i] = labels[i + 1];
  return targets;
}

void check_padding(const Reader& reader, const std::vector<int32_t>& labels) {
  std::vector<int32_t> mask = reader.read("attention_mask", {.high = 1});
  for (int64_t i = 1; i < reader.count(); ++i)
    if (i % reader.shape().length > 0 && mask[i] > mask[i - 1])
      reader.fail_at("attention_mask", i, "1 after 0",
                     "padding on the right: ones, then zeros to the end of the row");
  for (int64_t i = 0; i < std::ssize(labels); ++i)
    if (mask[i] == 0 && labels[i] != kNoLabel)
      reader.fail_at("labels", i, fmt::format("{} where attention_mask is 0", labels[i]),
                     fmt::format("{}: padding is not trained", kNoLabel));
}

// The attention kernel knows a segment as one run of its id.
void check_segments(const Reader& reader, const std::vector<int32_t>& segments) {
  std::set<int32_t> ended;
  for (int64_t i = 0; i < reader.count(); ++i) {
    if (i % reader.shape().length == 0)
      ended.clear();
    else if (segments[i] != segments[i - 1])
      ended.insert(segments[i - 1]);
    if (ended.contains(segments[i]))
      reader.fail_at("segment_ids", i, fmt::format("{} again", segments[i]),
                     "each id of a row in one run");
  }
}

// In the flattened batch, where the model's image tokens are.
std::vector<int32_t> image_places(const std::vector<int32_t>& tokens,
                                  const models::VisionConfig& vision) {
  std::vector<int32_t> places;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] == vision.image_token) places.push_back(static_cast<int32_t>(i));
  return places;
}

// Images' tokens and prompt are a block, or each run of images' tokens is one.
std::vector<int32_t> blocks(const Reader& reader, const models::VisionConfig& vision) {
  const std::vector<int32_t> types = reader.read(kTypes, {.high = 1});
  std::vector<int32_t> real(types.size(), 1);
  if (reader.has("attention_mask")) real = reader.read("attention_mask", {.high = 1});
  std::vector<int32_t> blocks(types.size());
  const int32_t of_block = vision.family->has_prefix ? 0 : 1;
  int32_t number = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != of_block || real[i] == 0) continue;
    const bool begins_row = static_cast<int64_t>(i) % reader.shape().length == 0;
    if (begins_row || blocks[i - 1] == 0) ++number;
    blocks[i] = number;
  }
  return blocks;
}

data::Batch::Values of_dtype(std::vector<float> values, models::Dtype dtype) {
  if (dtype != models::Dtype::bfloat16) return values;
  std::vector<bfloat16> narrow(values.size());
  std::ranges::transform(values, narrow.begin(), [](float value) { return to_bfloat16(value); });
  return narrow;
}

// How many there are.
int64_t read_images(const Reader& reader, const models::DecoderConfig& model, data::Batch& batch) {
  const models::VisionConfig& vision = *model.vision;
  for (const char* name : {kPixels, kTypes})
    if (!reader.has(name)) reader.fail(name, "nothing", "a tensor, since the model reads images");
  const SafetensorsTensor& pixels = reader.tensor(kPixels);
  const int64_t size = vision.image_size, rows = batch.shape.rows;
  if (pixels.dtype != SafetensorsDtype::float32)
    reader.fail(kPixels, data::name(pixels.dtype), "F32");
  if (pixels.shape.size() != 4 || pixels.shape[0] == 0 || pixels.shape[0] % rows != 0 ||
      pixels.shape != std::vector{pixels.shape[0], int64_t{3}, size, size})
    reader.fail(kPixels, shape_text(pixels),
                fmt::format("[N,3,{},{}], N a multiple of {}", size, size, rows));
  const int64_t images = pixels.shape[0];
  std::vector<int32_t> places = image_places(batch[data::kTokens], vision);
  if (std::ssize(places) != images * vision.image_tokens)
    reader.fail("input_ids",
                fmt::format("{} times the image token {}", places.size(), vision.image_token),
                fmt::format("{} for each of {} images", vision.image_tokens, images));
  batch[models::kImagePlaces] = std::move(places);
  batch[models::kBlocks] = blocks(reader, vision);
  std::vector<float> planes(static_cast<size_t>(3 * size * size)), patches;
  for (int64_t image = 0; image < images; ++image) {
    std::memcpy(
        planes.data(),
        pixels.data.data() + image * std::ssize(planes) * static_cast<int64_t>(sizeof(float)),
        planes.size() * sizeof(float));
    const std::vector<float> of_image = data::to_patches(planes, size, vision.patch_size);
    patches.insert(patches.end(), of_image.begin(), of_image.end());
  }
  batch.inputs[models::kPixelValues] = of_dtype(std::move(patches), model.dtype);
  return images;
}

}  // namespace

ProbeInputs read_probe_inputs(const std::filesystem::path& file,
                              const models::DecoderConfig& model) {
  const Reader reader(file, model.vision.has_value());
  const int64_t vocabulary = model.vocabulary;
  ProbeInputs inputs{.batch = {.shape = reader.shape()}, .has_labels = reader.has("labels")};
  data::Batch& batch = inputs.batch;
  batch[data::kTokens] = reader.read("input_ids", {.high = vocabulary - 1});
  batch[data::kPositions] = positions(reader);
  std::vector<int32_t> labels;
  if (inputs.has_labels) labels = reader.read("labels", {.high = vocabulary - 1, .also = kNoLabel});
  std::vector<int32_t>& trained = batch[data::kTargets] =
      inputs.has_labels
          ? targets(labels, batch.shape.length)
          : std::vector<int32_t>(static_cast<size_t>(reader.count()), data::kIgnoredTarget);
  batch.total_weights =
      std::ranges::count_if(trained, [](int32_t target) { return target != data::kIgnoredTarget; });
  if (inputs.has_labels && batch.total_weights == 0)
    reader.fail("labels", "no target to train",
                fmt::format("at least one that is not {}, after the first column", kNoLabel));
  if (reader.has("attention_mask")) check_padding(reader, labels);
  if (model.vision) inputs.images = read_images(reader, model, batch);
  if (reader.has("segment_ids")) {
    batch[data::kSegments] = reader.read("segment_ids", {});
    check_segments(reader, batch[data::kSegments]);
  }
  return inputs;
}

bool has_images(const std::filesystem::path& file) {
  return data::SafetensorsFile(file).contains(kPixels);
}

void write_probe_inputs(const std::filesystem::path& file, const data::Batch& batch) {
  const auto [rows, length] = batch.shape;
  std::map<std::string, std::vector<int32_t>> values;
  for (int64_t row = 0; row < rows; ++row) {
    auto add = [&](const char* name, const char* input) {
      const std::vector<int32_t>& from = batch[input];
      auto begin = from.begin() + row * length;
      values[name].insert(values[name].end(), begin, begin + length);
    };
    add("input_ids", data::kTokens);
    add("position_ids", data::kPositions);
    values["labels"].push_back(kNoLabel);
    add("labels", data::kTargets);
    std::ranges::replace(values["labels"], data::kIgnoredTarget, static_cast<int32_t>(kNoLabel));
    values["input_ids"].push_back(std::max(0, values["labels"].back()));
    values["position_ids"].push_back(values["position_ids"].back() + 1);
    if (!batch.has(data::kSegments)) continue;
    add("segment_ids", data::kSegments);
    values["segment_ids"].push_back(values["segment_ids"].back());
  }
  std::vector<data::SafetensorsInfo> tensors;
  for (const auto& [name, tensor] : values)
    tensors.push_back(
        {.name = name, .dtype = SafetensorsDtype::int32, .shape = {rows, length + 1}});
  // Tensors are sorted, as the map is.
  data::SafetensorsWriter writer(file, tensors, Links::refused);
  for (const auto& [name, tensor] : values) writer.append(name, std::as_bytes(std::span(tensor)));
  writer.finish();
}

}  // namespace longshore::trainer
