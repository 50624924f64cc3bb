#include "trainer/run/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/print.h"

namespace longshore::trainer {
namespace {

// "1:23:45", "4:05".
std::string duration_text(double seconds) {
  int64_t whole = std::llround(seconds);
  int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace

Console::Console(bool is_enabled)
    : is_enabled_(is_enabled), is_terminal_(is_enabled && isatty(STDOUT_FILENO)) {}

Console::~Console() { erase_bar(); }

void Console::line(const std::string& text) {
  if (!is_enabled_) return;
  std::string bar = bar_;
  erase_bar();
  print(stdout, text + "\n");
  if (!bar.empty()) std::fputs((bar_ = bar).c_str(), stdout);
  std::fflush(stdout);
}

void Console::progress(int64_t done, int64_t total, double seconds_left, const std::string& note) {
  if (!is_terminal_) return;
  constexpr int kWidth = 40;
  int filled = static_cast<int>(kWidth * done / total);
  erase_bar();
  bar_ = fmt::format("[{:=<{}}{:<{}}] {}/{}, {} left{}{}", "", filled, "", kWidth - filled, done,
                     total, duration_text(seconds_left), note.empty() ? "" : ", ", note);
  std::fputs(bar_.c_str(), stdout);
  std::fflush(stdout);
}

void Console::erase_bar() {
  if (bar_.empty()) return;
  std::fputs("\r\033[K", stdout);
  bar_.clear();
}

}  // namespace longshore::trainer
