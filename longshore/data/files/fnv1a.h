// A hash of a file's contents that is the same on every machine: 64-bit FNV-1a (Fowler, Noll, Vo).
// It tells files apart that differ by accident; it is no defence against intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace longshore::data {

inline constexpr uint64_t kFnv1aStart = 0xcbf29ce484222325;

// `hash` is that of the bytes before these.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnv1aStart) {
  for (char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace longshore::data
