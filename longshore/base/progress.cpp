#include "longshore/base/progress.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <utility>

#include "longshore/base/before_printing.h"
#include "longshore/base/patient_output.h"
#include "longshore/base/printable.h"
#include "longshore/base/terminal.h"
#include "longshore/base/text.h"
#include "longshore/base/timing.h"

namespace longshore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUnknown = -1;  // part of something
constexpr std::string_view kGreen = "\033[32m", kUsual = "\033[0m";

bool is_pipe(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

// What tee(1) and the like get from standard output comes to the same terminal behind our back.
class StandardError : public ProgressDisplay {
 public:
  bool draws() const override { return draws_in_place(STDERR_FILENO) && !is_pipe(STDOUT_FILENO); }

  void draw(const std::string& what, double part, const std::vector<std::string>& notes) override {
    if (output_.waits()) return;
    const int columns = terminal_columns(STDERR_FILENO);
    const size_t before =
        std::exchange(width_, progress_line(what, part, notes, columns, false).size());
    std::string line =
        "\r" + progress_line(what, part, notes, columns, shows_colours(STDERR_FILENO));
    if (before > width_) line += std::string(before - width_, ' ');
    output_.put(std::move(line));
  }

  void erase() override {
    if (const size_t width = std::exchange(width_, 0); width > 0)
      output_.put("\r" + std::string(width, ' ') + "\r");
  }

  void print_line(const std::string& text) override { output_.put(text + "\n"); }

 private:
  PatientOutput output_{STDERR_FILENO};
  size_t width_ = 0;  // of what is drawn
};

// What all Progress of this process share.
struct Shared {
  std::mutex mutex;
  StandardError standard_error;
  ProgressDisplay* display = &standard_error;
  std::vector<const Progress*> alive;  // the first is shown
  bool is_drawn = false;
  Clock::time_point last_line = Clock::time_point::min();
};

// It outlives all threads.
Shared& shared() {
  static Shared& shared = []() -> Shared& {
    before_printing = erase_progress;
    return *new Shared;
  }();
  return shared;
}

void erase(Shared& state) {
  if (std::exchange(state.is_drawn, false) && state.display) state.display->erase();
}

std::string percent_text(double part) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", std::floor(100 * part));
  return text;
}

std::string megabytes_text(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string bar(int64_t width, double part, bool has_colours) {
  const auto filled = static_cast<int64_t>(static_cast<double>(width) * part);
  const std::string done(static_cast<size_t>(filled), '='),
      open(static_cast<size_t>(width - filled), ' ');
  return has_colours ? "[" + std::string(kGreen) + done + std::string(kUsual) + open + "]"
                     : "[" + done + open + "]";
}

}  // namespace

Progress::Progress(std::string what, int64_t total, Pace pace)
    : what_(std::move(what)), total_(total), pace_(pace) {
  start();
}

Progress::Progress(std::string what, std::function<double()> part)
    : what_(std::move(what)), part_(std::move(part)), pace_(Pace{}) {
  start();
}

Progress::~Progress() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  if (!state.alive.empty() && state.alive.front() == this) erase(state);
  std::erase(state.alive, this);
}

// Without a thread, where none is to be had, nothing is shown.
void Progress::start() {
  {
    Shared& state = shared();
    std::lock_guard lock(state.mutex);
    state.alive.push_back(this);
  }
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        watch(stop);
      } catch (const std::exception&) {  // no memory: then nothing more is shown
      }
    });
  } catch (const std::system_error&) {
  }
}

void Progress::watch(const std::stop_token& stop) {
  sigset_t all;  // which are others' to take
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  constexpr std::chrono::milliseconds kBetween{200};
  for (auto wait = pace_.first;; wait = kBetween) {
    never.wait_for(lock, stop, wait, [] { return false; });
    if (stop.stop_requested()) return;
    Shared& state = shared();
    std::lock_guard shared_lock(state.mutex);
    if (state.alive.front() != this || !state.display) continue;
    const bool has_total = part_ || total_ > 0;
    const double part =
        !has_total
            ? kUnknown
            : std::clamp(part_ ? part_() : static_cast<double>(done_) / static_cast<double>(total_),
                         0.0, 1.0);
    std::vector<std::string> notes{has_total ? percent_text(part) : megabytes_text(done_)};
    if (part > 0) notes.push_back(time_left_text(seconds_since(start_) * (1 - part) / part));
    const Clock::time_point now = Clock::now();
    if (state.display->draws()) {
      state.display->draw(what_, part, notes);
      state.is_drawn = true;
    } else if (now - start_ >= pace_.period && now - pace_.period >= state.last_line) {
      state.display->print_line(what_ + ": " + join(notes));
      state.last_line = now;
    }
  }
}

ProgressDisplay* show_progress_on(ProgressDisplay* display) {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  erase(state);
  return std::exchange(state.display, display);
}

void show_no_progress() { show_progress_on(nullptr); }

void erase_progress() {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  erase(state);
}

std::string progress_line(const std::string& what, double part,
                          const std::vector<std::string>& notes, int columns, bool has_colours) {
  constexpr int64_t kLeast = 10, kMost = 40;  // characters of the bar
  // A character in the last column would move some terminals' cursors to the next line.
  const auto most = static_cast<size_t>(std::max(columns - 1, 0));
  const std::string begin = what.empty() ? "" : what + " ", all = join(notes);
  const int64_t room = static_cast<int64_t>(most) - std::ssize(begin) - std::ssize(all) -
                       std::ssize(std::string_view("[] "));
  if (room >= kLeast && part >= 0)
    return begin + bar(std::min(room, kMost), part, has_colours) + " " + all;
  const std::string colon = what.empty() ? "" : what + ": ";
  for (size_t count = notes.size(); count > 0; --count)
    if (std::string line = colon + join(std::span(notes).first(count)); line.size() <= most)
      return line;
  return (what.empty() && !notes.empty() ? notes.front() : what).substr(0, most);
}

std::string time_left_text(double seconds) {
  constexpr double kMost = 1e9;
  const int64_t count = seconds > 0 ? std::llround(std::min(seconds, kMost)) : 0;
  char text[32];
  if (count >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld left",
                  static_cast<long long>(count / 3600), static_cast<long long>(count / 60 % 60),
                  static_cast<long long>(count % 60));
  else
    std::snprintf(text, sizeof text, "%lld:%02lld left", static_cast<long long>(count / 60),
                  static_cast<long long>(count % 60));
  return text;
}

}  // namespace longshore
