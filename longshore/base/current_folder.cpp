// Ends a program that is started in a folder which has been removed. This is done before main():
// there, MKL, which LibTorch brings, ends the program with a message about itself.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "longshore/base/printable.h"

namespace {

__attribute__((constructor)) void require_current_folder() {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) != nullptr || errno != ENOENT) return;
  dprintf(STDERR_FILENO,
          "%s: the current folder: found one that has been removed, expected one that is there\n",
          longshore::excerpt(program_invocation_short_name).c_str());
  _exit(2);
}

}  // namespace
