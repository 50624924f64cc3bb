// Tensors with made-up data, and the files that hold them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/safetensors/safetensors.h"
#include "longshore/data/safetensors/safetensors_writer.h"

namespace longshore::data {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Values that differ from tensor to tensor.
inline std::string some_data(const SafetensorsInfo& info) {
  std::mt19937 random(std::hash<std::string>()(info.name));
  std::string data(static_cast<size_t>(info.bytes()), '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}

inline void append_some_data(const SafetensorsInfo& info, SafetensorsWriter& writer) {
  writer.append(info.name, bytes_of(some_data(info)));
}

inline void write_some(const std::filesystem::path& path,
                       const std::vector<SafetensorsInfo>& tensors) {
  SafetensorsWriter writer(path, tensors);
  for (const SafetensorsInfo& info : tensors) append_some_data(info, writer);
  writer.finish();
}

inline std::vector<SafetensorsInfo> infos_of(const SafetensorsFile& file) {
  return {file.tensors().begin(), file.tensors().end()};
}

// Writes the file anew, with `bytes` where the tensor's data begins.
inline void change_tensor(const std::filesystem::path& path, std::string_view name,
                          std::span<const std::byte> bytes) {
  const SafetensorsFile file(path);
  SafetensorsWriter writer(path, infos_of(file));
  for (const SafetensorsTensor& tensor : file.tensors()) {
    std::vector<std::byte> data(tensor.data.begin(), tensor.data.end());
    if (tensor.name == name) std::ranges::copy(bytes, data.begin());
    writer.append(tensor.name, data);
  }
  writer.finish();
}

}  // namespace longshore::data
