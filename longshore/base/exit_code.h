// Turns the way a program ends into its exit code, and reports the exception that ended it.
#pragma once

#include <exception>

namespace longshore {

// 2 for what the user or the machine's limits can change, as longshore/base/error.h says of each
// kind and where the system refused memory or threads; else 1.
int code_of(const std::exception& error);

// For the exception at hand, in a catch block: its message goes to stderr after the program's name.
// Returns its code. Where the system refused memory or threads the message says what limits them.
int report_failure(const char* program);

// Calls `run` and returns the exit code: 0, or that of what it throws.
template <class F>
int exit_code_of(const char* program, F run) {
  try {
    run();
    return 0;
  } catch (...) {
    return report_failure(program);
  }
}

}  // namespace longshore
