// What is wrong with something that is checked to its end, for one message that lists it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest.h"

namespace longshore {

// Keeps no more problems than a person reads and counts the rest, so that a hostile file cannot
// make it grow.
class ProblemList {
 public:
  void add(std::string problem) {
    if (!is_full()) listed_.push_back(std::move(problem));
    ++count_;
  }

  bool empty() const { return count_ == 0; }
  // Of a further problem nothing will be seen.
  bool is_full() const { return listed_.size() == kMost; }

  // One a line, all but the first indented: "a\n  b\n  and 3 more".
  std::string text() const {
    std::string text = join(listed_, "\n  ");
    if (count_ > kMost) text += "\n  and " + std::to_string(count_ - kMost) + " more";
    return text;
  }

 private:
  static constexpr size_t kMost = 50;
  std::vector<std::string> listed_;
  size_t count_ = 0;
};

}  // namespace longshore
