#include "longshore/data/images/decode_png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/images/library_errors.h"

namespace longshore::data {
namespace {

using Bytes = std::span<const std::byte>;
using Color = std::array<uint8_t, kChannels>;

constexpr const char* kWhere = "PNG";
constexpr size_t kSignatureBytes = 8;

[[noreturn]] void refuse(const std::string& fault) {
  throw DataError(std::string(kWhere) + ": " + fault);
}

struct Chunk {
  std::string_view type;
  Bytes data;
};

uint32_t big_endian(Bytes four) {
  uint32_t value = 0;
  for (std::byte byte : four.first(4)) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

// The chunk at `at`, behind which `at` then stands.
Chunk next_chunk(Bytes file, size_t& at) {
  // The length and the type, and a sum behind the data.
  constexpr size_t kHeadBytes = 8, kSumBytes = 4;
  const Bytes rest = file.subspan(at);
  if (rest.size() >= kHeadBytes) {
    const size_t length = big_endian(rest);
    const std::string_view type(reinterpret_cast<const char*>(rest.data()) + 4, 4);
    if (rest.size() - kHeadBytes >= length + kSumBytes) {
      at += kHeadBytes + length + kSumBytes;
      return {type, rest.subspan(kHeadBytes, length)};
    }
  }
  refuse("truncated or damaged: found the end of the file, after " + std::to_string(file.size()) +
         " bytes, within a chunk");
}

// libpng makes room for as much as a chunk says that it has, so first the file must have that.
void check_chunks(Bytes file) {
  size_t at = kSignatureBytes;
  for (std::string_view type; type != "IEND";) {
    type = next_chunk(file, at).type;
    if (type == "acTL") refuse("found an animation (APNG), expected a picture that stands still");
  }
}

struct Handles {
  Handles() = default;
  ~Handles() { png_destroy_read_struct(&png, &info, nullptr); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  png_structp png = nullptr;
  png_infop info = nullptr;
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto& error = *static_cast<LibraryError*>(png_get_error_ptr(png));
  const size_t bytes = std::min(std::strlen(message), sizeof error.message - 1);
  std::memcpy(error.message, message, bytes);
  error.message[bytes] = '\0';
  error.is_of_memory = std::strcmp(message, "Out of memory") == 0;  // what png_malloc() says
  std::longjmp(error.jump, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& rest = *static_cast<Bytes*>(png_get_io_ptr(png));
  if (count > rest.size()) png_error(png, "truncated");
  std::memcpy(to, rest.data(), count);
  rest = rest.subspan(count);
}

// The bytes of "\nexif\n      20\n4d4d002a...", as ImageMagick writes EXIF into a text; none where
// it is no such text.
std::vector<std::byte> bytes_of_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::vector<std::byte> bytes;
  int digits = 0, value = 0;
  for (char c : text) {
    if (std::string_view(" \t\r\n").find(c) != std::string_view::npos) continue;
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return {};
    value = value << 4 | static_cast<int>(digit < 16 ? digit : digit - 6);
    if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(std::exchange(value, 0)));
  }
  return bytes;
}

// Decodes into the image's rows: samples first, which take no more bytes than RGB, then RGB in
// their place.
class PngReader {
 public:
  explicit PngReader(Bytes file) : rest_(file) {
    guarded(error_, kWhere, [&] {
      handles_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error_, fail, ignore_warning);
      if (handles_.png != nullptr) handles_.info = png_create_info_struct(handles_.png);
    });
    if (handles_.info == nullptr) throw InternalError("libpng cannot begin");
    guarded(error_, kWhere, [&] {
      limit();
      png_set_read_fn(png(), &rest_, read_bytes);
      png_read_info(png(), info());
    });
    color_type_ = png_get_color_type(png(), info());
    depth_ = png_get_bit_depth(png(), info());
  }

  Image image(TransparentColor transparent_color) {
    Image image =
        make_image({png_get_image_width(png(), info()), png_get_image_height(png(), info())});
    read_samples(image);
    to_rgb(image);
    if (transparent_color == TransparentColor::white) whiten(image);
    return image;
  }

  // After image(): what it asks for may stand behind the pixels.
  Orientation orientation() const {
    std::string_view profile, xmp;
    png_textp texts = nullptr;
    int count = 0;
    png_get_text(png(), info(), &texts, &count);
    for (const png_text& text : std::span(texts, static_cast<size_t>(count))) {
      const std::string_view key = text.key;
      const std::string_view value(text.text, std::max(text.text_length, text.itxt_length));
      if (key == "Raw profile type exif") profile = value;
      if (key == "XML:com.adobe.xmp") xmp = value;
    }
    png_unknown_chunkp chunks = nullptr;  // all eXIf
    const int exif = png_get_unknown_chunks(png(), info(), &chunks);
    const auto said = exif > 0 ? exif_orientation(std::as_bytes(
                                     std::span(chunks[exif - 1].data, chunks[exif - 1].size)))
                               : exif_orientation(bytes_of_profile(profile));
    return said ? *said : xmp_orientation(xmp).value_or(Orientation::upright);
  }

 private:
  png_structp png() const { return handles_.png; }
  png_infop info() const { return handles_.info; }

  // Of chunks that can be done without, only those are read that bear on pixels or orientation.
  void limit() {
    constexpr png_byte kKept[] = "iTXt\0tEXt\0zTXt", kExif[] = "eXIf";
    constexpr int kAll = -1;  // but what is critical, and tRNS
    png_set_keep_unknown_chunks(png(), PNG_HANDLE_CHUNK_NEVER, nullptr, kAll);
    png_set_keep_unknown_chunks(png(), PNG_HANDLE_CHUNK_AS_DEFAULT, kKept, sizeof kKept / 5);
    // As it stands: libpng itself takes none that begins as a JPEG's does, and of two the first.
    png_set_keep_unknown_chunks(png(), PNG_HANDLE_CHUNK_ALWAYS, kExif, 1);
    png_set_crc_action(png(), PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // What texts may take: each, and how many. Those beyond are left out.
    constexpr png_alloc_size_t kTextBytes = 1 << 20;
    constexpr png_uint_32 kTexts = 64;
    png_set_chunk_malloc_max(png(), kTextBytes);
    png_set_chunk_cache_max(png(), kTexts);
  }

  bool is_palette() const { return color_type_ == PNG_COLOR_TYPE_PALETTE; }
  bool is_rgb() const { return (color_type_ & PNG_COLOR_MASK_COLOR) != 0 && !is_palette(); }
  bool is_wide_grey() const { return color_type_ == PNG_COLOR_TYPE_GRAY && depth_ == 16; }

  void read_samples(Image& image) {
    const int64_t sample_bytes = is_rgb() ? kChannels : is_wide_grey() ? 2 : 1;
    guarded(error_, kWhere, [&] {
      png_set_packing(png());  // a byte for each sample of 1, 2 or 4 bits
      if (!is_wide_grey()) png_set_strip_16(png());
      // Not without one: it takes tRNS for one, and forgets it.
      if ((color_type_ & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png());
      const int passes = png_set_interlace_handling(png());
      png_read_update_info(png(), info());
      if (static_cast<int64_t>(png_get_rowbytes(png(), info())) != image.width * sample_bytes)
        png_error(png(), "rows of another length");
      for (int pass = 0; pass < passes; ++pass)
        for (int64_t y = 0; y < image.height; ++y) png_read_row(png(), image.row(y), nullptr);
      png_read_end(png(), info());
    });
  }

  void to_rgb(Image& image) const {
    if (is_rgb()) return;
    const std::array<Color, 256> colors = colors_of_samples();
    for (int64_t y = 0; y < image.height; ++y) {
      uint8_t* row = image.row(y);
      // From the end, as samples lie before their pixels.
      for (int64_t x = image.width - 1; x >= 0; --x) {
        const uint8_t sample = !is_wide_grey() ? row[x] : row[2 * x] == 0 ? row[2 * x + 1] : 255;
        std::memcpy(row + x * kChannels, colors[sample].data(), kChannels);
      }
    }
  }

  // Black for a sample beyond the palette, as in Pillow.
  std::array<Color, 256> colors_of_samples() const {
    std::array<Color, 256> colors{};
    if (is_palette()) {
      png_colorp palette = nullptr;
      int count = 0;
      png_get_PLTE(png(), info(), &palette, &count);
      for (int i = 0; i < count; ++i)
        colors[i] = {palette[i].red, palette[i].green, palette[i].blue};
    } else {
      const int most = depth_ < 8 ? (1 << depth_) - 1 : 255;
      for (int i = 0; i <= most; ++i) colors[i].fill(static_cast<uint8_t>(i * 255 / most));
    }
    return colors;
  }

  void whiten(Image& image) const {
    const std::optional<Color> transparent = transparent_color();
    if (!transparent) return;
    for (size_t at = 0; at < image.pixels.size(); at += kChannels)
      if (std::equal(transparent->begin(), transparent->end(), image.pixels.begin() + at))
        std::fill_n(image.pixels.begin() + at, kChannels, 255);
  }

  // As Pillow compares it with pixels, whatever the file means: it takes numbers that are not of 8
  // bits for such, and a grey of 1 or 16 bits for a red.
  std::optional<Color> transparent_color() const {
    png_bytep alphas = nullptr;
    png_color_16p color = nullptr;
    int count = 0;
    if (png_get_tRNS(png(), info(), &alphas, &count, &color) == 0) return std::nullopt;
    auto low_byte = [](int sample) { return static_cast<uint8_t>(sample & 255); };
    if (is_palette()) {
      // Only where all other entries are opaque.
      const std::span<const uint8_t> entries(alphas, static_cast<size_t>(count));
      const auto first = std::ranges::find_if(entries, [](uint8_t a) { return a != 255; });
      if (first == entries.end() || *first != 0 ||
          std::ranges::any_of(first + 1, entries.end(), [](uint8_t a) { return a != 255; }))
        return std::nullopt;
      return colors_of_samples()[static_cast<size_t>(first - entries.begin())];
    }
    if (is_rgb()) return Color{low_byte(color->red), low_byte(color->green), low_byte(color->blue)};
    if (depth_ == 1) return Color{static_cast<uint8_t>(color->gray != 0 ? 255 : 0), 0, 0};
    if (depth_ == 16) return Color{low_byte(color->gray), 0, 0};
    const auto grey = static_cast<uint8_t>(std::min<int>(color->gray, 255));
    return Color{grey, grey, grey};
  }

  Bytes rest_;  // of the file
  LibraryError error_;
  Handles handles_;
  int color_type_ = 0, depth_ = 0;
};

}  // namespace

ImageSize png_size(Bytes file) {
  size_t at = kSignatureBytes;
  const Chunk header = next_chunk(file, at);
  constexpr size_t kHeaderBytes = 13;
  if (header.type != "IHDR" || header.data.size() != kHeaderBytes)
    refuse("found " + in_quotes(header.type) + " of " + std::to_string(header.data.size()) +
           " bytes, expected IHDR of " + std::to_string(kHeaderBytes) + " at first");
  return {big_endian(header.data), big_endian(header.data.subspan(4))};
}

DecodedImage decode_png(Bytes file, TransparentColor transparent_color) {
  check_chunks(file);
  PngReader reader(file);
  Image image = reader.image(transparent_color);
  return {std::move(image), reader.orientation()};
}

}  // namespace longshore::data
