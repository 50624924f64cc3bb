#include "base/stop_signal.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>

namespace longshore {
namespace {

using Clock = std::chrono::steady_clock;

struct Signal {
  int number;
  const char* name;
};
constexpr std::array kSignals{Signal{SIGTERM, "SIGTERM"}, Signal{SIGUSR1, "SIGUSR1"},
                              Signal{SIGINT, "SIGINT"}};
constexpr std::chrono::seconds kSameRequest{1};

std::atomic<const char*> first_signal = nullptr;
std::atomic<bool> is_ending = false;

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const Signal& signal : kSignals) sigaddset(&set, signal.number);
  return set;
}

const char* name_of(int number) {
  for (const Signal& signal : kSignals)
    if (signal.number == number) return signal.name;
  return "";
}

void listen() {
  const sigset_t set = signals();
  Clock::time_point since;
  for (int number; sigwait(&set, &number) == 0 && !is_ending;) {
    if (!first_signal) {
      first_signal = name_of(number);
      since = Clock::now();
    } else if (Clock::now() - since > kSameRequest) {
      std::fprintf(stderr, "%s after %s: ends at once, with nothing saved\n", name_of(number),
                   first_signal.load());
      _exit(128 + number);
    }
  }
}

}  // namespace

StopSignal::StopSignal() {
  first_signal = nullptr;
  is_ending = false;
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, &blocked_before_);
  listener_ = std::thread(listen);
}

StopSignal::~StopSignal() {
  is_ending = true;
  pthread_kill(listener_.native_handle(), kSignals[0].number);
  listener_.join();
  pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

std::string StopSignal::name() {
  const char* name = first_signal;
  return name ? name : "";
}

}  // namespace longshore
