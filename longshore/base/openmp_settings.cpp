// A library by itself, which the loader initialises before GNU OpenMP: that reads its environment
// then, when no code of a program has run yet.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "longshore/base/processors.h"

namespace {

// Threads that wait for each other spin before they sleep, GNU OpenMP's up to 300,000 rounds, some
// milliseconds. Where another program has one of the cores, that spinning keeps from running the
// very thread it waits for. 1,000 rounds are enough for loops that follow each other closely, so
// that a program that has the machine to itself is as fast.
void spin_briefly() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "1000", 0);
}

// A number in the environment; 0 where there is none.
long number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::strtol(text, nullptr, 10) : 0;
}

// oneDNN deals out its work to as many threads as OpenMP says that there are at most, and what goes
// to one that does not come is never done.
void have_all_threads() {
  setenv("OMP_DYNAMIC", "false", 1);
  if (number("OMP_MAX_ACTIVE_LEVELS") < 1) unsetenv("OMP_MAX_ACTIVE_LEVELS");
  const long limit = number("OMP_THREAD_LIMIT");
  const long asked = number("OMP_NUM_THREADS");
  if (limit > 0 && limit < (asked > 0 ? asked : longshore::usable_processors()))
    setenv("OMP_NUM_THREADS", std::to_string(limit).c_str(), 1);
}

// Processes that one launcher started on this machine: torchrun, or Open MPI's mpirun.
long processes_here() {
  const long by_torchrun = number("LOCAL_WORLD_SIZE");
  return by_torchrun > 0 ? by_torchrun : number("OMPI_COMM_WORLD_LOCAL_SIZE");
}

// As many threads as a process's part of the processors. Processes of a launcher share those that
// each of them may use, and the quota of their control group, beyond which threads only keep each
// other from running. A launcher that binds its processes, as mpirun does by default, has divided
// the processors before. torchrun sets one thread for each process where the environment says
// nothing, which would leave updates on the host to one core.
void use_a_part_of_the_processors() {
  const long asked = number("OMP_NUM_THREADS"), processes = std::max(1L, processes_here());
  const bool is_torchruns = asked == 1 && processes > 1 && std::getenv("TORCHELASTIC_RUN_ID");
  if (asked != 0 && !is_torchruns) return;
  const long bound = longshore::bound_processors();
  const bool are_divided = bound < sysconf(_SC_NPROCESSORS_ONLN);
  const long part = are_divided ? bound : bound / processes;
  const double quota = std::ceil(longshore::processor_quota() / static_cast<double>(processes));
  const long threads = std::max(1L, quota < static_cast<double>(part) ? std::lround(quota) : part);
  if (threads < bound) setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
}

__attribute__((constructor)) void set_openmp() {
  spin_briefly();
  use_a_part_of_the_processors();
  have_all_threads();
}

}  // namespace
