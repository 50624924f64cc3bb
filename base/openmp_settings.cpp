// A library by itself, which the loader initialises before GNU OpenMP: that reads its environment
// then, when no code of a program has run yet.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

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

long processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// oneDNN deals out its work to as many threads as OpenMP says that there are at most, and what goes
// to one that does not come is never done.
void have_all_threads() {
  setenv("OMP_DYNAMIC", "false", 1);
  if (number("OMP_MAX_ACTIVE_LEVELS") < 1) unsetenv("OMP_MAX_ACTIVE_LEVELS");
  const long limit = number("OMP_THREAD_LIMIT");
  const long asked = number("OMP_NUM_THREADS");
  if (limit > 0 && limit < (asked > 0 ? asked : processors()))
    setenv("OMP_NUM_THREADS", std::to_string(limit).c_str(), 1);
}

// Processes that one launcher started on this machine: torchrun, or Open MPI's mpirun.
long processes_here() {
  const long by_torchrun = number("LOCAL_WORLD_SIZE");
  return by_torchrun > 0 ? by_torchrun : number("OMPI_COMM_WORLD_LOCAL_SIZE");
}

// Processes of a launcher share the processors that each of them may use. A launcher that binds its
// processes, as mpirun does by default, has divided the processors before. torchrun sets one thread
// for each process where the environment says nothing, which would leave updates on the host to one
// core.
void share_processors() {
  const long asked = number("OMP_NUM_THREADS");
  const bool is_torchruns = asked == 1 && std::getenv("TORCHELASTIC_RUN_ID");
  const bool are_divided = processors() < sysconf(_SC_NPROCESSORS_ONLN);
  if (processes_here() < 2 || (asked > 0 && !is_torchruns) || are_divided) return;
  const long threads = std::max(1L, processors() / processes_here());
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
}

__attribute__((constructor)) void set_openmp() {
  spin_briefly();
  share_processors();
  have_all_threads();
}

}  // namespace
