#include "longshore/base/stop_signal.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>

#include "longshore/base/patient_output.h"

namespace longshore {
namespace {

using Clock = std::chrono::steady_clock;

struct Signal {
  int number;
  const char* name;
};
constexpr std::array kSignals{Signal{SIGTERM, "SIGTERM"}, Signal{SIGUSR1, "SIGUSR1"},
                              Signal{SIGINT, "SIGINT"}, Signal{SIGHUP, "SIGHUP"}};
constexpr std::chrono::seconds kSameRequest{1};

std::atomic<const char*> first_signal = nullptr;
std::atomic<bool> is_ending = false;
std::atomic<bool> notes = true;  // the first, rather than end

// Tells the listener that nobody wants to know any more.
int last_signal() { return SIGRTMIN; }

bool is_ignored(int number) {
  struct sigaction action;
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, last_signal());
  for (const Signal& signal : kSignals)
    if (!is_ignored(signal.number)) sigaddset(&set, signal.number);
  return set;
}

const char* name_of(int number) {
  for (const Signal& signal : kSignals)
    if (signal.number == number) return signal.name;
  return "";
}

void listen(const sigset_t& set) {
  Clock::time_point since;
  for (int number; sigwait(&set, &number) == 0 && !is_ending;) {
    if (!notes) {
      print_error(std::string(name_of(number)) + ": ends; nothing was begun\n");
      _exit(128 + number);
    }
    if (!first_signal) {
      first_signal = name_of(number);
      since = Clock::now();
    } else if (Clock::now() - since > kSameRequest) {
      print_error(std::string(name_of(number)) + " after " + first_signal.load() +
                  ": ends at once, without saving\n");
      _exit(128 + number);
    }
  }
}

}  // namespace

StopSignal::StopSignal(First first) {
  notes = first == First::noted;
  first_signal = nullptr;
  is_ending = false;
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, &blocked_before_);
  listener_ = std::thread(listen, set);
  pipe_handler_before_ = std::signal(SIGPIPE, SIG_IGN);
}

StopSignal::~StopSignal() {
  is_ending = true;
  pthread_kill(listener_.native_handle(), last_signal());
  listener_.join();
  std::signal(SIGPIPE, pipe_handler_before_);
  pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void StopSignal::note_from_now() { notes = true; }

std::string StopSignal::name() {
  const char* name = first_signal;
  return name ? name : "";
}

}  // namespace longshore
