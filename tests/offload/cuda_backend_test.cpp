// The CUDA backend beside what it computes.
#include "longshore/offload/backends/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <any>
#include <cstring>
#include <memory>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/parallel.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

class CudaBackend : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDevice device = find_cuda_device(); !device.usable) GTEST_SKIP() << device.description;
  }
};

// Libraries keep memory by stream, and each backend has streams of its own: cuBLAS alone 64 MiB.
TEST_F(CudaBackend, GivesBackTheDevicesMemory) {
  auto available = [] { return make_cuda_backend()->available_bytes(MemoryKind::device); };
  available();  // loads what stays loaded
  const int64_t first = available();
  for (int again = 0; again < 3; ++again) EXPECT_NEAR(available(), first, 16 * kMebibyte);
}

// Whatever their sizes, beside the staging buffers' 2 MiB.
TEST_F(CudaBackend, CopiesOfManyThreadsArrive) {
  const auto backend = make_cuda_backend();
  const std::vector<int64_t> sizes{1, 4095, 2 * kMebibyte - 1, 2 * kMebibyte, 5 * kMebibyte + 3};
  const int64_t room = 6 * kMebibyte, threads = 20;
  std::byte* device = backend->allocate(MemoryKind::device, threads * room);
  std::vector<int> arrived(threads);
  parallel_for(threads, [&](size_t thread) {
    const int64_t bytes = sizes[thread % sizes.size()];
    std::vector<std::byte> written(bytes), read(bytes);
    for (int64_t i = 0; i < bytes; ++i)
      written[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<int64_t>(thread));
    std::byte* place = device + static_cast<int64_t>(thread) * room;
    backend->write(MemoryKind::device, place, written.data(), bytes);
    backend->read(MemoryKind::device, read.data(), place, bytes);
    arrived[thread] = written == read;
  });
  EXPECT_EQ(arrived, std::vector<int>(threads, 1));
  backend->free(MemoryKind::device, device);
}

TEST_F(CudaBackend, LanesCopyFromAndToPinnedMemory) {
  const auto backend = make_cuda_backend();
  for (int64_t bytes : {int64_t{1}, int64_t{5000}, 2 * kMebibyte, 7 * kMebibyte + 1}) {
    std::byte* device = backend->allocate(MemoryKind::device, bytes);
    std::byte* from = backend->allocate(MemoryKind::pinned_host, bytes);
    std::byte* to = backend->allocate(MemoryKind::pinned_host, bytes);
    std::memset(from, 5, bytes);
    std::memset(to, 6, bytes);
    auto ref = [&](std::byte* memory) {
      return models::Ref{memory, {{bytes}, models::Dtype::uint8}};
    };
    backend->copy(Lane::host_to_device, ref(from), ref(device));
    backend->record(Lane::host_to_device, 0);
    backend->wait(Lane::device_to_host, 0);
    backend->copy(Lane::device_to_host, ref(device), ref(to));
    backend->synchronize();
    EXPECT_EQ(std::memcmp(from, to, bytes), 0) << bytes;
    for (std::byte* memory : {from, to}) backend->free(MemoryKind::pinned_host, memory);
    backend->free(MemoryKind::device, device);
  }
}

TEST_F(CudaBackend, PinsNoMoreThanTheHostHas) {
  const auto backend = make_cuda_backend();
  const int64_t available = backend->available_bytes(MemoryKind::pinned_host);
  EXPECT_THROW(backend->allocate(MemoryKind::pinned_host, 2 * available), OutOfMemoryError);
}

// Devices that cannot be reached any more once a collective is under way.
class LostCommunicator : public Communicator {
 public:
  void run(const models::Op&, const models::KernelCall&) override { is_lost_ = true; }
  void require_working() override {
    if (is_lost_) throw Error("nobody answers");
  }

 private:
  bool is_lost_ = false;
};

TEST_F(CudaBackend, SaysThatOtherDevicesAreLostInsteadOfWaiting) {
  const auto backend = make_cuda_backend(0, std::make_shared<LostCommunicator>());
  backend->synchronize();
  const std::any attrs;
  backend->run(
      Lane::network, models::all_reduce_op,
      {.target = models::Target::cuda, .attrs = attrs, .in = {}, .out = {}, .workspace = {}});
  try {
    backend->synchronize();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "nobody answers");
  }
}

}  // namespace
}  // namespace longshore::offload
