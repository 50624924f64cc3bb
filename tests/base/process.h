// A program that runs beside the test, to be sent signals.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace longshore {

class Process {
 public:
  // A simple command; what it prints goes to `log`. It does not ignore what the test was started to
  // ignore, by nohup(1) or in the background of a shell.
  Process(const std::string& command, std::filesystem::path log) : log_(std::move(log)) {
    const std::string line = "exec " + command + " > " + log_.string() + " 2>&1";
    id_ = fork();
    if (id_ != 0) return;
    for (int ignored : {SIGINT, SIGHUP}) signal(ignored, SIG_DFL);
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  ~Process() {
    send(SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) {
    if (!is_over()) kill(id_, signal);
  }

  bool is_over() {
    if (!is_over_ && waitpid(id_, &status_, WNOHANG) == id_) is_over_ = true;
    return is_over_;
  }

  // Its exit code; minus the signal that ended it.
  int wait() {
    if (!is_over_) waitpid(id_, &status_, 0);
    is_over_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

  std::string output() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Until it has printed that; false when it ended without.
  bool wait_for(const std::string& words) {
    while (output().find(words) == std::string::npos) {
      if (is_over()) return output().find(words) != std::string::npos;
      usleep(2000);
    }
    return true;
  }

 private:
  std::filesystem::path log_;
  pid_t id_ = -1;
  int status_ = 0;
  bool is_over_ = false;
};

}  // namespace longshore
