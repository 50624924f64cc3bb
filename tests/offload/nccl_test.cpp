// Collectives by NCCL, on one GPU and, where there are several, on all of them: a thread each.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#include "longshore/offload/backends/cuda/nccl_communicator.h"

namespace longshore::offload {
namespace {

using models::Dtype;
using models::Type;

int64_t gpus() {
  int64_t count = 0;
  for (CudaDevice device; (device = find_cuda_device(count)).usable && device.number == count;)
    ++count;
  return count;
}

class Nccl : public testing::TestWithParam<Axis> {
 protected:
  void SetUp() override {
    if (CudaDevice device = find_cuda_device(); !device.usable) GTEST_SKIP() << device.description;
  }
};

// One rank's backend, with what it gives and gets.
class Device {
 public:
  Device(const DeviceMesh& mesh, int number, const ShareBytes& share)
      : backend_(make_cuda_backend(number, make_nccl_communicator(mesh, number, share))) {}

  std::vector<float> run(const models::Op& op, const Collective& collective,
                         const std::vector<float>& values, int64_t results) {
    const Type in{{std::ssize(values)}, Dtype::float32}, out{{results}, Dtype::float32};
    std::byte* from = backend_->allocate(MemoryKind::device, in.bytes());
    std::byte* to = backend_->allocate(MemoryKind::device, out.bytes());
    backend_->write(MemoryKind::device, from, values.data(), in.bytes());
    const models::Ref operands[]{{from, in}}, outputs[]{{to, out}};
    const std::any attrs = collective;
    backend_->run(Lane::network, op,
                  {.target = models::Target::cuda,
                   .attrs = attrs,
                   .in = operands,
                   .out = outputs,
                   .workspace = {}});
    backend_->synchronize();
    std::vector<float> result(results);
    backend_->read(MemoryKind::device, result.data(), to, out.bytes());
    backend_->free(MemoryKind::device, from);
    backend_->free(MemoryKind::device, to);
    return result;
  }

 private:
  std::unique_ptr<Backend> backend_;
};

DeviceMesh mesh_along(Axis axis, int64_t ranks, int64_t rank) {
  DeviceMesh mesh;
  (axis == Axis::fsdp ? mesh.fsdp : mesh.data) = {.size = ranks, .rank = rank};
  return mesh;
}

void on_gpus(Axis axis, int64_t ranks, const std::function<void(Device&, int64_t rank)>& work) {
  std::promise<std::string> promise;
  const std::shared_future<std::string> id = promise.get_future().share();
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      bool has_shared = rank != 0;
      try {
        Device device(mesh_along(axis, ranks, rank), static_cast<int>(rank),
                      [&](const std::string& bytes) {
                        if (rank == 0) promise.set_value(bytes);
                        has_shared = true;
                        return id.get();
                      });
        work(device, rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        if (!has_shared) promise.set_exception(std::current_exception());
      }
    });
}

std::vector<float> numbers(int64_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void expect_collectives(Axis axis, int64_t ranks) {
  constexpr int64_t kPart = 1000;
  on_gpus(axis, ranks, [&](Device& device, int64_t rank) {
    const Collective collective{.axis = axis, .ranks = ranks};
    EXPECT_EQ(device.run(models::all_gather_op, collective,
                         numbers(kPart, static_cast<float>(rank * kPart)), ranks * kPart),
              numbers(ranks * kPart, 0));
    // Each gives its rank plus the element's number: the sum is exact.
    std::vector<float> sums = numbers(ranks * kPart, 0);
    for (float& sum : sums)
      sum = sum * static_cast<float>(ranks) + static_cast<float>(ranks * (ranks - 1) / 2);
    const std::vector<float> mine = numbers(ranks * kPart, static_cast<float>(rank));
    EXPECT_EQ(device.run(models::all_reduce_op, collective, mine, ranks * kPart), sums);
    EXPECT_EQ(device.run(models::reduce_scatter_op, collective, mine, kPart),
              std::vector<float>(sums.begin() + rank * kPart, sums.begin() + (rank + 1) * kPart));
  });
}

TEST_P(Nccl, CollectivesGiveTheExpectedValuesOnOneGpu) { expect_collectives(GetParam(), 1); }

TEST_P(Nccl, CollectivesGiveTheExpectedValuesOnAllGpus) {
  if (gpus() < 2) GTEST_SKIP() << "there is one GPU";
  expect_collectives(GetParam(), gpus());
}

INSTANTIATE_TEST_SUITE_P(Along, Nccl, testing::Values(Axis::fsdp, Axis::data),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace longshore::offload
