#include "longshore/trainer/run/console.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "longshore/base/print.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

constexpr const char* kEraseLine = "\r\033[K";

// "1:23:45", "4:05".
std::string duration_text(double seconds) {
  int64_t whole = std::llround(seconds);
  int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

// Whether something reads it that may stand still.
bool has_reader(int descriptor) {
  struct stat status;
  return isatty(descriptor) || (fstat(descriptor, &status) == 0 &&
                                (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)));
}

}  // namespace

Console::Console(bool is_enabled)
    : is_enabled_(is_enabled), is_terminal_(is_enabled && isatty(STDOUT_FILENO)) {
  if (has_reader(STDOUT_FILENO)) output_.emplace(STDOUT_FILENO);
}

Console::~Console() {
  if (!bar_.empty()) write(kEraseLine);
  if (!output_) return;
  const size_t lost =
      output_->finish([] { return std::chrono::seconds(StopSignal::is_there() ? 1 : 5); });
  if (lost > 0)
    print_error(fmt::format("standard output: nobody read it; {} left out. {} has all steps\n",
                            plural(static_cast<int64_t>(lost), "line"), kMetricsFile));
}

void Console::line(const std::string& text) {
  if (!is_enabled_) return;
  std::lock_guard lock(mutex_);
  write((bar_.empty() ? "" : kEraseLine) + shown(text + "\n") + bar_);
}

void Console::progress(int64_t done, int64_t total, double seconds_left, const std::string& note) {
  if (!is_terminal_) return;
  std::lock_guard lock(mutex_);
  if (output_->waits()) return;
  constexpr int kWidth = 40;
  int filled = static_cast<int>(kWidth * done / total);
  const std::string erase = bar_.empty() ? "" : kEraseLine;
  bar_ = fmt::format("[{:=<{}}{:<{}}] {}/{}, {} left{}{}", "", filled, "", kWidth - filled, done,
                     total, duration_text(seconds_left), note.empty() ? "" : ", ", note);
  write(erase + bar_);
}

void Console::write(const std::string& text) {
  if (output_) return output_->put(text);
  put_output(text);
  flush_output();
}

}  // namespace longshore::trainer
