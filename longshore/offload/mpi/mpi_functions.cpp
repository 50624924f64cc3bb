#include "longshore/offload/mpi/mpi_functions.h"

#include <mpi.h>

#include <chrono>
#include <limits>
#include <thread>
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

// The thread of the network lane and the program's main thread both communicate.
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

void abort(int32_t exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

const char* split(int32_t color, int32_t key, int32_t* communicator) {
  MPI_Comm part;
  if (const char* error = text(MPI_Comm_split(MPI_COMM_WORLD, color, key, &part))) return error;
  *communicator = static_cast<int32_t>(communicators().size());
  communicators().push_back(part);
  return nullptr;
}

const char* all_gather(int32_t communicator, LongshoreMpi::Dtype dtype, const void* from, void* to,
                       int64_t count) {
  // MPI counts in ints, and buckets have more bytes.
  if (dtype == LongshoreMpi::byte && count % sizeof(int64_t) == 0) {
    dtype = LongshoreMpi::int64;
    count /= sizeof(int64_t);
  }
  if (is_too_large(count)) return kTooLarge;
  const int n = static_cast<int>(count);
  int rank = 0, bytes = 0;
  MPI_Comm_rank(communicators()[communicator], &rank);
  MPI_Type_size(datatype(dtype), &bytes);
  // MPI wants to be told of a part that lies where it belongs.
  if (from == static_cast<std::byte*>(to) + count * bytes * rank) from = MPI_IN_PLACE;
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

const char* all_to_all(int32_t communicator, const void* from, void* to, int64_t bytes) {
  if (is_too_large(bytes)) return kTooLarge;
  const int n = static_cast<int>(bytes);
  return text(MPI_Alltoall(from, n, MPI_BYTE, to, n, MPI_BYTE, communicators()[communicator]));
}

const char* send(int32_t communicator, int32_t to, const void* from, int64_t bytes) {
  if (is_too_large(bytes)) return kTooLarge;
  return text(
      MPI_Send(from, static_cast<int>(bytes), MPI_BYTE, to, 0, communicators()[communicator]));
}

// MPI_Recv would keep a core busy with polling, and receivers have time.
const char* receive(int32_t communicator, int32_t from, void* to, int64_t bytes) {
  if (is_too_large(bytes)) return kTooLarge;
  const MPI_Comm among = communicators()[communicator];
  int is_there = 0;
  while (true) {
    if (const char* error = text(MPI_Iprobe(from, 0, among, &is_there, MPI_STATUS_IGNORE)))
      return error;
    if (is_there) break;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return text(MPI_Recv(to, static_cast<int>(bytes), MPI_BYTE, from, 0, among, MPI_STATUS_IGNORE));
}

}  // namespace

const LongshoreMpi* longshore_mpi() {
  static const LongshoreMpi functions{init,           finalize,   abort,      split, all_gather,
                                      reduce_scatter, all_reduce, all_to_all, send,  receive};
  return &functions;
}
