// A Sample keeps some of the values that came, where all of them would take memory without end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace longshore {

// All values as long as there are at most `most`; beyond, so many of them, each of all that came
// with equal chance (Vitter's algorithm R, 1985). The same values give the same sample. Its memory
// is taken when it is made.
template <class T>
class Sample {
 public:
  explicit Sample(size_t most) : kept_(most) {}

  void add(const T& value) {
    const auto place = count_++;
    if (place < std::ssize(kept_)) {
      kept_[static_cast<size_t>(place)] = value;
    } else if (const int64_t drawn = std::uniform_int_distribution<int64_t>(0, place)(random_);
               drawn < std::ssize(kept_)) {
      kept_[static_cast<size_t>(drawn)] = value;
    }
  }

  int64_t count() const { return count_; }  // of all that came
  std::span<const T> values() const {
    return std::span(kept_).first(std::min(kept_.size(), static_cast<size_t>(count_)));
  }

 private:
  std::vector<T> kept_;
  int64_t count_ = 0;
  std::mt19937_64 random_;
};

}  // namespace longshore
