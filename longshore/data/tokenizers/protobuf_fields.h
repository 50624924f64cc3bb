// The fields of a message in protobuf's wire format, one after the other. Knows no message's
// meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace longshore::data {

struct ProtobufField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of a string or message; the four of a float
};

class ProtobufFields {
 public:
  // `message` must outlive this and the fields.
  explicit ProtobufFields(std::string_view message) : rest_(message), size_(message.size()) {}

  // False at the end. Throws a DataError, with the byte within the message, where it is damaged.
  bool next(ProtobufField& field);

 private:
  [[noreturn]] void fail(const char* what) const;
  uint64_t varint();
  std::string_view take(uint64_t count);

  std::string_view rest_;
  size_t size_;
};

}  // namespace longshore::data
