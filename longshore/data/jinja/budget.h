// A Budget is what one rendering of a template may still use: steps, memory and depth.
//
// Templates come with models, from anyone. What any of them does takes steps and memory from here
// first, so that none takes more than a second or so, nor the memory of the machine.
#pragma once

#include <cstddef>
#include <string>

#include "longshore/base/error.h"

namespace longshore::data::jinja {

class Budget {
 public:
  static constexpr size_t kMostSteps = 10'000'000;
  // Of all values that are made, also of those that are gone again.
  static constexpr size_t kMostMemory = size_t{256} << 20;
  static constexpr size_t kMostOutput = size_t{64} << 20;
  // Of calls, statements and expressions within each other while they run.
  static constexpr size_t kMostDepth = 600;

  void step(size_t count = 1) {
    if (count > steps_) refuse(kMostSteps, "steps");
    steps_ -= count;
  }

  // For reading so many bytes.
  void scan(size_t bytes) { step(bytes / 32); }

  void memory(size_t bytes) {
    if (bytes > memory_) refuse(kMostMemory, "bytes in the values that it makes");
    memory_ -= bytes;
  }

  // One level deeper while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget.depth_ == kMostDepth) refuse(kMostDepth, "levels of nesting");
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

  [[noreturn]] static void refuse(size_t most, const char* what) {
    throw DataError("found that the template takes more than " + std::to_string(most) + " " + what +
                    ", expected no more");
  }

 private:
  size_t steps_ = kMostSteps;
  size_t memory_ = kMostMemory;
  size_t depth_ = 0;
};

}  // namespace longshore::data::jinja
