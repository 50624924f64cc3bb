#include "longshore/data/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/strict_json.h"

namespace longshore::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kMaxMetadataEntries = size_t{1} << 16;
constexpr size_t kLengthBytes = sizeof(uint64_t);

struct DtypeRow {
  const char* name;
  int64_t size_bytes;
};

// By the values of SafetensorsDtype.
constexpr std::array<DtypeRow, 13> kDtypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
}};

std::string dtype_names() {
  std::string names;
  for (const DtypeRow& row : kDtypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::optional<SafetensorsDtype> find_dtype(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i)
    if (name == kDtypes[i].name) return static_cast<SafetensorsDtype>(i);
  return std::nullopt;
}

struct Entry {
  SafetensorsInfo info;
  uint64_t begin = 0;  // of the data, from its start
  uint64_t end = 0;
};

class HeaderReader : public StrictJson {
 public:
  explicit HeaderReader(uint64_t data_bytes) : data_bytes_(data_bytes) {}

  std::vector<Entry> take() { return std::move(entries_); }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::names;
        return true;
      case Place::entry:
        place_ = is_metadata_ ? Place::metadata : Place::fields;
        return true;
      default:
        refuse("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::names) {
      place_ = Place::end;
      return true;
    }
    if (place_ == Place::fields) finish_entry();
    place_ = Place::names;
    return true;
  }

  bool key(string_t& key) override {
    switch (place_) {
      case Place::names:
        begin_entry(key);
        return true;
      case Place::metadata:
        add_metadata(std::move(key));
        return true;
      default:
        begin_field(key);
        return true;
    }
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::dtype) refuse("the string " + in_quotes(value));
    const std::optional<SafetensorsDtype> dtype = find_dtype(value);
    if (!dtype) refuse(in_quotes(value));
    entry_.info.dtype = *dtype;
    place_ = Place::fields;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::shape)
      place_ = Place::sizes;
    else if (place_ == Place::offsets)
      place_ = Place::offset_values;
    else
      refuse("an array");
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offset_values && offset_count_ != 2) refuse("one or none");
    place_ = Place::fields;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::sizes) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) refuse(std::to_string(value));
      if (entry_.info.shape.size() == kMaxSafetensorsRank) refuse("more of them");
      entry_.info.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ != Place::offset_values) refuse(std::to_string(value));
    if (offset_count_ == 2) refuse("more of them");
    (offset_count_++ == 0 ? entry_.begin : entry_.end) = value;
    return true;
  }

 private:
  // Where in the document the next event belongs.
  enum class Place {
    start,
    names,
    entry,  // the value of a name
    metadata,
    fields,  // of a tensor
    dtype,
    shape,
    sizes,
    offsets,
    offset_values,
    end
  };

  std::string here() const { return "tensor " + in_quotes(entry_.info.name) + ": "; }

  std::string expectation() const override {
    switch (place_) {
      case Place::start:
      case Place::names:
      case Place::end:
        return "expected an object of tensors";
      case Place::entry:
        return here() + "expected an object";
      case Place::metadata:
        return "__metadata__: expected strings alone";
      case Place::fields:
        return here() + "expected dtype, shape and data_offsets, once each";
      case Place::dtype:
        return here() + "dtype: expected one of " + dtype_names();
      case Place::shape:
      case Place::sizes:
        return here() + "shape: expected a list of at most " + std::to_string(kMaxSafetensorsRank) +
               " sizes below 2^63";
      case Place::offsets:
      case Place::offset_values:
        return here() + "data_offsets: expected two offsets";
    }
    return "";
  }

  void begin_entry(std::string& name) {
    is_metadata_ = name == "__metadata__";
    if (is_metadata_ && std::exchange(metadata_seen_, true))
      throw DataError("__metadata__: found twice, expected once");
    if (entries_.size() == kMaxSafetensorsTensors)
      throw DataError("expected at most " + std::to_string(kMaxSafetensorsTensors) +
                      " tensors, found more");
    entry_ = {};
    entry_.info.name = std::move(name);
    dtype_seen_ = shape_seen_ = offsets_seen_ = false;
    offset_count_ = 0;
    place_ = Place::entry;
  }

  void add_metadata(std::string key) {
    if (metadata_keys_.size() == kMaxMetadataEntries)
      throw DataError("__metadata__: expected at most " + std::to_string(kMaxMetadataEntries) +
                      " entries, found more");
    const auto [at, is_new] = metadata_keys_.insert(std::move(key));
    if (!is_new)
      throw DataError("__metadata__: " + in_quotes(*at) + ": found twice, expected once");
  }

  void begin_field(const std::string& field) {
    auto begin = [&](bool& seen, Place place) {
      if (std::exchange(seen, true)) refuse(field + " twice");
      place_ = place;
    };
    if (field == "dtype")
      begin(dtype_seen_, Place::dtype);
    else if (field == "shape")
      begin(shape_seen_, Place::shape);
    else if (field == "data_offsets")
      begin(offsets_seen_, Place::offsets);
    else
      refuse(in_quotes(field));
  }

  void finish_entry() {
    if (!dtype_seen_) refuse("no dtype");
    if (!shape_seen_) refuse("no shape");
    if (!offsets_seen_) refuse("no data_offsets");
    const std::string offsets =
        "data_offsets [" + std::to_string(entry_.begin) + "," + std::to_string(entry_.end) + "]";
    if (entry_.begin > entry_.end) throw DataError(here() + offsets + ", expected them ascending");
    if (entry_.end > data_bytes_)
      throw DataError(here() + offsets + ", but the file ends after " +
                      std::to_string(data_bytes_) + " bytes of data: truncated or corrupt");
    const int64_t bytes = entry_.info.bytes();
    const uint64_t extent = entry_.end - entry_.begin;
    if (static_cast<uint64_t>(bytes) != extent)
      throw DataError(here() + name(entry_.info.dtype) + shape_text(entry_.info.shape) + " takes " +
                      std::to_string(bytes) + " bytes, data_offsets give " +
                      std::to_string(extent));
    entries_.push_back(std::move(entry_));
  }

  uint64_t data_bytes_;
  Place place_ = Place::start;
  bool is_metadata_ = false;
  bool metadata_seen_ = false;
  std::set<std::string> metadata_keys_;
  Entry entry_;
  bool dtype_seen_ = false, shape_seen_ = false, offsets_seen_ = false;
  int offset_count_ = 0;
  std::vector<Entry> entries_;
};

