// Choices at random, the same ones on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace longshore::offload {

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }
  template <class T>
  T& one_of(std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
  }

 private:
  std::mt19937 random_;
};

}  // namespace longshore::offload
