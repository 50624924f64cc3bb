// Runs a program as a shell does.
#pragma once

#include <stdio.h>
#include <sys/wait.h>

#include <string>

namespace longshore::trainer {

struct ProgramResult {
  int exit_code;       // -1 when a signal ended it
  std::string output;  // of stdout and stderr
};

inline ProgramResult run_program(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  for (int c; (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

}  // namespace longshore::trainer
