// Event files read back, byte by byte, as far as event_records.h writes them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/tensorboard/crc32c.h"

namespace longshore::data {

// The fields of a message: numbers as their bits, all else as bytes.
struct WireField {
  int number = 0;
  uint64_t bits = 0;
  std::string_view bytes{};
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  std::vector<WireField> fields() {
    std::vector<WireField> fields;
    while (!bytes_.empty()) {
      const uint64_t key = varint();
      WireField field{.number = static_cast<int>(key >> 3)};
      switch (key & 7) {
        case 0:
          field.bits = varint();
          break;
        case 1:
          field.bits = fixed(8);
          break;
        case 2:
          field.bytes = take(varint());
          break;
        case 5:
          field.bits = fixed(4);
          break;
        default:
          throw std::runtime_error("unknown wire type");
      }
      fields.push_back(field);
    }
    return fields;
  }

  std::string_view take(uint64_t size) {
    if (size > bytes_.size()) throw std::runtime_error("cut off");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  uint64_t fixed(size_t size) {
    uint64_t value = 0;
    const std::string_view bytes = take(size);
    std::memcpy(&value, bytes.data(), size);
    return value;
  }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  std::string_view bytes_;
};

struct ReadEvent {
  double time = 0;
  int64_t step = 0;
  std::string version;
  bool starts = false;
  std::map<std::string, float> scalars;
  std::map<std::string, std::vector<std::string>> texts;
  std::vector<int64_t> shape;  // of the texts
};

inline ReadEvent read_event(std::string_view message) {
  ReadEvent event;
  auto fields = [](std::string_view bytes) { return WireReader(bytes).fields(); };
  for (const WireField& field : fields(message)) {
    if (field.number == 1) event.time = std::bit_cast<double>(field.bits);
    if (field.number == 2) event.step = static_cast<int64_t>(field.bits);
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 7) event.starts = fields(field.bytes).at(0).bits == 1;
    if (field.number != 5) continue;
    for (const WireField& value : fields(field.bytes)) {
      std::string tag;
      for (const WireField& part : fields(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2)
          event.scalars[tag] = std::bit_cast<float>(static_cast<uint32_t>(part.bits));
        if (part.number != 8) continue;
        for (const WireField& of_tensor : fields(part.bytes)) {
          if (of_tensor.number == 8) event.texts[tag].emplace_back(of_tensor.bytes);
          if (of_tensor.number != 2) continue;
          for (const WireField& dim : fields(of_tensor.bytes))
            event.shape.push_back(static_cast<int64_t>(fields(dim.bytes).at(0).bits));
        }
      }
    }
  }
  return event;
}

// Throws where a length or a checksum is wrong.
inline std::vector<ReadEvent> read_events(std::string_view file) {
  std::vector<ReadEvent> events;
  auto require_crc = [](std::string_view bytes, uint64_t masked) {
    const auto rotated = static_cast<uint32_t>(masked - 0xa282ead8);
    if ((rotated << 15 | rotated >> 17) != crc32c(bytes)) throw std::runtime_error("wrong crc");
  };
  for (WireReader reader(file); !reader.is_at_end();) {
    const std::string_view length = reader.take(8);
    const uint64_t size = WireReader(length).fixed(8);
    require_crc(length, reader.fixed(4));
    const std::string_view message = reader.take(size);
    require_crc(message, reader.fixed(4));
    events.push_back(read_event(message));
  }
  return events;
}

}  // namespace longshore::data
