#include "longshore/data/images/image_settings.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/files/json_place.h"
#include "longshore/data/files/small_file.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPreprocessorFile = "preprocessor_config.json";
constexpr const char* kProcessorFile = "processor_config.json";
constexpr const char* kNested = "image_processor";  // in the latter
constexpr int64_t kMaxSide = 4096;  // of a vision tower's input; those that there are have 1024

// What is left out is as the class has it, as in transformers: see each key. null counts as false.
class ProcessorReader {
 public:
  ProcessorReader(const json& object, const std::string& path)
      : object_(object), place_(object, path) {
    if (!object.is_object()) place_.refuse("an object");
  }

  ImageSettings read() {
    ImageSettings settings;
    const bool is_gemma3 = type() == kGemma3;
    for (const char* key : {"do_pan_and_scan", "do_center_crop", "do_pad"})
      if (flag(key, false)) place_.at(key).refuse("false");
    if (!flag("do_resize", true)) place_.at("do_resize").refuse("true");
    if (!flag("do_convert_rgb", true)) settings.transparent_color = TransparentColor::kept;
    read_size(settings.pixels);
    settings.pixels.resample = resample(is_gemma3 ? Resample::bilinear : Resample::bicubic);
    settings.pixels.rescale_factor =
        flag("do_rescale", true) ? number("rescale_factor", 1.0 / 255) : 1;
    if (settings.pixels.rescale_factor <= 0) place_.at("rescale_factor").refuse("more than 0");
    const bool normalizes = flag("do_normalize", true);
    settings.pixels.mean = channels("image_mean", normalizes ? 0.5 : 0, normalizes);
    settings.pixels.std = channels("image_std", normalizes ? 0.5 : 1, normalizes);
    for (double std : settings.pixels.std)
      if (std <= 0) place_.at("image_std").refuse("numbers above 0");
    settings.image_seq_length = image_seq_length();
    return settings;
  }

  std::optional<int64_t> image_seq_length() const {
    constexpr uint64_t kMost = 1 << 20;
    if (!place_.has("image_seq_length")) return std::nullopt;
    const uint64_t length = place_.at("image_seq_length").integer();
    if (length < 1 || length > kMost)
      place_.at("image_seq_length").refuse("a number from 1 to " + std::to_string(kMost));
    return static_cast<int64_t>(length);
  }

 private:
  static constexpr const char* kSiglip = "SiglipImageProcessor";
  static constexpr const char* kGemma3 = "Gemma3ImageProcessor";

  bool is_said(const char* key) const { return object_.contains(key); }

  bool flag(const char* key, bool otherwise) const {
    return place_.boolean(key, is_said(key) ? false : otherwise);
  }

  std::string type() const {
    // As older files have it.
    const char* key = !place_.has("image_processor_type") && place_.has("feature_extractor_type")
                          ? "feature_extractor_type"
                          : "image_processor_type";
    const std::string found = place_.at(key).string();
    const std::vector<std::string> known = {kSiglip, kGemma3};
    for (const std::string& name : known)
      for (const char* variant : {"", "Fast", "Pil"})
        if (found == name + variant) return name;
    place_.at(key).refuse(join(known, " or ") + nearest_help(nearest(found, known)));
  }

  void read_size(PixelSettings& settings) const {
    settings.height = settings.width = 224;
    if (!is_said("size")) return;
    const JsonPlace size = place_.at("size");
    const json& value = object_.at("size");
    if (!value.is_object()) size.refuse("an object with height and width");
    for (const auto& [key, side] : value.items())
      if (key != "height" && key != "width" && !side.is_null())
        size.at(key.c_str()).refuse("height and width alone, to which any picture is resized");
    auto side = [&](const char* key) {
      const uint64_t found = size.at(key).integer();
      if (found < 1 || found > uint64_t{kMaxSide})
        size.at(key).refuse("a number from 1 to " + std::to_string(kMaxSide));
      return static_cast<int64_t>(found);
    };
    settings.height = side("height");
    settings.width = side("width");
  }

  Resample resample(Resample otherwise) const {
    if (!is_said("resample")) return otherwise;
    if (!place_.has("resample")) return Resample::bilinear;
    switch (place_.at("resample").integer()) {
      case 2:
        return Resample::bilinear;
      case 3:
        return Resample::bicubic;
      default:
        place_.at("resample").refuse("2 (bilinear) or 3 (bicubic)");
    }
  }

  double number(const char* key, double otherwise) const {
    return is_said(key) ? number_of(object_.at(key), key) : otherwise;
  }

  double number_of(const json& value, const char* key) const {
    const double number = as_float64(value);
    if (!std::isfinite(number) || std::abs(number) > kMostNumber)
      place_.at(key).refuse("a number of at most " + std::to_string(kMostNumber));
    return number;
  }

  std::array<double, kChannels> channels(const char* key, double otherwise, bool is_used) const {
    std::array<double, kChannels> values;
    values.fill(otherwise);
    if (!is_used || !is_said(key)) return values;
    const json& value = object_.at(key);
    if (!value.is_array()) {
      values.fill(number_of(value, key));
      return values;
    }
    if (value.size() != values.size()) place_.at(key).refuse("three numbers");
    for (size_t i = 0; i < values.size(); ++i) values[i] = number_of(value[i], key);
    return values;
  }

  static constexpr int kMostNumber = 1'000'000;

  const json& object_;
  JsonPlace place_;
};

template <class Read>
auto naming(const std::string& file, Read read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError(file + ": " + error.what());
  }
}

std::string text_if_there(const fs::path& path) {
  constexpr uint64_t kMostMib = 1;
  std::error_code error;
  return fs::exists(path, error) ? read_small_file(path, kMostMib) : "";
}

}  // namespace

ImageSettings parse_image_settings(std::string_view preprocessor_config,
                                   std::string_view processor_config) {
  std::optional<ImageSettings> settings;
  std::optional<int64_t> image_seq_length;
  if (!processor_config.empty())
    naming(kProcessorFile, [&] {
      const json tree = json_tree(processor_config);
      image_seq_length = ProcessorReader(tree, "").image_seq_length();
      const JsonPlace place(tree, "");
      if (place.has(kNested)) settings = ProcessorReader(tree.at(kNested), kNested).read();
    });
  if (!settings)
    settings = naming(kPreprocessorFile, [&] {
      if (preprocessor_config.empty())
        throw DataError(std::string("no such file, and no ") + kNested + " in " + kProcessorFile);
      const json tree = json_tree(preprocessor_config);
      return ProcessorReader(tree, "").read();
    });
  if (image_seq_length) settings->image_seq_length = image_seq_length;
  return *settings;
}

ImageSettings read_image_settings(const fs::path& folder) {
  const std::string preprocessor = text_if_there(folder / kPreprocessorFile);
  const std::string processor = text_if_there(folder / kProcessorFile);
  try {
    return parse_image_settings(preprocessor, processor);
  } catch (const DataError& error) {
    throw DataError(path_text(folder) + "/" + error.what());
  }
}

}  // namespace longshore::data
