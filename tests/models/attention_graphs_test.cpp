// What cuDNN itself says of its graphs of attention, asked without a GPU: that there are plans for
// exactly the GPUs that are said to have them, in no more workspace than is planned. B rows, T
// length, H query heads, G key/value heads, D head_dim.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ops/attention/attention_cudnn.h"

extern "C" int cuInit(unsigned flags);  // of absent_gpu.cpp

namespace longshore::models {
namespace {

struct Gpu {
  int compute_capability, multiprocessors;
  int64_t shared_bytes_per_block, l2_bytes;
  int threads_per_multiprocessor;

  // As cuDNN writes them.
  std::string properties() const {
    return nlohmann::json{{"cudaDeviceId", 0},
                          {"deviceName", "absent"},
                          {"deviceVer", 10 * compute_capability},
                          {"driverVer", 13000},
                          {"isTccDriver", 0},
                          {"l2CacheSize", l2_bytes},
                          {"maxBlockSize", {1024, 1024, 64}},
                          {"maxCtasPerSM", threads_per_multiprocessor / 64},
                          {"maxGridSize", {2147483647, 65535, 65535}},
                          {"maxRegistersPerSM", 65536},
                          {"maxSharedMemoryPerBlock", 49152},
                          {"maxSharedMemoryPerBlockOptin", shared_bytes_per_block},
                          {"maxThreadsPerBlock", 1024},
                          {"maxThreadsPerSM", threads_per_multiprocessor},
                          {"memClockRateKHz", 2619000},
                          {"multiProcessorCount", multiprocessors},
                          {"pciDeviceId", 0},
                          {"regsPerBlock", 65536},
                          {"reservedSharedMemoryPerBlock", 1024},
                          {"smClockRateKHz", 1980000},
                          {"supportCoopLaunch", 1},
                          {"totalGlobalMem", int64_t{80} << 30},
                          {"warpSize", 32}}
        .dump();
  }
};

constexpr Gpu kA100{80, 108, 166912, 40 << 20, 2048}, kRtx4090{89, 128, 101376, 72 << 20, 1536},
    kH100{90, 132, 232448, 50 << 20, 2048}, kB200{100, 148, 232448, 126 << 20, 2048},
    kRtx5090{120, 170, 101376, 96 << 20, 1536};

struct Case {
  const char* name;
  int64_t b, t, h, g;
  AttentionAttrs attrs;

