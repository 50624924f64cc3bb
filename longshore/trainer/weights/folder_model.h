// The decoder that a Hugging Face folder holds, for programs that take nothing but such a folder.
#pragma once

#include <filesystem>

#include "longshore/models/families/decoder.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/config/added_rows.h"

namespace longshore::trainer {

// The model of the folder's config.json, with rows added to its vocabulary, and with the adapter in
// peft's folder `adapter` unless that is empty. Throws DataError, naming the file.
models::DecoderConfig read_folder_model(const std::filesystem::path& folder,
                                        const std::filesystem::path& adapter,
                                        models::UnknownKeys unknown = models::UnknownKeys::refuse,
                                        models::Images images = models::Images::ignore,
                                        const AddedRows& added_rows = {});

}  // namespace longshore::trainer
