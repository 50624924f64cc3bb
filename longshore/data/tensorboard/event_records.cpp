#include "longshore/data/tensorboard/event_records.h"

#include <bit>
#include <type_traits>

#include "longshore/base/utf8.h"
#include "longshore/data/tensorboard/crc32c.h"

namespace longshore::data {
namespace {

template <class T>
void append_little_endian(std::string& bytes, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> 8 * i);
}

// A message in Protocol Buffers' wire format, field by field. Fields are numbered as in
// TensorFlow's event.proto, summary.proto, tensor.proto and tensor_shape.proto.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    append_key(field, kVarint);
    append_varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) {
    append_key(field, k64Bits);
    append_little_endian(bytes_, std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, float value) {
    append_key(field, k32Bits);
    append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view value) {
    append_key(field, kBytes);
    append_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  enum Wire { kVarint = 0, k64Bits = 1, kBytes = 2, k32Bits = 5 };

  void append_key(int field, Wire wire) { append_varint(static_cast<uint64_t>(field << 3 | wire)); }
  void append_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// As records have it: checksums of data that holds checksums would not be good ones.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8; }

std::string record(const Message& event) {
  std::string record;
  append_little_endian(record, uint64_t{event.bytes().size()});
  append_little_endian(record, masked_crc(record));
  record += event.bytes();
  append_little_endian(record, masked_crc(event.bytes()));
  return record;
}

// Event
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kStatus = 1, kStart = 1;  // SessionLog
constexpr int kValue = 1;               // Summary
// Summary.Value
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
// SummaryMetadata, PluginData
constexpr int kPluginData = 1, kPluginName = 1, kDataClass = 4, kTensorClass = 2;
// TensorProto, TensorShapeProto, Dim
constexpr int kDtype = 1, kString = 7, kShape = 2, kStringValue = 8, kDim = 2, kSize = 1;

Message event(double time, int64_t step) {
  return Message().number(kWallTime, time).integer(kStep, step);
}

}  // namespace

std::string version_record(double time) {
  return record(Message().number(kWallTime, time).text(kFileVersion, "brain.Event:2"));
}

std::string start_record(double time, int64_t step) {
  return record(event(time, step).message(kSessionLog, Message().integer(kStatus, kStart)));
}

std::string scalars_record(double time, int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars)
    summary.message(
        kValue,
        Message().text(kTag, scalar.tag).number(kSimpleValue, static_cast<float>(scalar.value)));
  return record(event(time, step).message(kSummary, summary));
}

std::string text_record(double time, int64_t step, const std::string& tag, const TextTable& texts) {
  Message shape;
  for (int64_t size : texts.shape) shape.message(kDim, Message().integer(kSize, size));
  Message tensor = Message().integer(kDtype, kString).message(kShape, shape);
  for (const std::string& cell : texts.cells) tensor.text(kStringValue, replace_invalid_utf8(cell));
  const Message metadata = Message()
                               .message(kPluginData, Message().text(kPluginName, "text"))
                               .integer(kDataClass, kTensorClass);
  const Message value =
      Message().text(kTag, tag).message(kTensor, tensor).message(kMetadata, metadata);
  return record(event(time, step).message(kSummary, Message().message(kValue, value)));
}

std::string verbatim(std::string_view text) {
  constexpr std::string_view kIndent = "    ";
  std::string block(kIndent);
  for (char character : text) {
    block += character;
    if (character == '\n') block += kIndent;
  }
  return block;
}

}  // namespace longshore::data
