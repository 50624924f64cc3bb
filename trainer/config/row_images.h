// row_images() says how rows of data have images for the model of a config.
#pragma once

#include <optional>

#include "data/rows/row_images.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

// Nothing for a model of text. Images are made ready as the image processor says in the folder
// load_parameters_path, or where that is gone in the folder that the run has saved; without one, as
// transformers' processor of the model does by itself. Throws what read_image_settings() throws,
// and a ConfigError where those images are not of the model's size.
std::optional<data::RowImages> row_images(const Config& config);

}  // namespace longshore::trainer
