#include "longshore/data/safetensors/quant_state.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/strict_json.h"

namespace longshore::data {
namespace {

enum Key { kQuantType, kBlocksize, kDtype, kShape, kNestedBlocksize, kNestedDtype, kNestedOffset };

struct KeyRow {
  const char *name, *expected;
};

// By the values of Key.
constexpr std::array<KeyRow, 7> kKeys = {{
    {"quant_type", "\"nf4\" or \"fp4\""},
    {"blocksize", "a power of two from 32 to 4096"},
    {"dtype", "\"bfloat16\", \"float16\" or \"float32\""},
    {"shape", "a list of two sizes from 1 to 2^63 - 1"},
    {"nested_blocksize", "256"},
    {"nested_dtype", "\"float32\""},
    {"nested_offset", "a number of float32"},
}};

class QuantStateReader : public StrictJson {
 public:
  QuantState take() {
    const bool is_nested = seen_[kNestedBlocksize] || seen_[kNestedDtype] || seen_[kNestedOffset];
    for (size_t key = 0; key < (is_nested ? kKeys.size() : size_t{kNestedBlocksize}); ++key)
      if (!seen_[key])
        throw DataError(std::string("found no ") + kKeys[key].name + ", expected one");
    return state_;
  }

  bool start_object(size_t) override {
    if (place_ != Place::start) refuse("an object");
    place_ = Place::keys;
    return true;
  }

  bool end_object() override {
    place_ = Place::end;
    return true;
  }

  bool key(string_t& key) override {
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (key != kKeys[i].name) continue;
      if (std::exchange(seen_[i], true)) refuse(key + " twice");
      key_ = static_cast<Key>(i);
      place_ = Place::value;
      return true;
    }
    refuse(in_quotes(key));
  }

  bool string(string_t& value) override {
    const bool is_here = place_ == Place::value;
    if (is_here && key_ == kQuantType && value == "nf4")
      state_.format = QuantizedFormat::nf4;
    else if (is_here && key_ == kQuantType && value == "fp4")
      state_.format = QuantizedFormat::fp4;
    else if (is_here && key_ == kDtype && value == "bfloat16")
      state_.rounded_to = RoundedTo::bfloat16;
    else if (is_here && key_ == kDtype && value == "float16")
      state_.rounded_to = RoundedTo::float16;
    else if (is_here && key_ == kDtype && value == "float32")
      state_.rounded_to = RoundedTo::float32;
    else if (!is_here || key_ != kNestedDtype || value != "float32")
      refuse(in_quotes(value));
    place_ = Place::keys;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::value || key_ != kShape) refuse("a list");
    place_ = Place::sizes;
    return true;
  }

  bool end_array() override {
    if (sizes_ == 0) refuse("[]");
    if (sizes_ == 1) refuse("[" + std::to_string(state_.rows) + "]");
    place_ = Place::keys;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::sizes) {
      if (sizes_ == 2) refuse("a third, " + std::to_string(value));
      if (value < 1 || value > uint64_t{std::numeric_limits<int64_t>::max()})
        refuse(std::to_string(value));
      (sizes_++ == 0 ? state_.rows : state_.columns) = static_cast<int64_t>(value);
      return true;
    }
    if (place_ == Place::value && key_ == kNestedOffset)
      return offset(static_cast<double>(value), std::to_string(value));
    if (place_ == Place::value && key_ == kBlocksize && std::has_single_bit(value) && value >= 32 &&
        value <= 4096)
      state_.block = static_cast<int64_t>(value);
    else if (place_ != Place::value || key_ != kNestedBlocksize || value != kNestedBlock)
      refuse(std::to_string(value));
    place_ = Place::keys;
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return offset(static_cast<double>(value), std::to_string(value));
  }

  bool number_float(number_float_t value, const string_t& text) override {
    return offset(value, excerpt(text));
  }

 private:
  // Where in the document the next event belongs.
  enum class Place { start, keys, value, sizes, end };

  std::string expectation() const override {
    if (place_ == Place::value || place_ == Place::sizes)
      return std::string(kKeys[key_].name) + ": expected " + kKeys[key_].expected;
    if (place_ != Place::keys) return "expected an object";
    std::string names;
    for (const KeyRow& row : kKeys) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return "expected " + names + ", once each";
  }

  bool offset(double value, const std::string& text) {
    if (place_ != Place::value || key_ != kNestedOffset ||
        std::fabs(value) > std::numeric_limits<float>::max())
      refuse(text);
    state_.nested_mean = static_cast<float>(value);
    place_ = Place::keys;
    return true;
  }

  Place place_ = Place::start;
  Key key_ = kQuantType;
  std::array<bool, kKeys.size()> seen_{};
  int sizes_ = 0;
  QuantState state_;
};

}  // namespace

QuantState parse_quant_state(std::string_view text) {
  if (text.size() > kMaxQuantStateBytes)
    throw DataError("found " + std::to_string(text.size()) + " bytes, expected at most " +
                    std::to_string(kMaxQuantStateBytes));
  QuantStateReader reader;
  reader.read(text);
  return reader.take();
}

}  // namespace longshore::data
