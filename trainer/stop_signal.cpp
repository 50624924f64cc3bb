#include "trainer/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace longshore::trainer {
namespace {

constexpr std::array kSignals{SIGTERM, SIGUSR1, SIGINT};

std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may do little else");

void note(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) _exit(128 + signal);
}

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  first_signal = 0;
  handle(note);
}

StopSignal::~StopSignal() { handle(SIG_DFL); }

std::string StopSignal::name() {
  switch (first_signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    default:
      return "";
  }
}

}  // namespace longshore::trainer
