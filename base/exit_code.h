// How a program ends.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"
#include "base/print.h"

namespace longshore {

// Calls `run` and returns the exit code: 0, or the one that base/error.h gives for the error that
// it throws. The error's message goes to stderr after the program's name.
template <class F>
int exit_code_of(const char* program, F run) {
  auto failed = [&](const std::exception& error, int code) {
    std::string message = error.what();
    if (!message.ends_with('\n')) message += '\n';  // those with tables do
    print(stderr, std::string(program) + ": " + message);
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
