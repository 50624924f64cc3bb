// The problems that a check found, for one error message that lists them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/text.h"

namespace longshore {

// Keeps no more problems than a person reads, and counts the others, so that a hostile file cannot
// make it grow.
class ProblemList {
 public:
  void add(std::string problem) {
    if (!is_full()) listed_.push_back(std::move(problem));
    ++count_;
  }

  // Adds what `check` throws as a ConfigError. Gives whether it threw nothing.
  template <class Check>
  bool holds(const Check& check) {
    try {
      check();
      return true;
    } catch (const ConfigError& error) {
      add(error.what());
      return false;
    }
  }

  bool empty() const { return count_ == 0; }
  // Whether a further problem would only be counted.
  bool is_full() const { return listed_.size() == kMaxListed; }

  // One problem on each line, all but the first indented: "a\n  b\n  and 3 more".
  std::string text() const {
    std::string text = join(listed_, "\n  ");
    if (count_ > kMaxListed) text += "\n  and " + std::to_string(count_ - kMaxListed) + " more";
    return text;
  }

 private:
  static constexpr size_t kMaxListed = 50;
  std::vector<std::string> listed_;
  size_t count_ = 0;
};

}  // namespace longshore
