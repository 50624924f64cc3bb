// Records of TensorBoard's event files. A file begins with version_record(); others follow in any
// number. A record is a message Event of TensorFlow's event.proto between its length and checksums.
//
// Times are seconds since the epoch. Tags are valid UTF-8; in texts what is not becomes U+FFFD.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

// "brain.Event:2"
std::string version_record(double time);

// A process begins, or goes on, at this step: what was recorded of it and later steps before is
// undone.
std::string start_record(double time, int64_t step);

struct Scalar {
  std::string tag;
  double value = 0;  // shown as float32
};
std::string scalars_record(double time, int64_t step, std::span<const Scalar> scalars);

// TensorBoard shows cells as Markdown; see verbatim(). The shape is {} of one cell, or {rows,
// columns}.
struct TextTable {
  std::vector<int64_t> shape;
  std::vector<std::string> cells;
};
std::string text_record(double time, int64_t step, const std::string& tag, const TextTable& texts);

// Markdown that shows a text as it is: a block of code.
std::string verbatim(std::string_view text);

}  // namespace longshore::data
