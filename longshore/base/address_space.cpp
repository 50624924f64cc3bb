// Ends a program that has too little address space to begin with. This is done before main(): the
// libraries that programs use take theirs there, and not all of them can do without.
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "longshore/base/printable.h"
#include "longshore/base/refusals.h"

namespace {

// What libraries take before main(), and programs before they ask for memory by its size.
constexpr rlim_t kLeastBytes = rlim_t{512} << 20;

rlim_t taken_bytes() {
  unsigned long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// The stack grows into the address space, and where there is none left a signal ends the program.
void take_stack() {
  constexpr size_t kBytes = size_t{1} << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 4 * kBytes) return;
  [[maybe_unused]] volatile char stack[kBytes];
  for (size_t i = 0; i < kBytes; i += 1024) stack[i] = 0;
}

__attribute__((constructor)) void require_address_space() {
  longshore::end_on_uncaught_exceptions();
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const rlim_t taken = taken_bytes(), left = std::max(limit.rlim_cur, taken) - taken;
  if (left >= kLeastBytes) return take_stack();
  dprintf(STDERR_FILENO,
          "%s: address space: found %llu MiB that are left, expected at least %llu MiB; "
          "limits: ulimit -v %llu KiB\n",
          longshore::excerpt(program_invocation_short_name).c_str(),
          static_cast<unsigned long long>(left >> 20),
          static_cast<unsigned long long>(kLeastBytes >> 20),
          static_cast<unsigned long long>(limit.rlim_cur >> 10));
  _exit(2);
}

}  // namespace
