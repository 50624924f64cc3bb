// What a person sees while a program runs: lines on standard output and, if that is a terminal, a
// progress bar below them.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace longshore::trainer {

class Console {
 public:
  // A console that is not enabled prints nothing: of a run's processes only the first has an
  // enabled one.
  explicit Console(bool is_enabled = true);
  ~Console();

  void line(const std::string& text);
  // For functions that report while they work. Must not outlive this.
  Log log() {
    return [this](const std::string& text) { line(text); };
  }
  // Draws the bar, if standard output is a terminal. `note` follows the time left; it says what
  // else is under way, "" if nothing is.
  void progress(int64_t done, int64_t total, double seconds_left, const std::string& note);

 private:
  void erase_bar();

  bool is_enabled_, is_terminal_;
  std::string bar_;
};

}  // namespace longshore::trainer
