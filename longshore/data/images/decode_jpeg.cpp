#include "longshore/data/images/decode_jpeg.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

// Needs <cstdio>.
#include <jpeglib.h>
// Its numbers depend on the version in jpeglib.h.
#include <jerror.h>

#include "longshore/base/error.h"
#include "longshore/data/images/library_errors.h"

namespace longshore::data {
namespace {

constexpr const char* kWhere = "JPEG";

// libjpeg's functions get a pointer to its first member.
struct JpegErrors {
  jpeg_error_mgr manager;
  LibraryError error;
};

LibraryError& error_of(j_common_ptr info) {
  return reinterpret_cast<JpegErrors*>(info->err)->error;
}

[[noreturn]] void fail(j_common_ptr info) {
  static_assert(sizeof(LibraryError::message) >= JMSG_LENGTH_MAX);
  info->err->format_message(info, error_of(info).message);
  error_of(info).is_of_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(error_of(info).jump, 1);
}

// After these libjpeg makes pixels up; its other warnings do not bear on them.
bool is_damage(int warning) {
  return warning == JWRN_HIT_MARKER || warning == JWRN_HUFF_BAD_CODE ||
         warning == JWRN_ARITH_BAD_CODE || warning == JWRN_MUST_RESYNC;
}

void take_message(j_common_ptr info, int level) {
  constexpr int kWarning = -1;
  if (level == kWarning && is_damage(info->err->msg_code)) fail(info);
}

void ignore_message(j_common_ptr) {}

void limit_scans(j_common_ptr info) {
  const int scan = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scan <= kMaxJpegScans) return;
  LibraryError& error = error_of(info);
  std::snprintf(error.message, sizeof error.message, "found scan %d, expected at most %d", scan,
                kMaxJpegScans);
  std::longjmp(error.jump, 1);
}

// The file as libjpeg's source. At its end libjpeg is told to wait for more, upon which its calls
// return: where it invents an end of the picture instead, one cut off looks whole.
void ignore_source(j_decompress_ptr) {}
boolean wait_for_more(j_decompress_ptr) { return FALSE; }
void skip_bytes(j_decompress_ptr info, long count) {
  const size_t skipped =
      std::min(static_cast<size_t>(std::max(count, 0L)), info->src->bytes_in_buffer);
  info->src->next_input_byte += skipped;
  info->src->bytes_in_buffer -= skipped;
}

struct Decompressor : jpeg_decompress_struct {
  Decompressor() : jpeg_decompress_struct{} {}
  ~Decompressor() { jpeg_destroy_decompress(this); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

// R = K - C * K / 255, rounded, of inverted ink, which libjpeg gives as 255 - ink.
uint8_t without_ink(int inverted, int key) {
  const int product = (255 - inverted) * key + 128;
  return static_cast<uint8_t>(key - (((product >> 8) + product) >> 8));
}

void to_rgb(const uint8_t* cmyk, uint8_t* rgb, int64_t width) {
  for (int64_t x = 0; x < width; ++x)
    for (int64_t c = 0; c < kChannels; ++c)
      rgb[x * kChannels + c] = without_ink(cmyk[x * 4 + c], cmyk[x * 4 + 3]);
}

class JpegReader {
 public:
  // Reads up to the first scan.
  explicit JpegReader(std::span<const std::byte> file) : file_bytes_(file.size()) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = fail;
    errors_.manager.emit_message = take_message;
    errors_.manager.output_message = ignore_message;
    int status = JPEG_SUSPENDED;
    guarded(errors_.error, kWhere, [&] {
      jpeg_create_decompress(&info_);
      source_.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
      source_.bytes_in_buffer = file.size();
      source_.init_source = source_.term_source = ignore_source;
      source_.fill_input_buffer = wait_for_more;
      source_.skip_input_data = skip_bytes;
      source_.resync_to_restart = jpeg_resync_to_restart;
      info_.src = &source_;
      progress_.progress_monitor = limit_scans;
      info_.progress = &progress_;
      jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
      do status = jpeg_read_header(&info_, FALSE);
      while (status == JPEG_HEADER_TABLES_ONLY);
    });
    if (status != JPEG_HEADER_OK) refuse_truncated();
    if (const int found = info_.num_components; found != 1 && found != 3 && found != 4)
      throw DataError(std::string(kWhere) + ": found " + std::to_string(found) +
                      " color components, expected 1, 3 or 4");
  }

  ImageSize size() const { return {info_.image_width, info_.image_height}; }

  Orientation orientation() const {
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    std::string exif, xmp;
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view text(reinterpret_cast<const char*>(marker->data), marker->data_length);
      // What is too long for one marker goes on in the next.
      if (text.starts_with(kExif)) exif += exif.empty() ? text : text.substr(kExif.size());
      if (text.starts_with(kXmp)) xmp = text.substr(kXmp.size());
    }
    const auto said = exif_orientation(std::as_bytes(std::span(exif)));
    return said ? *said : xmp_orientation(xmp).value_or(Orientation::upright);
  }

  Image image() {
    Image image = make_image(size());
    const bool is_cmyk = info_.num_components == 4;
    info_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    std::vector<uint8_t> row(is_cmyk ? static_cast<size_t>(image.width) * 4 : 0);
    bool is_whole = false;
    guarded(errors_.error, kWhere, [&] {
      if (!jpeg_start_decompress(&info_)) return;
      for (int64_t y = 0; y < image.height; ++y) {
        JSAMPROW to = is_cmyk ? row.data() : image.row(y);
        if (jpeg_read_scanlines(&info_, &to, 1) != 1) return;
        if (is_cmyk) to_rgb(row.data(), image.row(y), image.width);
      }
      is_whole = true;
    });
    if (!is_whole) refuse_truncated();
    return image;
  }

 private:
  [[noreturn]] void refuse_truncated() const {
    throw DataError(std::string(kWhere) + ": truncated: found the end after " +
                    std::to_string(file_bytes_) + " bytes, within the picture");
  }

  size_t file_bytes_;
  JpegErrors errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  Decompressor info_;  // refers to those above
};

}  // namespace

ImageSize jpeg_size(std::span<const std::byte> file) { return JpegReader(file).size(); }

DecodedImage decode_jpeg(std::span<const std::byte> file) {
  JpegReader reader(file);
  const Orientation orientation = reader.orientation();
  return {reader.image(), orientation};
}

}  // namespace longshore::data
