// The Console shows a person how training goes: lines on standard output and, if that is a
// terminal, a progress bar below them. Training does not wait for whoever reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "longshore/base/log.h"
#include "longshore/base/patient_output.h"
#include "longshore/base/progress.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// `quiet`: no lines of steps, nothing on what is under way, and no bar.
enum class Verbosity : uint8_t { usual, quiet };

// While it lives, all Progress of the process is shown on it.
class Console : private ProgressDisplay {
 public:
  // Of a run's processes only the first one's prints anything. The bar is for one process alone:
  // launchers let several write to a terminal of theirs, and that to a file.
  explicit Console(const World& world, Verbosity verbosity = Verbosity::usual);
  // Waits some seconds for a reader that is late, less after a signal to end. Lines that it does
  // not take are counted on the standard error.
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // What goes on; not where it is quiet. Any thread may call it.
  void line(const std::string& text);
  // What has to be known, such as warnings and results. Any thread may call it.
  void notice(const std::string& text);
  // For functions that report while they work: notices. Must not outlive this.
  Log log() {
    return [this](const std::string& text) { notice(text); };
  }
  // The characters that a line has room for, where it is to fit a terminal.
  std::optional<int> columns() const;
  // Draws the bar of training, if standard output is a terminal. `notes`, without those that are
  // "", follow the time left, the most important first.
  void progress(int64_t done, int64_t total, double seconds_left,
                const std::vector<std::string>& notes);

 private:
  bool draws() const override { return draws_; }
  void draw(const std::string& what, double part, const std::vector<std::string>& notes) override;
  void erase() override;
  void print_line(const std::string& text) override { line(text); }
  std::string erasure() const;
  void write(const std::string& text);

  const bool is_enabled_, is_quiet_, draws_;
  std::chrono::steady_clock::time_point progress_at_;  // when the bar of training was drawn
  std::mutex mutex_;                                   // of what follows
  std::optional<PatientOutput> output_;                // nothing for files, which take everything
  std::string bar_;                                    // as it stands
  size_t bar_width_ = 0;
  ProgressDisplay* display_before_;
};

}  // namespace longshore::trainer
