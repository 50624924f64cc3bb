// A StopSignal notes signals that ask the process to end: SIGTERM, SIGUSR1 (Slurm, spot machines),
// SIGINT and SIGHUP (a terminal that is closed).
#pragma once

#include <signal.h>

#include <string>
#include <thread>

namespace longshore {

// While one of these lives, the first such signal is only noted. Another one ends the process with
// 128 and its number, as the shell has it, unless it comes within a second: some senders, such as
// timeout(1), signal the process and then its group. Signals that were ignored before, as after
// nohup(1), stay so. So do failures to print: what reads that, such as tee(1), may have got the
// same signal and be gone.
//
// A thread of its own takes the signals. The one that makes this blocks them, and so do all that
// start while it lives: a handler would put its frame on the stack of whatever runs, and some of
// oneDNN's kernels let the stack pointer point into the heap.
class StopSignal {
 public:
  // `ends`: until note_from_now() there is nothing to save, and the first signal ends the process.
  enum class First { noted, ends };
  explicit StopSignal(First first = First::noted);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static void note_from_now();

  // "SIGTERM"; "" before the first.
  static std::string name();
  static bool is_there() { return !name().empty(); }

 private:
  sigset_t blocked_before_;
  void (*pipe_handler_before_)(int);
  std::thread listener_;
};

}  // namespace longshore
