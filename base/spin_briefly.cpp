// A library by itself, which the loader initialises before GNU OpenMP: that reads its environment
// then, when no code of a program has run yet.
//
// Threads that wait for each other spin before they sleep, GNU OpenMP's up to 300,000 rounds, some
// milliseconds. Where another program has one of the cores, that spinning keeps from running the
// very thread it waits for. 1,000 rounds are enough for loops that follow each other closely, so
// that a program that has the machine to itself is as fast.
#include <cstdlib>

__attribute__((constructor)) static void spin_briefly() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "1000", 0);
}
