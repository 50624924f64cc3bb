// A ReportSignal lets users ask a running process how things stand, by SIGUSR2.
#pragma once

#include <signal.h>

namespace longshore {

// While one lives, the signal ends nothing and interrupts nothing: the thread that makes this
// blocks it, and so do all that start while it lives. It waits with the system until it is asked
// for.
class ReportSignal {
 public:
  ReportSignal();
  ~ReportSignal();
  ReportSignal(const ReportSignal&) = delete;
  ReportSignal& operator=(const ReportSignal&) = delete;

  // Whether it has come since it was last asked for.
  static bool take();

 private:
  sigset_t blocked_before_;
};

}  // namespace longshore
