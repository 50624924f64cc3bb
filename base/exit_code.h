// How a program ends.
#pragma once

namespace longshore {

// For the exception at hand, in a catch block: its message goes to stderr after the program's name.
// Returns the exit code that base/error.h gives for it. Where the system refused memory or threads
// the message says what limits them, and the code is 2.
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
