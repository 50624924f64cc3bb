#include "longshore/data/files/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/text_format.h"

namespace longshore::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPackedBytes = size_t{256} << 10;  // that are read at a time

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const fs::path& path) : path_(path) {
    std::error_code error;
    if (fs::is_directory(path, error))
      throw DataError(path_text(path) + ": expected a text file, found a folder");
    // A named pipe would hang, and what it gives could be read only once.
    if (fs::exists(path, error) && !fs::is_regular_file(path, error))
      throw DataError(path_text(path) + ": expected a text file, found no regular file");
    errno = 0;
    file_.open(path, std::ios::binary);
    if (!file_) throw DataError(path_text(path) + ": cannot open: " + std::strerror(errno));
  }

  size_t read(std::span<char> to) override {
    file_.read(to.data(), static_cast<std::streamsize>(to.size()));
    if (file_.bad()) throw DataError(path_text(path_) + ": cannot read: " + std::strerror(errno));
    return static_cast<size_t>(file_.gcount());
  }

 private:
  fs::path path_;
  std::ifstream file_;
};

// What gzip and zstd have in common: a file is one packed part after another.
class PackedSource : public ByteSource {
 public:
  size_t read(std::span<char> to) override {
    size_t filled = 0;
    while (filled < to.size()) {
      if (packed_.empty() && !(is_within_part_ && may_have_more_)) {
        packed_ = std::span(buffer_).first(file_.read(buffer_));
        if (packed_.empty() && is_within_part_) fail("ends in the middle of what is packed");
        if (packed_.empty()) break;
      }
      const auto [taken, given] = unpack(packed_, to.subspan(filled));
      packed_ = packed_.subspan(taken);
      filled += given;
      may_have_more_ = given > 0;
    }
    return filled;
  }

 protected:
  explicit PackedSource(const fs::path& path) : path_(path), file_(path), buffer_(kPackedBytes) {}

  struct Progress {
    size_t taken, given;
  };
  // Unpacks as far as there is room, and notes whether a part is still open.
  virtual Progress unpack(std::span<char> packed, std::span<char> to) = 0;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(path_text(path_) + ": " + what);
  }

  bool is_within_part_ = false;

 private:
  fs::path path_;
  PlainSource file_;
  std::vector<char> buffer_;
  std::span<char> packed_;      // the part of buffer_ that is still to be unpacked
  bool may_have_more_ = false;  // of what it has taken
};

class GzipSource final : public PackedSource {
 public:
  explicit GzipSource(const fs::path& path) : PackedSource(path) {
    constexpr int kGzip = 16;  // beside the size of the window
    if (inflateInit2(&stream_, kGzip + MAX_WBITS) != Z_OK)
      throw Error("zlib: cannot begin to unpack");
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

 private:
  Progress unpack(std::span<char> packed, std::span<char> to) override {
    if (!is_within_part_) inflateReset(&stream_);
    is_within_part_ = true;
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min(to.size(), kMostAtOnce));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fail(std::string("is damaged, or not gzip's: ") +
           (stream_.msg == nullptr ? "it cannot be unpacked" : stream_.msg));
    if (result == Z_STREAM_END) is_within_part_ = false;
    return {packed.size() - stream_.avail_in, room - stream_.avail_out};
  }

  static constexpr size_t kMostAtOnce = size_t{1} << 30;  // which zlib can count
  z_stream stream_ = {};
};

class ZstdSource final : public PackedSource {
 public:
  explicit ZstdSource(const fs::path& path) : PackedSource(path), stream_(ZSTD_createDCtx()) {
    if (stream_ == nullptr) throw Error("zstd: cannot begin to unpack");
  }
  ~ZstdSource() override { ZSTD_freeDCtx(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

 private:
  Progress unpack(std::span<char> packed, std::span<char> to) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const size_t left = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(left))
      fail(std::string("is damaged, or not zstd's: ") + ZSTD_getErrorName(left));
    is_within_part_ = left > 0;
    return {in.pos, out.pos};
  }

  ZSTD_DCtx* stream_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::open(const fs::path& path) {
  switch (compression_of(path)) {
    case Compression::none:
      return std::make_unique<PlainSource>(path);
    case Compression::gzip:
      return std::make_unique<GzipSource>(path);
    case Compression::zstd:
      return std::make_unique<ZstdSource>(path);
  }
  throw InternalError("no such compression");
}

}  // namespace longshore::data
