// The CUDA backend beside what it computes.
#include "offload/cuda_backend.h"

#include <gtest/gtest.h>

namespace longshore::offload {
namespace {

// Libraries keep memory by stream, and each backend has streams of its own.
TEST(CudaBackend, GivesBackTheDevicesMemory) {
  if (CudaDevice device = find_cuda_device(); !device.usable) GTEST_SKIP() << device.description;
  auto available = [] { return make_cuda_backend()->available_bytes(MemoryKind::device); };
  const int64_t first = available();  // which loads what stays loaded
  for (int again = 0; again < 3; ++again) EXPECT_EQ(available(), first);
}

}  // namespace
}  // namespace longshore::offload
