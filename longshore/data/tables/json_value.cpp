#include "longshore/data/tables/json_value.h"

#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/util/base64.h>
#include <arrow/util/float16.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tables/iso_time.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {
namespace {

using arrow::Type;

[[noreturn]] void refuse(const std::string& what) { throw DataError(what); }

void expect_room(const std::string& json, size_t more = 0) {
  if (json.size() + more > kMaxTextBytes)
    refuse("found a row of more than " + std::to_string(kMaxTextBytes) +
           " bytes as JSON, which is never skipped");
}

template <typename Number>
void append_number(Number number, std::string& json) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  json.append(text.data(), end);
}

template <typename Number>
void append_float(Number number, std::string& json) {
  if (!std::isfinite(number)) {
    json += "null";
    return;
  }
  const size_t begin = json.size();
  append_number(number, json);
  // As Python writes it, so that templates see the same.
  if (json.find_first_of(".e", begin) == json.npos) json += ".0";
}

void append_time(const std::optional<std::string>& text, const arrow::DataType& type,
                 std::string& json, const char* zone = "") {
  if (!text) refuse("found a value of type " + excerpt(type.ToString()) + " beyond the year 9999");
  json += '"' + *text + zone + '"';
}

// As Arrow writes it, which refuses some that only damaged files have with a remark in brackets.
void append_decimal(const std::string& number, const arrow::DataType& type, std::string& json) {
  if (number.starts_with('<'))
    refuse("found a value of type " + excerpt(type.ToString()) + " that cannot be written");
  json += number;
}

int64_t ticks_per_second(arrow::TimeUnit::type unit) {
  int64_t ticks = 1;
  for (int i = arrow::TimeUnit::SECOND; i < unit; ++i) ticks *= 1000;
  return ticks;
}

// "png", "jpeg", or "".
const char* image_kind(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "png";
  return bytes.starts_with("\xff\xd8\xff") ? "jpeg" : "";
}

void append_image(std::string_view bytes, std::string& json) {
  expect_room(json, bytes.size() / 3 * 4);
  json += "\"data:image/" + std::string(image_kind(bytes)) + ";base64,";
  json += arrow::util::base64_encode(bytes) + '"';
}

void append_binary(std::string_view bytes, std::string& json) {
  if (*image_kind(bytes)) return append_image(bytes, json);
  if (valid_utf8_prefix(bytes) != bytes.size())
    refuse("found binary data that is no text, and neither a PNG nor a JPEG file");
  append_json_string(bytes, json);
}

template <typename List>
void append_list(const List& list, int64_t i, std::string& json) {
  const int64_t begin = list.value_offset(i), end = begin + list.value_length(i);
  json += '[';
  for (int64_t at = begin; at < end; ++at) {
    if (at > begin) json += ',';
    append_json(*list.values(), at, json);
  }
  json += ']';
}

bool is_text(const arrow::DataType& type) {
  return type.id() == Type::STRING || type.id() == Type::LARGE_STRING ||
         type.id() == Type::STRING_VIEW;
}

void append_map(const arrow::MapArray& map, int64_t i, std::string& json) {
  const bool is_object = is_text(*map.keys()->type());
  const int64_t begin = map.value_offset(i), end = begin + map.value_length(i);
  json += is_object ? '{' : '[';
  for (int64_t at = begin; at < end; ++at) {
    if (at > begin) json += ',';
    if (!is_object) json += "{\"key\":";
    append_json(*map.keys(), at, json);
    json += is_object ? ":" : ",\"value\":";
    append_json(*map.items(), at, json);
    if (!is_object) json += '}';
  }
  json += is_object ? '}' : ']';
}

std::string_view binary_at(const arrow::Array& array, int64_t i) {
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(array).GetView(i);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(array).GetView(i);
    case Type::FIXED_SIZE_BINARY:
      return static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(i);
    default:
      throw InternalError("no bytes in " + array.type()->ToString());
  }
}

bool is_image(const arrow::StructType& type) {
  if (type.num_fields() != 2) return false;
  const auto bytes = type.GetFieldByName("bytes"), path = type.GetFieldByName("path");
  if (!bytes || !path) return false;
  const Type::type held = bytes->type()->id();
  return held == Type::BINARY || held == Type::LARGE_BINARY || held == Type::BINARY_VIEW;
}

void append_struct(const arrow::StructArray& object, int64_t i, std::string& json) {
  const arrow::StructType& type = *object.struct_type();
  if (is_image(type)) {
    const auto bytes = object.GetFieldByName("bytes");
    if (bytes->IsNull(i)) return append_json(*object.GetFieldByName("path"), i, json);
    const std::string_view image = binary_at(*bytes, i);
    if (!*image_kind(image)) refuse("found bytes that are neither a PNG nor a JPEG file");
    return append_image(image, json);
  }
  json += '{';
  for (int field = 0; field < type.num_fields(); ++field) {
    if (field > 0) json += ',';
    append_json_string(type.field(field)->name(), json);
    json += ':';
    append_json(*object.field(field), i, json);
  }
  json += '}';
}

}  // namespace

