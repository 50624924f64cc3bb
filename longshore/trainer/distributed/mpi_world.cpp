#include "longshore/trainer/distributed/mpi_world.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/program_folder.h"
#include "longshore/offload/mpi/mpi_functions.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using offload::Axis;
using offload::DeviceMesh;

void check(const char* error, const char* doing) {
  if (error) throw Error(std::string("MPI, ") + doing + ": " + library_message(error));
}

const LongshoreMpi& load_mpi(const Launch& launch) {
  const fs::path library = library_path("liblongshore_mpi.so");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = handle ? dlsym(handle, "longshore_mpi") : nullptr;
  if (!entry)
    throw Error(std::string("a run of several processes under ") + name(launch.by) +
                " needs MPI: " + library_message(dlerror()) +
                (is_installed() ? "; nearest: Open MPI 4, which is Debian's package openmpi-bin"
                                : "; scripts/setup installs one, and the build makes " +
                                      path_text(library.filename())));
  return *reinterpret_cast<decltype(&longshore_mpi)>(entry)();
}

LongshoreMpi::Dtype mpi_dtype(models::Dtype dtype) {
  switch (dtype) {
    case models::Dtype::float32:
      return LongshoreMpi::float32;
    case models::Dtype::float64:
      return LongshoreMpi::float64;
    default:
      throw InternalError(std::string("sums of ") + models::name(dtype) + " are not exchanged");
  }
}

class MpiCommunicator : public offload::Communicator {
 public:
  MpiCommunicator(const LongshoreMpi& mpi, std::map<Axis, int32_t> communicators)
      : mpi_(mpi), communicators_(std::move(communicators)) {}

  void run(const models::Op& op, const models::KernelCall& call) override {
    const auto& [axis, ranks, nodes] = std::any_cast<const models::Collective&>(call.attrs);
    const int32_t among = communicators_.at(axis);
    const models::Ref &in = call.in[0], &out = call.out[0];
    const char* error = nullptr;
    if (&op == &models::all_gather_op)
      error = mpi_.all_gather(among, LongshoreMpi::byte, in.data, out.data, in.type.bytes());
    else if (&op == &models::reduce_scatter_op)
      error = mpi_.reduce_scatter(among, mpi_dtype(in.type.dtype), in.data, out.data,
                                  out.type.shape.count());
    else if (&op == &models::all_to_all_op)
      error = mpi_.all_to_all(among, in.data, out.data, in.type.bytes() / ranks);
    else
      error = mpi_.all_reduce(among, mpi_dtype(in.type.dtype), in.data, out.data,
                              in.type.shape.count());
    check(error, op.name);
  }

 private:
  const LongshoreMpi& mpi_;
  std::map<Axis, int32_t> communicators_;
};

class MpiWorld : public World {
 public:
  explicit MpiWorld(const Launch& launch) : mpi_(load_mpi(launch)) {
    check(mpi_.init(&rank_, &size_), "starting");
    if (rank_ != launch.rank || size_ != launch.world_size)
      throw Error("MPI says rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                  ", the environment " + text(launch));
    check(mpi_.split(0, rank_, &pairs_), "starting");
  }
  // Others may be waiting for what this one will never send: then its end must be their end. It has
  // yet to say why it ends.
  ~MpiWorld() override {
    if (std::uncaught_exceptions() == 0) {
      mpi_.finalize();
      return;
    }
    auto abort = [](int exit_code, void* mpi) {
      static_cast<const LongshoreMpi*>(mpi)->abort(exit_code);
    };
    on_exit(abort, const_cast<LongshoreMpi*>(&mpi_));
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  std::shared_ptr<offload::Communicator> host_communicator(const DeviceMesh& mesh) override {
    auto split = [&](const offload::MeshAxis& along, const offload::MeshAxis& across) {
      int32_t communicator = 0;
      check(mpi_.split(static_cast<int32_t>(across.rank), static_cast<int32_t>(along.rank),
                       &communicator),
            "splitting the mesh");
      return communicator;
    };
    const int32_t fsdp = split(mesh.fsdp, mesh.data), data = split(mesh.data, mesh.fsdp);
    return std::make_shared<MpiCommunicator>(
        mpi_, std::map<Axis, int32_t>{{Axis::fsdp, fsdp}, {Axis::data, data}});
  }

  std::vector<std::string> gather(const std::string& mine) override {
    const int64_t bytes = std::ssize(mine);
    std::vector<int64_t> lengths(size_);
    check(mpi_.all_gather(kWorld, LongshoreMpi::int64, &bytes, lengths.data(), 1), "a gather");
    const int64_t most = *std::max_element(lengths.begin(), lengths.end());
    std::string padded = mine, all(most * size_, '\0');
    padded.resize(most);
    check(mpi_.all_gather(kWorld, LongshoreMpi::byte, padded.data(), all.data(), most), "a gather");
    std::vector<std::string> texts;
    for (int32_t rank = 0; rank < size_; ++rank)
      texts.push_back(all.substr(rank * most, lengths[rank]));
    return texts;
  }

  int64_t sum(int64_t mine) override {
    check(mpi_.all_reduce(kWorld, LongshoreMpi::int64, &mine, &mine, 1), "a sum");
    return mine;
  }

  void send(int64_t to, std::span<const std::byte> bytes) override {
    check(mpi_.send(pairs_, static_cast<int32_t>(to), bytes.data(), std::ssize(bytes)), "sending");
  }
  void receive(int64_t from, std::span<std::byte> bytes) override {
    check(mpi_.receive(pairs_, static_cast<int32_t>(from), bytes.data(), std::ssize(bytes)),
          "receiving");
  }

 private:
  static constexpr int32_t kWorld = 0;

  const LongshoreMpi& mpi_;
  int32_t rank_ = 0, size_ = 1;
  int32_t pairs_ = 0;  // a communicator for what one sends another
};

}  // namespace

std::unique_ptr<World> connect_by_mpi(const Launch& launch) {
  return std::make_unique<MpiWorld>(launch);
}

}  // namespace longshore::trainer
