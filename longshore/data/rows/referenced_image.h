// The images that token files refer to: refer_to_image() looks at one while text is tokenized,
// read_image() gives it to training.
//
// A relative path counts from the text's folder. The token file has it from its own folder on, so
// that both may be moved together. Paths are put together by their names alone: ".." takes the name
// before it away, also where that is a link.
#pragma once

#include <cstdint>
#include <filesystem>

#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/image_source.h"
#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// Files of images may have as many bytes.
inline constexpr int64_t kMaxImageFileBytes = int64_t{1} << 30;

// A path from the root on, without "." and "..".
std::filesystem::path in_full(const std::filesystem::path& path);

struct ImageFolders {
  std::filesystem::path text, tokens;  // of the files
};

// Decodes the image once, so that it is known to be whole. Throws a DataError that names the file,
// but no line, on one that cannot be read, is larger than kMaxImageFileBytes or that decode_image()
// refuses.
ImageReference refer_to_image(const ImageSource& source, int64_t line_number,
                              const ImageFolders& folders, int64_t max_pixels = kMaxImagePixels);

// Image `number` of the file. Throws a DataError that names the image, the token file and the line
// of its text where the image is not what it was, and as refer_to_image() does.
Image read_image(const TokenFile& file, int64_t number, const DecodeOptions& options = {});

// Whether each image that is a file of its own is there, as large as when the text was tokenized;
// what they hold is checked when they are read.
bool has_images_of_these_sizes(const TokenFile& file);

// The image in a file. Throws a DataError, which names it, as refer_to_image() does.
Image read_image(const std::filesystem::path& path, const DecodeOptions& options = {});

}  // namespace longshore::data
