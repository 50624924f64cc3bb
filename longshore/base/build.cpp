#include "longshore/base/build.h"

namespace longshore {

// Of tests. Programs are linked with others, which take the place of these: see
// cmake/build_info.cmake.
__attribute__((weak)) const char* build_commit() { return "unknown"; }
__attribute__((weak)) const char* build_libraries() { return ""; }

std::string version_and_commit() {
  return std::string(LONGSHORE_VERSION ", commit ") + build_commit();
}

std::string version_text() {
  const std::string libraries = build_libraries();
  return std::string("longshore " LONGSHORE_VERSION "\ncommit ") + build_commit() +
         (libraries.empty() ? "" : "\n" + libraries);
}

}  // namespace longshore
