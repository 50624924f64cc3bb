#include "longshore/offload/backends/cuda/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <any>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "longshore/base/cuda_check.h"
#include "longshore/base/error.h"

namespace longshore::offload {
namespace {

void check(ncclResult_t status, ncclComm_t among, const std::string& what) {
  if (status == ncclSuccess) return;
  std::string text = "NCCL, " + what + ": " + ncclGetErrorString(status);
  if (const char* last = ncclGetLastError(among); last && *last) text += std::string("; ") + last;
  throw Error(text);
}

ncclDataType_t nccl_dtype(models::Dtype dtype) {
  switch (dtype) {
    case models::Dtype::float32:
      return ncclFloat32;
    case models::Dtype::float64:
      return ncclFloat64;
    default:
      throw InternalError(std::string("sums of ") + models::name(dtype) + " are not exchanged");
  }
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const DeviceMesh& mesh, int device, const ShareBytes& share) {
    check_cuda(cudaSetDevice(device), "choosing the device");
    ncclUniqueId id{};
    if (mesh.rank() == 0) check(ncclGetUniqueId(&id), nullptr, "making an id");
    const std::string shared = share({id.internal, sizeof id.internal});
    if (shared.size() != sizeof id.internal) throw InternalError("NCCL's id was not shared");
    std::memcpy(id.internal, shared.data(), shared.size());
    check(ncclCommInitRank(&all_, static_cast<int>(mesh.devices()), id,
                           static_cast<int>(mesh.rank())),
          nullptr, "connecting rank " + std::to_string(mesh.rank()));
    split(Axis::fsdp, mesh.fsdp, mesh.data);
    split(Axis::data, mesh.data, mesh.fsdp);
    take_memory();
  }

  // ncclCommDestroy waits for the other processes, which may never come after a failure.
  ~NcclCommunicator() override {
    end_all(std::uncaught_exceptions() > 0 ? ncclCommAbort : ncclCommDestroy);
  }

  void run(const models::Op& op, const models::KernelCall& call) override {
    require_working();
    ncclComm_t among = at(std::any_cast<const Collective&>(call.attrs).axis);
    ncclResult_t state = ncclSuccess;
    const models::Ref &in = call.in[0], &out = call.out[0];
    const auto stream = static_cast<cudaStream_t>(call.stream);
    if (&op == &models::all_gather_op)
      state = ncclAllGather(in.data, out.data, in.type.bytes(), ncclInt8, among, stream);
    else if (&op == &models::reduce_scatter_op)
      state = ncclReduceScatter(in.data, out.data, out.type.shape.count(),
                                nccl_dtype(in.type.dtype), ncclSum, among, stream);
    else if (&op == &models::all_to_all_op)
      state = all_to_all(in, out, among, stream);
    else
      state = ncclAllReduce(in.data, out.data, in.type.shape.count(), nccl_dtype(in.type.dtype),
                            ncclSum, among, stream);
    check(state, among, op.name);
  }

  void require_working() override {
    if (!all_) throw Error("NCCL: the connection has failed before");
    for (ncclComm_t among : along_) try {
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(among, &state), among, "asking how collectives go");
        check(state, among, "a collective");
      } catch (const Error&) {
        end_all(ncclCommAbort);
        throw;
      }
  }

 private:
  static ncclResult_t all_to_all(const models::Ref& in, const models::Ref& out, ncclComm_t among,
                                 cudaStream_t stream) {
    int ranks = 0;
    check(ncclCommCount(among, &ranks), among, "counting devices");
    const size_t part = static_cast<size_t>(in.type.bytes() / ranks);
    check(ncclGroupStart(), among, "all_to_all");
    for (int rank = 0; rank < ranks; ++rank) {
      check(ncclSend(in.as<std::byte>() + rank * part, part, ncclInt8, rank, among, stream), among,
            "all_to_all");
      check(ncclRecv(out.as<std::byte>() + rank * part, part, ncclInt8, rank, among, stream), among,
            "all_to_all");
    }
    return ncclGroupEnd();
  }

  // NCCL takes device memory for an algorithm's connections at the first collective that it is
  // chosen for, which depends on the size. Each kind of collective runs once small and once large,
  // so that what is free afterwards stays free.
  void take_memory() {
    constexpr size_t kLarge = size_t{256} << 20, kSmallPart = 256;  // bytes
    void* allocated = nullptr;
    check_cuda(cudaMalloc(&allocated, kLarge), "memory for the first collectives");
    const std::unique_ptr<void, cudaError_t (*)(void*)> memory(allocated, cudaFree);
    for (ncclComm_t among : along_) {
      int devices = 0, rank = 0;
      check(ncclCommCount(among, &devices), among, "counting devices");
      check(ncclCommUserRank(among, &rank), among, "asking for the rank");
      for (size_t part : {kSmallPart, kLarge / devices / kSmallPart * kSmallPart}) {
        std::byte* mine = static_cast<std::byte*>(allocated) + part * rank;
        const size_t count = part / sizeof(float);
        const char* what = "the first collectives";
        check(ncclAllGather(mine, allocated, part, ncclInt8, among, nullptr), among, what);
        check(ncclReduceScatter(allocated, mine, count, ncclFloat32, ncclSum, among, nullptr),
              among, what);
        check(ncclAllReduce(allocated, allocated, count * devices, ncclFloat32, ncclSum, among,
                            nullptr),
              among, what);
      }
    }
    check_cuda(cudaStreamSynchronize(nullptr), "the first collectives");
  }

  void end_all(ncclResult_t (*end)(ncclComm_t)) {
    for (ncclComm_t& among : along_)
      if (ncclComm_t ended = std::exchange(among, nullptr)) end(ended);
    if (ncclComm_t ended = std::exchange(all_, nullptr)) end(ended);
  }

  ncclComm_t& at(Axis axis) { return along_[static_cast<size_t>(axis)]; }

  void split(Axis axis, const MeshAxis& along, const MeshAxis& across) {
    check(ncclCommSplit(all_, static_cast<int>(across.rank), static_cast<int>(along.rank),
                        &at(axis), nullptr),
          all_, std::string("connecting along ") + name(axis));
  }

  ncclComm_t all_ = nullptr;
  std::array<ncclComm_t, 2> along_{};  // by Axis
};

}  // namespace

std::shared_ptr<Communicator> make_nccl_communicator(const DeviceMesh& mesh, int device,
                                                     const ShareBytes& share) {
  return std::make_shared<NcclCommunicator>(mesh, device, share);
}

}  // namespace longshore::offload
