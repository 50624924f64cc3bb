// bench_transfers
//
// Bandwidth of a backend's copy lanes, by the size of a copy, against the plainest copy of the same
// bytes: memcpy by the calling thread on the CPU; cudaMemcpyAsync from and to pinned memory on one
// stream on CUDA. `both` has the two lanes at work at once, while the plain copies still come one
// after the other, so 2.00 would be two lanes that do not slow each other.
//
// Each run moves kMovedBytes, or one copy if that is more, each copy the bytes behind those of the
// one before: small copies find the caches no warmer than large ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "longshore/base/timing.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "longshore/offload/execution/arenas.h"
#include "tests/bench/interleaved.h"
#ifdef LONGSHORE_CUDA
#include <cuda_runtime_api.h>

#include "longshore/base/cuda_check.h"
#include "longshore/base/parallel.h"
#include "longshore/offload/backends/cuda/cuda_backend.h"
#include "longshore/offload/backends/cuda/cuda_device.h"
#endif

namespace longshore::bench {
namespace {

using offload::Arena;
using offload::Backend;
using offload::Lane;
using offload::MemoryKind;

constexpr int kRounds = 9;
constexpr int64_t kMovedBytes = int64_t{64} << 20;
constexpr std::array<int64_t, 8> kSizes{int64_t{64} << 10,  int64_t{256} << 10, int64_t{1} << 20,
                                        int64_t{4} << 20,   int64_t{16} << 20,  int64_t{64} << 20,
                                        int64_t{256} << 20, int64_t{1} << 30};

class PlainCopies {
 public:
  virtual ~PlainCopies() = default;
  virtual std::string description() const = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void synchronize() {}
};

class Memcpy : public PlainCopies {
 public:
  std::string description() const override { return "memcpy by the calling thread"; }
  void copy(void* to, const void* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
};

#ifdef LONGSHORE_CUDA
class CudaStream : public PlainCopies {
 public:
  CudaStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::string description() const override { return "cudaMemcpyAsync on one stream"; }
  void copy(void* to, const void* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a plain copy");
  }
  void synchronize() override { check_cuda(cudaStreamSynchronize(stream_), "a plain copy"); }

 private:
  cudaStream_t stream_ = nullptr;
};
#endif

struct Device {
  std::string description;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<PlainCopies> plain;
};

Device find_device() {
#ifdef LONGSHORE_CUDA
  offload::CudaDevice cuda = offload::find_cuda_device();
  if (cuda.usable)
    return {"cuda (" + cuda.description + ")", offload::make_cuda_backend(),
            std::make_unique<CudaStream>()};
  std::string description = "cpu, since " + cuda.description;
#else
  std::string description = "cpu";
#endif
  return {description, offload::make_cpu_backend(), std::make_unique<Memcpy>()};
}

// A copy lane with what it moves, all of it touched.
class Route {
 public:
  Route(Backend& backend, Lane lane, MemoryKind from, MemoryKind to, int64_t bytes)
      : lane_(lane), from_(backend, from, bytes), to_(backend, to, bytes) {
    std::vector<std::byte> some(kSizes[0], std::byte{1});
    for (int64_t at = 0; at < bytes; at += kSizes[0]) {
      backend.write(from, from_.memory() + at, some.data(), kSizes[0]);
      backend.write(to, to_.memory() + at, some.data(), kSizes[0]);
    }
  }

  Lane lane() const { return lane_; }
  models::Ref source(int64_t at, int64_t bytes) const { return part(from_, at, bytes); }
  models::Ref target(int64_t at, int64_t bytes) const { return part(to_, at, bytes); }

 private:
  static models::Ref part(const Arena& arena, int64_t at, int64_t bytes) {
    return {arena.memory() + at, {{bytes}, models::Dtype::uint8}};
  }

