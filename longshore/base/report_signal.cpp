#include "longshore/base/report_signal.h"

#include <pthread.h>

#include <ctime>

namespace longshore {
namespace {

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return set;
}

}  // namespace

ReportSignal::ReportSignal() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, &blocked_before_);
}

// One that came late must not end the process now.
ReportSignal::~ReportSignal() {
  take();
  pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

bool ReportSignal::take() {
  const sigset_t set = signals();
  const timespec at_once{};
  return sigtimedwait(&set, nullptr, &at_once) == SIGUSR2;
}

}  // namespace longshore
