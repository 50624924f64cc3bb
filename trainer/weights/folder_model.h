// The decoder that a Hugging Face folder holds, for programs that take nothing but such a folder.
#pragma once

#include <filesystem>

#include "models/decoder.h"

namespace longshore::trainer {

// As its config.json says, with the adapter of peft's folder `adapter` on it; empty: none. Throws
// DataError, naming the file.
models::DecoderConfig read_folder_model(const std::filesystem::path& folder,
                                        const std::filesystem::path& adapter);

}  // namespace longshore::trainer