void append_json_string(std::string_view text, std::string& json) {
  expect_room(json, text.size());
  if (const size_t valid = valid_utf8_prefix(text); valid != text.size())
    refuse("found text that is not UTF-8 from byte " + std::to_string(valid + 1) + " on");
  json += '"';
  size_t written = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    json += text.substr(written, at - written);
    written = at + 1;
    json += '\\';
    constexpr const char* kHex = "0123456789abcdef";
    if (c == '\n')
      json += 'n';
    else if (c == '\t')
      json += 't';
    else if (c < 0x20)
      (json += "u00") += {kHex[c >> 4], kHex[c & 15]};
    else
      json += text[at];
  }
  json += text.substr(written);
  json += '"';
}

void append_json(const arrow::Array& array, int64_t i, std::string& json) {
  expect_room(json);
  if (array.IsNull(i)) {
    json += "null";
    return;
  }
  const arrow::DataType& type = *array.type();
  switch (type.id()) {
    case Type::NA:
      json += "null";
      return;
    case Type::BOOL:
      json += static_cast<const arrow::BooleanArray&>(array).Value(i) ? "true" : "false";
      return;
    case Type::INT8:
      return append_number(int{static_cast<const arrow::Int8Array&>(array).Value(i)}, json);
    case Type::UINT8:
      return append_number(int{static_cast<const arrow::UInt8Array&>(array).Value(i)}, json);
    case Type::INT16:
      return append_number(static_cast<const arrow::Int16Array&>(array).Value(i), json);
    case Type::UINT16:
      return append_number(static_cast<const arrow::UInt16Array&>(array).Value(i), json);
    case Type::INT32:
      return append_number(static_cast<const arrow::Int32Array&>(array).Value(i), json);
    case Type::UINT32:
      return append_number(static_cast<const arrow::UInt32Array&>(array).Value(i), json);
    case Type::INT64:
      return append_number(static_cast<const arrow::Int64Array&>(array).Value(i), json);
    case Type::UINT64:
      return append_number(static_cast<const arrow::UInt64Array&>(array).Value(i), json);
    case Type::HALF_FLOAT:
      return append_float(
          arrow::util::Float16::FromBits(static_cast<const arrow::HalfFloatArray&>(array).Value(i))
              .ToFloat(),
          json);
    case Type::FLOAT:
      return append_float(static_cast<const arrow::FloatArray&>(array).Value(i), json);
    case Type::DOUBLE:
      return append_float(static_cast<const arrow::DoubleArray&>(array).Value(i), json);
    case Type::DECIMAL128:
      return append_decimal(static_cast<const arrow::Decimal128Array&>(array).FormatValue(i), type,
                            json);
    case Type::DECIMAL256:
      return append_decimal(static_cast<const arrow::Decimal256Array&>(array).FormatValue(i), type,
                            json);
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
      return append_json_string(binary_at(array, i), json);
    case Type::BINARY:
    case Type::LARGE_BINARY:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
      return append_binary(binary_at(array, i), json);
    case Type::DATE32:
      return append_time(iso_date(static_cast<const arrow::Date32Array&>(array).Value(i)), type,
                         json);
    case Type::DATE64:
      return append_time(
          iso_date_and_time(static_cast<const arrow::Date64Array&>(array).Value(i), 1000), type,
          json);
    case Type::TIME32:
      return append_time(
          iso_time(static_cast<const arrow::Time32Array&>(array).Value(i),
                   ticks_per_second(static_cast<const arrow::Time32Type&>(type).unit())),
          type, json);
    case Type::TIME64:
      return append_time(
          iso_time(static_cast<const arrow::Time64Array&>(array).Value(i),
                   ticks_per_second(static_cast<const arrow::Time64Type&>(type).unit())),
          type, json);
    case Type::TIMESTAMP: {
      const auto& timestamp = static_cast<const arrow::TimestampType&>(type);
      return append_time(
          iso_date_and_time(static_cast<const arrow::TimestampArray&>(array).Value(i),
                            ticks_per_second(timestamp.unit())),
          type, json, timestamp.timezone().empty() ? "" : "Z");
    }
    case Type::LIST:
      return append_list(static_cast<const arrow::ListArray&>(array), i, json);
    case Type::LARGE_LIST:
      return append_list(static_cast<const arrow::LargeListArray&>(array), i, json);
    case Type::FIXED_SIZE_LIST:
      return append_list(static_cast<const arrow::FixedSizeListArray&>(array), i, json);
    case Type::LIST_VIEW:
      return append_list(static_cast<const arrow::ListViewArray&>(array), i, json);
    case Type::LARGE_LIST_VIEW:
      return append_list(static_cast<const arrow::LargeListViewArray&>(array), i, json);
    case Type::MAP:
      return append_map(static_cast<const arrow::MapArray&>(array), i, json);
    case Type::STRUCT:
      return append_struct(static_cast<const arrow::StructArray&>(array), i, json);
    case Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return append_json(*dictionary.dictionary(), dictionary.GetValueIndex(i), json);
    }
    case Type::EXTENSION:
      return append_json(*static_cast<const arrow::ExtensionArray&>(array).storage(), i, json);
    default:
      refuse("found the type " + excerpt(type.ToString()) +
             ", which cannot be read; nearest: one of text, numbers, lists or structs");
  }
}

}  // namespace longshore::data
