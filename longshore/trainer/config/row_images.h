// row_images() says how rows of data have images for a model that reads them.
#pragma once

#include <filesystem>
#include <optional>

#include "longshore/data/rows/row_images.h"
#include "longshore/models/families/vision_config.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// For one image a row. They are made ready as the image processor says that is described in
// `folder`; where none is, or the path is empty, as transformers' processor of the model does by
// itself. Throws what read_image_settings() throws, and a DataError where those images are not of
// the model's size.
data::RowImages row_images(const models::VisionConfig& vision, const std::filesystem::path& folder);

// For a config, by the folder load_parameters_path, or where that is gone by that which the run has
// saved. Nothing for a model of text.
std::optional<data::RowImages> row_images(const Config& config);

}  // namespace longshore::trainer
