#include "longshore/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace longshore {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool draws_in_place(int descriptor) {
  const std::string_view kind = variable("TERM");
  return isatty(descriptor) && !kind.empty() && kind != "dumb";
}

bool shows_colours(int descriptor) {
  return draws_in_place(descriptor) && variable("NO_COLOR").empty();
}

int terminal_columns(int descriptor) {
  constexpr int kUsual = 80;
  winsize size;
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace longshore
