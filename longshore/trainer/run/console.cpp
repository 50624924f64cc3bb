#include "longshore/trainer/run/console.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>

#include "longshore/base/print.h"
#include "longshore/base/standard_output.h"
#include "longshore/base/stop_signal.h"
#include "longshore/base/terminal.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

// Whether something reads it that may stand still.
bool has_reader(int descriptor) {
  struct stat status;
  return isatty(descriptor) || (fstat(descriptor, &status) == 0 &&
                                (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)));
}

// With the word in yellow that a warning begins with.
std::string in_colours(const std::string& lines) {
  constexpr std::string_view kWarning = "warning:";
  if (!lines.starts_with(kWarning) || !shows_colours(STDOUT_FILENO)) return lines;
  return fmt::format("\033[33m{}\033[0m{}", kWarning, lines.substr(kWarning.size()));
}

}  // namespace

Console::Console(const World& world, Verbosity verbosity)
    : is_enabled_(world.is_first()),
      is_quiet_(verbosity == Verbosity::quiet),
      draws_(world.size() == 1 && !is_quiet_ && draws_in_place(STDOUT_FILENO)) {
  if (has_reader(STDOUT_FILENO)) output_.emplace(STDOUT_FILENO);
  display_before_ = show_progress_on(this);
}

Console::~Console() {
  show_progress_on(display_before_);
  erase();
  if (!output_) return;
  const size_t lost =
      output_->finish([] { return std::chrono::seconds(StopSignal::is_there() ? 1 : 5); });
  if (lost > 0)
    print_error(fmt::format("standard output: nobody read it; {} left out. {} has all steps\n",
                            plural(static_cast<int64_t>(lost), "line"), kMetricsFile));
}

void Console::line(const std::string& text) {
  if (!is_quiet_) notice(text);
}

void Console::notice(const std::string& text) {
  if (!is_enabled_) return;
  std::lock_guard lock(mutex_);
  write(erasure() + in_colours(shown(text + "\n")) + bar_);
}

std::optional<int> Console::columns() const {
  return draws_ ? std::optional(terminal_columns(STDOUT_FILENO)) : std::nullopt;
}

void Console::progress(int64_t done, int64_t total, double seconds_left,
                       const std::vector<std::string>& notes) {
  // Steps may be short: nobody reads more than some lines a second.
  constexpr std::chrono::milliseconds kLeastPause(100);
  const auto now = std::chrono::steady_clock::now();
  if (!draws_ || (now - progress_at_ < kLeastPause && done < total)) return;
  progress_at_ = now;
  std::vector<std::string> all{fmt::format("{}/{}", done, total), time_left_text(seconds_left)};
  std::ranges::copy_if(notes, std::back_inserter(all),
                       [](const std::string& note) { return !note.empty(); });
  draw("", static_cast<double>(done) / static_cast<double>(total), all);
}

void Console::draw(const std::string& what, double part, const std::vector<std::string>& notes) {
  std::lock_guard lock(mutex_);
  if (output_ && output_->waits()) return;
  const std::string erase_last = erasure();
  const int columns = terminal_columns(STDOUT_FILENO);
  bar_width_ = progress_line(what, part, notes, columns, false).size();
  bar_ = progress_line(what, part, notes, columns, shows_colours(STDOUT_FILENO));
  write(erase_last + bar_);
}

void Console::erase() {
  std::lock_guard lock(mutex_);
  if (bar_.empty()) return;
  write(erasure());
  bar_.clear();
  bar_width_ = 0;
}

// Not by an escape sequence, which NO_COLOR's users may count among those they do not want.
std::string Console::erasure() const {
  if (bar_.empty()) return "";
  const int most = std::max(terminal_columns(STDOUT_FILENO) - 1, 0);
  return fmt::format("\r{:{}}\r", "", std::min(bar_width_, static_cast<size_t>(most)));
}

void Console::write(const std::string& text) {
  if (output_) return output_->put(text);
  put_output(text);
  flush_output();
}

}  // namespace longshore::trainer
