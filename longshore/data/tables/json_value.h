// append_json() writes a value of a column as JSON.
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace longshore::data {

// Appends the value to `json`. The array is one that Arrow has validated in full.
//   binary            the text that it is, in UTF-8, or of a PNG or JPEG file
//                     "data:image/png;base64,..."
//   {bytes, path}     datasets' images: of the bytes as above, or else the path
//   dates and times   ISO 8601: "2026-11-30T13:04:05.250Z", with the Z if they have a time zone
//   map               an object, or without text for keys a list of {"key": ..., "value": ...}
//   NaN, infinities   null
// Throws a DataError, without a place, on what has no form here, or makes `json` longer than
// kMaxTextBytes.
void append_json(const arrow::Array& array, int64_t i, std::string& json);

// A string of JSON. Throws a DataError where the text is not UTF-8.
void append_json_string(std::string_view text, std::string& json);

}  // namespace longshore::data
