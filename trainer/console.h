// What a person sees while a program runs: lines on standard output and, on a terminal, a progress
// bar with the time left below them.
#pragma once

#include <cstdint>
#include <string>

namespace longshore::trainer {

class Console {
 public:
  // Of a run's processes only one speaks.
  explicit Console(bool speaks = true);
  ~Console();

  void line(const std::string& text);
  // Does nothing unless standard output is a terminal. `note` is what else is under way.
  void progress(int64_t done, int64_t total, double seconds_left, const std::string& note);

 private:
  void erase_bar();

  bool speaks_, is_terminal_;
  std::string bar_;
};

// "1:23:45", "4:05".
std::string duration_text(double seconds);

}  // namespace longshore::trainer
