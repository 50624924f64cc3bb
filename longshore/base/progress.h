// A Progress shows how far something has come that takes a while: on a terminal on its last line,
// which is drawn anew, elsewhere now and then in a line of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace longshore {

class Progress {
 public:
  // On a terminal it is shown once it takes longer than `first`, elsewhere each `period`.
  struct Pace {
    std::chrono::milliseconds first{1000}, period{10'000};
  };

  // `what` is under way, such as "reading weights": `total` units of it, which add() counts. 0: the
  // total is not known, and the count is of bytes, and shown.
  Progress(std::string what, int64_t total) : Progress(std::move(what), total, Pace{}) {}
  Progress(std::string what, int64_t total, Pace pace);
  // The part that is done, from 0 to 1, is what `part` says. It is asked from a thread of its own.
  Progress(std::string what, std::function<double()> part);
  // What was shown on a terminal is taken back.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Any thread may call it.
  void add(int64_t count = 1) { done_.fetch_add(count, std::memory_order_relaxed); }

 private:
  void start();
  void watch(const std::stop_token& stop);

  const std::string what_;
  const int64_t total_ = 0;
  std::atomic<int64_t> done_ = 0;
  std::function<double()> part_;
  const Pace pace_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::jthread thread_;
};

// Where progress is shown.
class ProgressDisplay {
 public:
  virtual ~ProgressDisplay() = default;
  // Whether it is a terminal on which progress is to be drawn; else it gets a line each period.
  virtual bool draws() const = 0;
  // In the place of what was drawn before.
  virtual void draw(const std::string& what, double part,
                    const std::vector<std::string>& notes) = 0;
  virtual void erase() = 0;
  virtual void print_line(const std::string& text) = 0;
};

// From now on all progress is shown there; nullptr: nowhere. Gives what it was shown on before.
// In the beginning that is standard error. When this returns, nothing uses that any more.
ProgressDisplay* show_progress_on(ProgressDisplay* display);

// For options that ask for no progress.
void show_no_progress();
inline constexpr const char* kQuietHelp = "show nothing on how far it has come";

// For whoever is about to print: takes back what is drawn, until it is drawn anew.
void erase_progress();

// "what [=====     ] 43 %, 1:20 left", of fewer characters than `columns`: where there is no room,
// or the part is negative, since nobody knows it, without the bar, then without the last notes.
std::string progress_line(const std::string& what, double part,
                          const std::vector<std::string>& notes, int columns, bool has_colours);

// "1:23:45 left", "4:05 left".
std::string time_left_text(double seconds);

}  // namespace longshore
