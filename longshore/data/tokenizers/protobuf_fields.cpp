#include "longshore/data/tokenizers/protobuf_fields.h"

#include <string>

#include "longshore/base/error.h"

namespace longshore::data {

bool ProtobufFields::next(ProtobufField& field) {
  if (rest_.empty()) return false;
  const uint64_t tag = varint();
  field = ProtobufField{};
  field.number = tag >> 3;
  switch (tag & 7) {
    case 0:
      field.value = varint();
      break;
    case 1:
      take(8);
      break;
    case 2:
      field.bytes = take(varint());
      break;
    case 5:
      field.bytes = take(4);
      break;
    default:
      fail("unknown wire type");
  }
  return true;
}

void ProtobufFields::fail(const char* what) const {
  throw DataError(std::string(what) + " at byte " + std::to_string(size_ - rest_.size()) + " of " +
                  std::to_string(size_));
}

uint64_t ProtobufFields::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail("number cut off");
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("number of more than 64 bits");
}

std::string_view ProtobufFields::take(uint64_t count) {
  if (count > rest_.size()) fail("field cut off");
  const std::string_view bytes = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return bytes;
}

}  // namespace longshore::data
