// How the programs read their command lines and end.
#pragma once

#include <CLI/CLI.hpp>

#include "base/exit_code.h"

namespace longshore {

// Parses the arguments and runs what they ask for. Gives the exit code: 2 for wrong arguments, of
// which CLI11 says what is wrong, and else exit_code_of()'s.
template <class F>
int run_program(CLI::App& app, int argc, char** argv, F run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code_of(app.get_name().c_str(), run);
}

}  // namespace longshore