  Type q() const { return {{b, t, h * attrs.options.head_dim}, Dtype::bfloat16}; }
  Type k() const { return {{b, t, g * attrs.options.head_dim}, Dtype::bfloat16}; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"Llama 3 8B", 8, 4096, 32, 8, {{.head_dim = 128}}},
      {"Llama 2 13B", 4, 2048, 40, 40, {{.head_dim = 128}}},
      {"Llama 2 13B, long", 1, 8192, 40, 40, {{.head_dim = 128}}},
      {"Mistral", 1, 8192, 32, 8, {{.head_dim = 128, .window = 4096}}},
      {"Gemma", 1, 4096, 8, 1, {{.head_dim = 256}}},
      {"Gemma 2", 1, 4096, 8, 4, {{.head_dim = 256, .soft_cap = 50}}},
      {"Gemma 2, local", 1, 4608, 8, 4, {{.head_dim = 256, .window = 4096, .soft_cap = 50}}},
      {"Gemma 3, local", 2, 4096, 4, 1, {{.head_dim = 256, .scale = 0.0625, .window = 1024}}},
      {"a cap on small heads", 1, 1024, 16, 8, {{.head_dim = 64, .soft_cap = 30}}},
      {"documents", 2, 2048, 32, 8, {{.head_dim = 128}, true}},
      {"a window and documents", 1, 500, 4, 2, {{.head_dim = 64, .window = 70}, true}},
      {"documents and wide heads", 1, 512, 4, 1, {{.head_dim = 256}, true}},
      {"SigLIP", 4, 1024, 16, 16, {{.head_dim = 72, .mask = AttentionMask::full}}},
      {"SigLIP, packed", 1, 1024, 16, 16, {{.head_dim = 72, .mask = AttentionMask::full}, true}},
      {"SigLIP, in any order",
       4,
       1024,
       16,
       16,
       {{.head_dim = 72, .deterministic = false, .mask = AttentionMask::full}}},
      {"PaliGemma 2", 1, 1024, 8, 4, {{.head_dim = 256, .mask = AttentionMask::blocks}}},
      {"PaliGemma 2, capped",
       1,
       1024,
       8,
       4,
       {{.head_dim = 256, .soft_cap = 50, .mask = AttentionMask::blocks}}},
      {"blocks", 2, 2048, 16, 8, {{.head_dim = 128, .window = 500, .mask = AttentionMask::blocks}}},
      {"Llama 3 8B, in any order", 8, 4096, 32, 8, {{.head_dim = 128, .deterministic = false}}},
      {"Llama 2 13B, long, in any order",
       1,
       8192,
       40,
       40,
       {{.head_dim = 128, .deterministic = false}}},
      {"Llama 3 8B, longest, in any order",
       1,
       65536,
       32,
       8,
       {{.head_dim = 128, .deterministic = false}}},
      {"Gemma 2, in any order",
       1,
       4096,
       8,
       4,
       {{.head_dim = 256, .soft_cap = 50, .deterministic = false}}},
      {"documents, in any order",
       2,
       2048,
       32,
       8,
       {{.head_dim = 128, .deterministic = false}, true}},
      {"small heads", 3, 77, 6, 6, {{.head_dim = 8}}},
      {"heads of 96", 1, 1000, 4, 2, {{.head_dim = 96}}},
      {"heads of 192", 1, 300, 4, 4, {{.head_dim = 192}}},
      {"heads of 264", 1, 300, 4, 4, {{.head_dim = 264}}},
      {"heads of 60", 1, 300, 4, 4, {{.head_dim = 60}}},
      {"two positions", 1, 2, 2, 2, {{.head_dim = 64}}},
      {"one position", 2, 1, 2, 2, {{.head_dim = 64}}},
  };
  return all;
}

// Why there is none, or nothing.
std::string refusal(const CudnnAttention& part, CudnnPass pass, const Gpu& gpu) {
  try {
    const int64_t bytes =
        cudnn_plan_workspace(part, pass, gpu.compute_capability, gpu.properties());
    EXPECT_LE(bytes, cudnn_graph_workspace(part, pass));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

class AttentionGraphs : public testing::TestWithParam<Gpu> {};

TEST_P(AttentionGraphs, AreThereWhereTheyAreSaidToBe) {
  const Gpu gpu = GetParam();
  ASSERT_NE(cuInit(0), 0);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name + (" in cuDNN " + std::to_string(cudnnGetVersion())));
    std::string why =
        refusal(cudnn_backward(one.attrs, one.q(), one.k()), CudnnPass::backward, gpu);
    if (why.empty())
      why = refusal(cudnn_forward(one.attrs, one.q(), one.k()), CudnnPass::forward, gpu);
    for (CudnnPass pass : {CudnnPass::forward, CudnnPass::backward})
      EXPECT_EQ(why.empty(),
                cudnn_serves(one.attrs, one.q(), one.k(), pass, gpu.compute_capability))
          << why;
  }
}

// Of rows whose backward pass would take too much, the forward pass takes next to nothing.
TEST_P(AttentionGraphs, ServeLongRowsForward) {
  const Gpu gpu = GetParam();
  ASSERT_NE(cuInit(0), 0);
  const Case one{"Llama 3 8B, long", 1, 32768, 32, 8, {{.head_dim = 128}}};
  auto serves = [&](CudnnPass pass) {
    return cudnn_serves(one.attrs, one.q(), one.k(), pass, gpu.compute_capability);
  };
  EXPECT_TRUE(serves(CudnnPass::forward));
  EXPECT_FALSE(serves(CudnnPass::backward));
  EXPECT_EQ(refusal(cudnn_forward(one.attrs, one.q(), one.k()), CudnnPass::forward, gpu), "");
}

INSTANTIATE_TEST_SUITE_P(Gpus, AttentionGraphs,
                         testing::Values(kA100, kRtx4090, kH100, kB200, kRtx5090), [](auto& info) {
                           return "sm" + std::to_string(info.param.compute_capability);
                         });

// A backward pass that takes its gradients of scores at once takes what is planned, but for the
// alignment of its pieces; else the parts would be larger than they have to be.
TEST(AttentionGraphs, TakeWhatIsPlannedOnHopper) {
  for (const Case& one : cases()) {
    if (!cudnn_serves(one.attrs, one.q(), one.k(), CudnnPass::backward, kH100.compute_capability) ||
        one.t < 1024 || !one.attrs.options.deterministic)
      continue;
    SCOPED_TRACE(one.name);
    const CudnnAttention part = cudnn_backward(one.attrs, one.q(), one.k());
    const int64_t planned = cudnn_graph_workspace(part, CudnnPass::backward);
    EXPECT_GE(cudnn_plan_workspace(part, CudnnPass::backward, kH100.compute_capability,
                                   kH100.properties()),
              planned - 1024);
  }
}

TEST(AttentionGraphs, SayWhatTheyCannotRead) {
  const Case& one = cases()[0];
  const CudnnAttention part = cudnn_forward(one.attrs, one.q(), one.k());
  EXPECT_THROW(cudnn_plan_workspace(part, CudnnPass::forward, 90, "{}"), Error);
}

}  // namespace
}  // namespace longshore::models
