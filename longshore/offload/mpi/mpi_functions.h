// The functions that Longshore needs of MPI, as a table of C functions. A library of their own
// contains them; it is loaded only where MPI launched the run, so that nothing else needs an MPI to
// be installed.
#pragma once

#include <cstdint>

extern "C" {

// Functions return null for success, and otherwise MPI's error text, which stays valid until the
// next call in the same thread. Counts are numbers of elements.
struct LongshoreMpi {
  enum Dtype : int32_t { byte, int64, float32, float64 };

  const char* (*init)(int32_t* rank, int32_t* size);
  void (*finalize)();
  void (*abort)(int32_t exit_code);  // ends all processes
  // Makes a communicator for all processes that give the same color, ranked in the order of their
  // keys. Communicator 0 is the world's.
  const char* (*split)(int32_t color, int32_t key, int32_t* communicator);
  const char* (*all_gather)(int32_t communicator, Dtype dtype, const void* from, void* to,
                            int64_t count);  // of each rank
  const char* (*reduce_scatter)(int32_t communicator, Dtype dtype, const void* from, void* to,
                                int64_t count);  // of each rank
  const char* (*all_reduce)(int32_t communicator, Dtype dtype, const void* from, void* to,
                            int64_t count);  // may be in place
  const char* (*all_to_all)(int32_t communicator, const void* from, void* to,
                            int64_t bytes);  // from each rank to each
  const char* (*send)(int32_t communicator, int32_t to, const void* from, int64_t bytes);
  const char* (*receive)(int32_t communicator, int32_t from, void* to, int64_t bytes);
};

// The library's one symbol.
const LongshoreMpi* longshore_mpi();
}
