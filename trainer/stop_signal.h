// Being asked to end: SIGTERM, SIGUSR1 (Slurm, spot machines) and SIGINT.
#pragma once

#include <string>

namespace longshore::trainer {

// While one of these lives, the first such signal is only noted, and a second ends the process at
// once, with 128 and the signal's number as the shell has it.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // "SIGTERM"; "" before the first.
  static std::string name();
  static bool is_there() { return !name().empty(); }
};

}  // namespace longshore::trainer
