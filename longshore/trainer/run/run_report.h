// A RunReport keeps report.html in a run's folder up to date while the run goes on, on a thread of
// its own that takes at most a hundredth of one processor's time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "longshore/base/log.h"
#include "longshore/trainer/report/run_records.h"

namespace longshore::trainer {

// Of a text that takes a while: how long, about.
struct CostlyText {
  double seconds = 0;
  std::function<std::string()> make;
};

class RunReport {
 public:
  // `advice` goes into advice.txt once a hundredth of the run's time has room for it. `log` gets a
  // line where the page cannot be written, which ends no run.
  RunReport(std::filesystem::path folder, std::optional<CostlyText> advice, Log log);
  // Writes the page as the folder is now.
  ~RunReport();
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;

  // The folder has something new.
  void tell();

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  void write_page();
  void write_advice();
  // What reading what has come for the next page takes, about.
  double reading_seconds() const;
  // Whether the thread's time so far and `seconds` more are within the hundredth.
  bool has_room_for(double seconds) const;

  const std::filesystem::path folder_;
  std::optional<CostlyText> advice_;
  const Log log_;
  const Clock::time_point begin_ = Clock::now();
  std::optional<RunRecords> records_;
  double page_seconds_ = 0.02;  // that the last page took once all was read
  std::string trouble_;         // why the last page could not be written
  std::mutex mutex_;            // of what follows
  std::condition_variable changed_;
  bool is_new_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace longshore::trainer