  Lane lane_;
  Arena from_, to_;
};

using Routes = std::vector<const Route*>;

int64_t moved_bytes(int64_t size) { return std::max(size, kMovedBytes); }

void copy_on_lanes(Backend& backend, const Routes& routes, int64_t size) {
  for (int64_t at = 0; at < moved_bytes(size); at += size)
    for (const Route* route : routes)
      backend.copy(route->lane(), route->source(at, size), route->target(at, size));
  backend.synchronize();
}

void copy_plainly(PlainCopies& plain, const Routes& routes, int64_t size) {
  for (int64_t at = 0; at < moved_bytes(size); at += size)
    for (const Route* route : routes)
      plain.copy(route->target(at, size).data, route->source(at, size).data, size);
  plain.synchronize();
}

// "  12.34  12.50  0.99  0.02": ours and the plain copy's in GB/s, their ratio and its spread.
std::string measure(const Device& device, const Routes& routes, int64_t size) {
  Comparison c = compare([&] { copy_plainly(*device.plain, routes, size); },
                         [&] { copy_on_lanes(*device.backend, routes, size); }, kRounds);
  double gigabytes = static_cast<double>(routes.size()) * moved_bytes(size) / 1e9;
  return fmt::format("{:7.2f}{:7.2f}{:6.2f}{:6.2f}", gigabytes / c.second_seconds,
                     gigabytes / c.first_seconds, c.ratio, c.ratio_spread);
}

// Why copies of this size are left out, or "". Half of what is there is left to others.
std::string refusal(Backend& backend, int64_t size) {
  bool kinds_share_memory = !models::is_cuda(backend.target());
  int64_t needed = (kinds_share_memory ? 4 : 2) * moved_bytes(size);
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::pinned_host})
    if (int64_t available = backend.available_bytes(kind); needed > available / 2)
      return fmt::format("skipped: takes {} of {} memory, and half of the {} available may be used",
                         offload::bytes_text(needed), name(kind), offload::bytes_text(available));
  return "";
}

#ifdef LONGSHORE_CUDA
// What runs wait for before their first step and when they save: pinned memory, and copies of what
// is not pinned. Both beside what the driver does by itself.
void print_host_memory(Backend& backend) {
  constexpr int64_t kBytes = int64_t{4} << 30, kPiece = int64_t{16} << 20;
  if (backend.available_bytes(MemoryKind::pinned_host) < 2 * kBytes) return;
  const double by_us =
      quickest_seconds(1, [&] { Arena(backend, MemoryKind::pinned_host, kBytes); });
  const double by_driver = quickest_seconds(1, [&] {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault), "plain pinned memory");
    cudaFreeHost(memory);
  });
  std::printf("%s of pinned memory, allocated and given back: %.2f s, by cudaHostAlloc %.2f s\n",
              offload::bytes_text(kBytes).c_str(), by_us, by_driver);

  if (backend.available_bytes(MemoryKind::device) < 2 * kBytes) return;
  const Arena on_device(backend, MemoryKind::device, kBytes);
  std::vector<std::byte> on_host(kBytes, std::byte{1});
  auto seconds = [&](auto copy) {
    return quickest_seconds(2, [&] {
      parallel_for(kBytes / kPiece, [&](size_t piece) {
        const int64_t at = static_cast<int64_t>(piece) * kPiece;
        copy(on_device.memory() + at, on_host.data() + at);
      });
    });
  };
  const double written = seconds([&](std::byte* device, std::byte* host) {
    backend.write(MemoryKind::device, device, host, kPiece);
  });
  const double read = seconds([&](std::byte* device, std::byte* host) {
    backend.read(MemoryKind::device, host, device, kPiece);
  });
  const double written_plainly = seconds([&](std::byte* device, std::byte* host) {
    check_cuda(cudaMemcpy(device, host, kPiece, cudaMemcpyDefault), "a plain copy");
  });
  const double read_plainly = seconds([&](std::byte* device, std::byte* host) {
    check_cuda(cudaMemcpy(host, device, kPiece, cudaMemcpyDefault), "a plain copy");
  });
  std::printf(
      "memory that is not pinned, by all threads, GB/s: to the device %.2f, by cudaMemcpy %.2f; "
      "to the host %.2f, by cudaMemcpy %.2f\n",
      kBytes / 1e9 / written, kBytes / 1e9 / written_plainly, kBytes / 1e9 / read,
      kBytes / 1e9 / read_plainly);
}
#endif

void run() {
  Device device = find_device();
  Backend& backend = *device.backend;
  std::printf(
      "backend: %s\nlimit: %s\nGB/s, medians of %d interleaved runs; +-: between the quartiles of "
      "the ratio\n\n%-11s",
      device.description.c_str(), device.plain->description().c_str(), kRounds, "");
  for (const char* route : {"host_to_device", "device_to_host", "both"})
    std::printf("  %26s", route);
  std::printf("\n%-11s", "a copy of");
  for (int i = 0; i < 3; ++i) std::printf("     ours  limit ratio    +-");
  std::printf("\n");
  for (int64_t size : kSizes) {
    std::printf("%-11s", offload::bytes_text(size).c_str());
    if (std::string why = refusal(backend, size); !why.empty()) {
      std::printf("  %s\n", why.c_str());
      continue;
    }
    int64_t bytes = moved_bytes(size);
    Route to_device(backend, Lane::host_to_device, MemoryKind::pinned_host, MemoryKind::device,
                    bytes);
    Route to_host(backend, Lane::device_to_host, MemoryKind::device, MemoryKind::pinned_host,
                  bytes);
    for (const Routes& routes :
         {Routes{&to_device}, Routes{&to_host}, Routes{&to_device, &to_host}}) {
      std::printf("  %s", measure(device, routes, size).c_str());
      std::fflush(stdout);
    }
    std::printf("\n");
  }
#ifdef LONGSHORE_CUDA
  if (models::is_cuda(backend.target())) print_host_memory(backend);
#endif
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  CLI::App app("Bandwidth of a backend's copy lanes beside plain copies of the same bytes.",
               "bench_transfers");
  CLI11_PARSE(app, argc, argv);
  try {
    longshore::bench::run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_transfers: %s\n", error.what());
    return 1;
  }
}
