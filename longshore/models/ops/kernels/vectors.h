// Reads and writes rows in memory 16 bytes at a time, where their width and place allow.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

inline constexpr int kVectorBytes = 16;

// Elements of T that are one vector.
template <class T>
inline constexpr int kVectorOf = kVectorBytes / sizeof(T);

template <class T, int kCount>
struct alignas(sizeof(T) * kCount < kVectorBytes ? sizeof(T) * kCount : kVectorBytes) Vector {
  T values[kCount];
};

// `from` is aligned as a vector is; so is `to` below.
template <int kCount, class T>
LONGSHORE_INLINE void load_vector(const T* from, float (&to)[kCount]) {
  const auto vector = *reinterpret_cast<const Vector<T, kCount>*>(from);
  for (int k = 0; k < kCount; ++k) to[k] = load(vector.values[k]);
}

template <int kCount, class T>
LONGSHORE_INLINE void store_vector(T* to, const float (&from)[kCount]) {
  Vector<T, kCount> vector;
  for (int k = 0; k < kCount; ++k) store(vector.values[k], from[k]);
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}

// Stores a vector into a GPU's global memory as one, where nvcc would store its elements one by
// one: it does so where it has just computed with them under conditions.
template <class T, int kCount>
LONGSHORE_INLINE void store_whole(T* to, const Vector<T, kCount>& vector) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(vector) == 16) {
    const auto words = std::bit_cast<uint4>(vector);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
    return;
  } else if constexpr (sizeof(vector) == 8) {
    const auto words = std::bit_cast<uint2>(vector);
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y)
                 : "memory");
    return;
  } else if constexpr (sizeof(vector) == 4) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
                 "r"(std::bit_cast<uint32_t>(vector))
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}

// Null is aligned.
inline bool all_aligned(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % kVectorBytes != 0) return false;
  return true;
}

// Calls f with the number of T's to take at a time, a constant: a vector of them, or one.
template <class T, class F>
void with_vectors(bool fit, F f) {
  if (fit)
    f(std::integral_constant<int, kVectorOf<T>>{});
  else
    f(std::integral_constant<int, 1>{});
}

}  // namespace longshore::models
