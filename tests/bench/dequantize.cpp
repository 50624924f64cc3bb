// bench_dequantize
//
// Dequantization on the CPU, as it is stored and transposed, beside a loop that reads as many bytes
// and writes as many: the limit. GB/s of codes, scales and numbers, medians of rounds in which all
// take turns, and the part of the limit that each reaches. Matrices of two sizes: one that caches
// keep, and one that only memory holds. OMP_NUM_THREADS says by how many threads.
#include "models/ops/dequantize/dequantize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "base/quantization/quantized_matrix.h"
#include "base/round_up.h"
#include "base/timing.h"
#include "models/ops/kernels/simd.h"

namespace longshore::bench {
namespace {

using models::Dtype;
using models::QuantizedWeight;
using models::Ref;

constexpr int kRounds = 15;
constexpr double kSecondsOfOne = 0.005;  // at least, of what is timed

// Memory that is aligned as a program's is, with bytes of ordinary numbers in every format of
// floats.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(bytes), lines_(ceil_div(bytes, int64_t{sizeof(Line)})) {
    uint32_t state = 12345;
    for (int64_t i = 0; i < bytes; ++i)
      data()[i] = i % 2 == 0 ? static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24)
                             : std::byte{0x3c};
  }

  std::byte* data() { return lines_.data()->bytes; }
  int64_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  int64_t bytes_;
  std::vector<Line> lines_;
};

// Adds up what it reads, and writes that.
LONGSHORE_SIMD void stream(const std::byte* from, int64_t read, std::byte* to, int64_t written) {
  const auto* in = reinterpret_cast<const uint32_t*>(from);
  auto* out = reinterpret_cast<uint32_t*>(to);
  uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < read / 4; ++i) sum += in[i];
#pragma omp simd
  for (int64_t i = 0; i < written / 4; ++i) out[i] = sum;
}

void stream_all(Memory& in, Memory& out) {
  constexpr int64_t kPart = 1 << 14;
  const int64_t parts = out.bytes() / kPart, read = in.bytes() / parts / 4 * 4;
  models::parallel_ranges(parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      stream(in.data() + i * read, read, out.data() + i * kPart, kPart);
  });
}

template <class Work>
double seconds_of(int times, Work work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return seconds_since(start) / times;
}

void measure(const QuantizedMatrix& matrix, Dtype dtype) {
  QuantizedWeight straight{.matrix = matrix, .numbers = {{matrix.rows, matrix.columns}, dtype}};
  QuantizedWeight transposed{
      .matrix = matrix, .numbers = {{matrix.columns, matrix.rows}, dtype}, .is_transposed = true};
  Memory in(quantized_type(straight).bytes()), out(straight.numbers.bytes());
  auto dequantize = [&](const QuantizedWeight& weight) {
    const std::any attrs = weight;
    const Ref from{in.data(), quantized_type(weight)}, to{out.data(), weight.numbers};
    models::dequantize_op.cpu.run({.target = models::Target::cpu,
                                   .attrs = attrs,
                                   .in = {&from, 1},
                                   .out = {&to, 1},
                                   .workspace = {}});
  };
  const double first = seconds_of(1, [&] { dequantize(transposed); });
  const int times = static_cast<int>(kSecondsOfOne / first) + 1;
  std::vector<double> limits, of_straight, of_transposed;
  for (int round = 0; round < kRounds; ++round) {
    limits.push_back(seconds_of(times, [&] { stream_all(in, out); }));
    of_straight.push_back(seconds_of(times, [&] { dequantize(straight); }));
    of_transposed.push_back(seconds_of(times, [&] { dequantize(transposed); }));
  }
  const double gigabytes = static_cast<double>(in.bytes() + out.bytes()) / 1e9;
  const double limit = gigabytes / median(limits);
  auto columns = [&](const std::vector<double>& seconds) {
    const double rate = gigabytes / median(seconds);
    return fmt::format("{:7.1f} {:5.0f} %", rate, 100 * rate / limit);
  };
  std::printf("%-28s %7.1f %s %s\n",
              fmt::format("{} by {}, {}{}, {}", matrix.rows, matrix.columns, name(matrix.format),
                          matrix.has_nested_scales ? " nested" : "", name(dtype))
                  .c_str(),
              limit, columns(of_straight).c_str(), columns(of_transposed).c_str());
  std::fflush(stdout);
}

void run() {
  using enum QuantizedFormat;
  std::printf("%d threads, medians of %d, GB/s\n%-37s %7s %15s %15s\n", omp_get_max_threads(),
              kRounds, "", "limit", "as stored", "transposed");
  for (const auto& [rows, columns] : {std::pair(1408, 512), {14336, 4096}})
    for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
      for (QuantizedFormat format : {nf4, mxfp4, int8, fp8, bfloat16})
        measure({.format = format, .rows = rows, .columns = columns}, dtype);
      measure({.format = nf4, .rows = rows, .columns = columns, .has_nested_scales = true}, dtype);
    }
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Dequantization on the CPU beside a loop that moves as many bytes.",
               "bench_dequantize");
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_dequantize", bench::run);
}
