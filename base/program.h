// How the programs read their command lines and end.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>

#include "base/exit_code.h"

namespace longshore {

// Parses the arguments and runs what they ask for. Gives the exit code: 2 for wrong arguments, of
// which CLI11 says what is wrong, and else exit_code_of()'s.
//
// A file that grows beyond the limit on sizes is an error of the call that writes it, as a full
// disk is: the signal would end the program with the file half written.
template <class F>
int run_program(CLI::App& app, int argc, char** argv, F run) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code_of(app.get_name().c_str(), run);
}

}  // namespace longshore
