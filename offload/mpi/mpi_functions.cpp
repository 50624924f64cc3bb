#include "offload/mpi/mpi_functions.h"

#include <mpi.h>

#include <limits>
#include <vector>

namespace {

std::vector<MPI_Comm>& communicators() {
  static std::vector<MPI_Comm> all;
  return all;
}

const char* text(int status) {
  if (status == MPI_SUCCESS) return nullptr;
  static thread_local char message[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, message, &length);
  return message;
}

bool is_too_large(int64_t count) { return count > std::numeric_limits<int>::max(); }
constexpr const char* kTooLarge = "more than 2^31 elements in one collective";

MPI_Datatype datatype(LongshoreMpi::Dtype dtype) {
  switch (dtype) {
    case LongshoreMpi::int64:
      return MPI_INT64_T;
    case LongshoreMpi::float32:
      return MPI_FLOAT;
    case LongshoreMpi::float64:
      return MPI_DOUBLE;
    case LongshoreMpi::byte:
      break;
  }
  return MPI_BYTE;
}

// The network lane's thread and the program's own both communicate.
const char* init(int32_t* rank, int32_t* size) {
  int provided = 0;
  if (const char* error = text(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided)))
    return error;
  if (provided < MPI_THREAD_MULTIPLE) return "this MPI lets only one thread communicate";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  communicators() = {MPI_COMM_WORLD};
  return nullptr;
}

void finalize() { MPI_Finalize(); }

void abort_all(int32_t code) { MPI_Abort(MPI_COMM_WORLD, code); }

const char* split(int32_t color, int32_t key, int32_t* communicator) {
  MPI_Comm part;
  if (const char* error = text(MPI_Comm_split(MPI_COMM_WORLD, color, key, &part))) return error;
  *communicator = static_cast<int32_t>(communicators().size());
  communicators().push_back(part);
  return nullptr;
}

const char* all_gather(int32_t communicator, LongshoreMpi::Dtype dtype, const void* from, void* to,
                       int64_t count) {
  if (is_too_large(count)) return kTooLarge;
  const int n = static_cast<int>(count);
  return text(MPI_Allgather(from, n, datatype(dtype), to, n, datatype(dtype),
                            communicators()[communicator]));
}

const char* reduce_scatter(int32_t communicator, LongshoreMpi::Dtype dtype, const void* from,
                           void* to, int64_t count) {
  if (is_too_large(count)) return kTooLarge;
  return text(MPI_Reduce_scatter_block(from, to, static_cast<int>(count), datatype(dtype), MPI_SUM,
                                       communicators()[communicator]));
}

const char* all_reduce(int32_t communicator, LongshoreMpi::Dtype dtype, const void* from, void* to,
                       int64_t count) {
  if (is_too_large(count)) return kTooLarge;
  return text(MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, static_cast<int>(count),
                            datatype(dtype), MPI_SUM, communicators()[communicator]));
}

const char* gather(const void* from, int32_t count, void* to, const int32_t* counts) {
  std::vector<int> offsets;
  int rank = 0, size = 0, offset = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int r = 0; rank == 0 && r < size; ++r) {
    offsets.push_back(offset);
    offset += counts[r];
  }
  return text(
      MPI_Gatherv(from, count, MPI_BYTE, to, counts, offsets.data(), MPI_BYTE, 0, MPI_COMM_WORLD));
}

}  // namespace

const LongshoreMpi* longshore_mpi() {
  static const LongshoreMpi functions{init,       finalize,       abort_all,  split,
                                      all_gather, reduce_scatter, all_reduce, gather};
  return &functions;
}
