// An array with an element for each value of an enum that counts from 0.
#pragma once

#include <array>
#include <cstddef>

namespace longshore {

template <class Enum, class T, size_t kCount>
struct EnumArray : std::array<T, kCount> {
  constexpr T& operator[](Enum value) { return base()[static_cast<size_t>(value)]; }
  constexpr const T& operator[](Enum value) const { return base()[static_cast<size_t>(value)]; }

 private:
  constexpr std::array<T, kCount>& base() { return *this; }
  constexpr const std::array<T, kCount>& base() const { return *this; }
};

}  // namespace longshore
