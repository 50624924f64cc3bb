// What Longshore asks of an MPI, as a table of C functions. They are in a library of their own,
// which is loaded only where a run is launched with MPI: nothing else needs one to be installed.
#pragma once

#include <cstdint>

extern "C" {

// An error is a text of MPI's that stays valid until the next call in the same thread; null is
// success. Counts are of elements.
struct LongshoreMpi {
  enum Dtype : int32_t { byte, int64, float32, float64 };

  const char* (*init)(int32_t* rank, int32_t* size);
  void (*finalize)();
  // A communicator of its own for all who give the same color, in the order of their keys. The
  // world's is 0.
  const char* (*split)(int32_t color, int32_t key, int32_t* communicator);
  const char* (*all_gather)(int32_t communicator, Dtype dtype, const void* from, void* to,
                            int64_t count);  // of each rank
  const char* (*reduce_scatter)(int32_t communicator, Dtype dtype, const void* from, void* to,
                                int64_t count);  // of each rank
  const char* (*all_reduce)(int32_t communicator, Dtype dtype, const void* from, void* to,
                            int64_t count);  // may be in place
  const char* (*send)(int32_t communicator, int32_t to, const void* from, int64_t bytes);
  const char* (*receive)(int32_t communicator, int32_t from, void* to, int64_t bytes);
};

// The library's one symbol.
const LongshoreMpi* longshore_mpi();
}