// The length of the header, for a file that can hold it.
size_t header_bytes(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    throw DataError("no safetensors file, or truncated: found " + std::to_string(file.size()) +
                    " bytes, expected at least " + std::to_string(kLengthBytes));
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxSafetensorsHeaderBytes)
    throw DataError("no safetensors file: a header of " + std::to_string(length) +
                    " bytes, expected at most " + std::to_string(kMaxSafetensorsHeaderBytes));
  if (length > file.size() - kLengthBytes)
    throw DataError("truncated: a header of " + std::to_string(length) + " bytes in a file of " +
                    std::to_string(file.size()));
  return length;
}

void require_no_gaps(std::span<const Entry> entries, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      throw DataError("tensor " + in_quotes(entry.info.name) + ": data begins at " +
                      std::to_string(entry.begin) + ", expected " + std::to_string(end) +
                      ", where that of the one before ends");
    end = entry.end;
  }
  if (end != data_bytes)
    throw DataError("truncated or corrupt: the tensors have " + std::to_string(end) +
                    " bytes of data, the file " + std::to_string(data_bytes));
}

// Indices of the tensors in the order of their names, which differ.
std::vector<uint32_t> sorted_by_name(std::span<const SafetensorsTensor> tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

void require_different_names(std::span<const SafetensorsTensor> tensors) {
  const std::vector<uint32_t> order = sorted_by_name(tensors);
  for (size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i - 1]].name == tensors[order[i]].name)
      throw DataError("tensor " + in_quotes(tensors[order[i]].name) +
                      ": found twice, expected once");
}

std::vector<SafetensorsTensor> parse_named(std::span<const std::byte> file,
                                           const std::filesystem::path& path) {
  try {
    return parse_safetensors(file);
  } catch (const DataError& error) {
    throw DataError(path_text(path) + ": " + error.what());
  }
}

}  // namespace

int64_t size_bytes(SafetensorsDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)].size_bytes;
}

const char* name(SafetensorsDtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

bool is_floating_point(SafetensorsDtype dtype) {
  return dtype == SafetensorsDtype::float16 || dtype == SafetensorsDtype::bfloat16 ||
         dtype == SafetensorsDtype::float32 || dtype == SafetensorsDtype::float64;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string list;
  for (int64_t size : shape) list += (list.empty() ? "" : ",") + std::to_string(size);
  return "[" + list + "]";
}

int64_t SafetensorsInfo::element_count() const {
  int64_t count = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw DataError("tensor " + in_quotes(name) + ": shape " + shape_text(shape) +
                      " has more than 2^63 - 1 elements");
  return count;
}

int64_t SafetensorsInfo::bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(), size_bytes(dtype), &bytes))
    throw DataError("tensor " + in_quotes(name) + ": " + data::name(dtype) + shape_text(shape) +
                    " takes more than 2^63 - 1 bytes");
  return bytes;
}

std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> file) {
  const size_t length = header_bytes(file);
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + length);
  if (!header.starts_with('{'))
    throw DataError("no safetensors file: a header that begins with " +
                    in_quotes(header.substr(0, 1)) + ", expected \"{\"");
  HeaderReader reader(data.size());
  reader.read(header);
  std::vector<Entry> entries = reader.take();
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  require_no_gaps(entries, data.size());

  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries)
    tensors.push_back({std::move(entry.info), data.subspan(entry.begin, entry.end - entry.begin)});
  require_different_names(tensors);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path),
      mapping_(path, Access::from_front_to_back),
      tensors_(parse_named(mapping_.bytes(), path)),
      by_name_(sorted_by_name(tensors_)) {}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view word) { return tensors_[i].name < word; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

const SafetensorsTensor& SafetensorsFile::at(std::string_view name) const {
  if (const SafetensorsTensor* tensor = find(name)) return *tensor;
  throw DataError(path_text(path_) + ": no tensor " + in_quotes(name));
}

}  // namespace longshore::data
