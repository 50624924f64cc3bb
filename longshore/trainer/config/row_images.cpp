#include "longshore/trainer/config/row_images.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/images/image_settings.h"
#include "longshore/trainer/config/image_text.h"
#include "longshore/trainer/config/model_config.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

bool describes_processor(const fs::path& folder) {
  std::error_code error;
  return !folder.empty() && (fs::exists(folder / "preprocessor_config.json", error) ||
                             fs::exists(folder / "processor_config.json", error));
}

data::ImageSettings settings_of(const models::VisionConfig& vision, const fs::path& folder) {
  data::ImageSettings settings;
  if (describes_processor(folder)) {
    settings = data::read_image_settings(folder);
    const data::PixelSettings& pixels = settings.pixels;
    if (pixels.height != vision.image_size || pixels.width != vision.image_size)
      throw DataError(path_text(folder) + ": found an image processor that resizes to " +
                      std::to_string(pixels.width) + " x " + std::to_string(pixels.height) +
                      ", expected " + std::to_string(vision.image_size) +
                      " both ways, the image_size of the model");
    return settings;
  }
  settings.pixels.height = settings.pixels.width = vision.image_size;
  settings.pixels.resample =
      vision.family->pools ? data::Resample::bilinear : data::Resample::bicubic;
  return settings;
}

}  // namespace

data::RowImages row_images(const models::VisionConfig& vision, const fs::path& folder) {
  const data::ImageSettings settings = settings_of(vision, folder);
  return {.text = image_text(vision),
          .pixels = settings.pixels,
          .patch_size = vision.patch_size,
          .transparent_color = settings.transparent_color,
          .images_per_row = 1};
}

std::optional<data::RowImages> row_images(const Config& config) {
  if (!config.use_multimodal) return std::nullopt;
  fs::path folder = config.load_parameters_path;
  if (!describes_processor(folder) && !config.run_name.empty())
    folder = config.base_output_directory / config.run_name / kModelFolder;
  data::RowImages images = row_images(*decoder_config(config, models::Target::cpu).vision, folder);
  images.max_pixels = config.max_image_pixels;
  images.images_per_row = config.max_num_images_per_example;
  return images;
}

}  // namespace longshore::trainer
