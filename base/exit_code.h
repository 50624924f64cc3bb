// How a program ends.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"

namespace longshore {

// Calls `run` and returns the exit code: 0, or the one that base/error.h gives for the error that
// it throws. The error's message goes to stderr after the program's name.
template <class F>
int exit_code_of(const char* program, F run) {
  auto failed = [&](const std::exception& error, int code) {
    std::string message = error.what();
    if (message.ends_with('\n')) message.pop_back();  // as those with tables do
    std::fprintf(stderr, "%s: %s\n", program, message.c_str());
    return code;
  };
  try {
    run();
    return 0;
  } catch (const ConfigError& error) {
    return failed(error, 2);
  } catch (const PlanError& error) {
    return failed(error, 2);
  } catch (const OutOfMemoryError& error) {
    return failed(error, 2);
  } catch (const std::exception& error) {
    return failed(error, 1);
  }
}

}  // namespace longshore
