// The Console shows a person how training goes: lines on standard output and, if that is a
// terminal, a progress bar below them. Training does not wait for whoever reads it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "longshore/base/log.h"
#include "longshore/base/patient_output.h"

namespace longshore::trainer {

class Console {
 public:
  // A console that is not enabled prints nothing: of a run's processes only the first has an
  // enabled one.
  explicit Console(bool is_enabled);
  // Waits some seconds for a reader that is late, less after a signal to end. Lines that it does
  // not take are counted on the standard error.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Any thread may call it.
  void line(const std::string& text);
  // For functions that report while they work. Must not outlive this.
  Log log() {
    return [this](const std::string& text) { line(text); };
  }
  // Draws the bar, if standard output is a terminal. `note` follows the time left; it says what
  // else is under way, "" if nothing is.
  void progress(int64_t done, int64_t total, double seconds_left, const std::string& note);

 private:
  void write(const std::string& text);

  bool is_enabled_, is_terminal_;
  std::mutex mutex_;                     // of what follows
  std::optional<PatientOutput> output_;  // nothing for files, which take everything
  std::string bar_;                      // as it stands
};

}  // namespace longshore::trainer
