#include "trainer/config/row_images.h"

#include <array>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/printable.h"
#include "data/images/image_settings.h"
#include "trainer/config/model_config.h"
#include "trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

// Where an image processor is described; "" where none is.
fs::path processor_folder(const Config& config) {
  const fs::path saved = config.run_name.empty()
                             ? fs::path()
                             : config.base_output_directory / config.run_name / kModelFolder;
  for (const fs::path& folder : {config.load_parameters_path, saved})
    for (const char* file : {"preprocessor_config.json", "processor_config.json"})
      if (std::error_code error; !folder.empty() && fs::exists(folder / file, error)) return folder;
  return {};
}

data::ImageSettings default_settings(const models::VisionConfig& vision) {
  data::ImageSettings settings;
  settings.pixels.height = settings.pixels.width = vision.image_size;
  settings.pixels.resample =
      vision.family->pools ? data::Resample::bilinear : data::Resample::bicubic;
  return settings;
}

void require_size(const Config& config, const fs::path& folder, const data::PixelSettings& pixels,
                  int64_t size) {
  if (pixels.height == size && pixels.width == size) return;
  throw ConfigError(
      location(config, "image_size_for_vit") + ": found " + std::to_string(size) + ", expected " +
      std::to_string(pixels.height) + " x " + std::to_string(pixels.width) +
      ", to which the image processor resizes that is described in " + path_text(folder));
}

}  // namespace

std::optional<data::RowImages> row_images(const Config& config) {
  if (!config.use_multimodal) return std::nullopt;
  const models::VisionConfig vision = *decoder_config(config, models::Target::cpu).vision;
  data::ImageSettings settings = default_settings(vision);
  if (const fs::path folder = processor_folder(config); !folder.empty()) {
    settings = data::read_image_settings(folder);
    require_size(config, folder, settings.pixels, vision.image_size);
  }
  return data::RowImages{.text = {.kind = vision.family->has_prefix ? data::ImageText::before_text
                                                                    : data::ImageText::in_text,
                                  .image_token = static_cast<int32_t>(vision.image_token),
                                  .tokens_per_image = vision.image_tokens},
                         .pixels = settings.pixels,
                         .patch_size = vision.patch_size,
                         .transparent_color = settings.transparent_color,
                         .max_pixels = config.max_image_pixels,
                         .images_per_row = config.max_num_images_per_example};
}

}  // namespace longshore::trainer
