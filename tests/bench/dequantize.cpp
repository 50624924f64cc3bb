// bench_dequantize
//
// Dequantization on the CPU, as it is stored and transposed, beside a loop that reads as many bytes
// and writes as many: the limit. GB/s of codes, scales and numbers, medians of rounds in which all
// take turns, and the part of the limit that each reaches. Matrices of two sizes: one that caches
// keep, and one that only memory holds. Then the product of such a matrix and one row, fused with
// dequantization as a generated token has it, beside both one after the other: ms, the fastest of
// rounds in which the two take turns. OMP_NUM_THREADS says by how many threads.
#include "longshore/models/ops/dequantize/dequantize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <any>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/exit_code.h"
#include "longshore/base/quantization/quantized_matrix.h"
#include "longshore/base/round_up.h"
#include "longshore/base/timing.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/linear/linear.h"
#include "longshore/models/ops/quantized_linear/quantized_linear.h"

namespace longshore::bench {
namespace {

using models::Dtype;
using models::QuantizedWeight;
using models::Ref;
using models::Type;

constexpr int kRounds = 15, kProductRounds = 50;
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
double seconds_of(int times, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return seconds_since(start) / times;
}

std::string described(const QuantizedMatrix& matrix, Dtype dtype) {
  return fmt::format("{} by {}, {}{}, {}", matrix.rows, matrix.columns, name(matrix.format),
                     matrix.has_nested_scales ? " nested" : "", name(dtype));
}

// The CPU's kernel of an op, with what it needs.
class Call {
 public:
  Call(const models::Op& op, std::any attrs, std::vector<Ref> in, Ref out)
      : op_(op),
        attrs_(std::move(attrs)),
        in_(std::move(in)),
        out_(out),
        workspace_(workspace_bytes()) {}

  void operator()() {
    op_.cpu.run({.target = models::Target::cpu,
                 .attrs = attrs_,
                 .in = in_,
                 .out = {&out_, 1},
                 .workspace = {workspace_.data(), static_cast<size_t>(workspace_.bytes())}});
  }

 private:
  int64_t workspace_bytes() const {
    if (!op_.cpu.workspace_bytes) return 0;
    return op_.cpu.workspace_bytes(attrs_, models::types_of(in_), {&out_.type, 1});
  }

  const models::Op& op_;
  std::any attrs_;
  std::vector<Ref> in_;
  Ref out_;
  Memory workspace_;
};

void measure(const QuantizedMatrix& matrix, Dtype dtype) {
  QuantizedWeight straight{.matrix = matrix, .numbers = {{matrix.rows, matrix.columns}, dtype}};
  QuantizedWeight transposed{
      .matrix = matrix, .numbers = {{matrix.columns, matrix.rows}, dtype}, .is_transposed = true};
  Memory in(quantized_type(straight).bytes()), out(straight.numbers.bytes());
  auto dequantize = [&](const QuantizedWeight& weight) {
    return Call(models::dequantize_op, weight, {{in.data(), quantized_type(weight)}},
                {out.data(), weight.numbers});
  };
  Call as_stored = dequantize(straight), turned = dequantize(transposed);
  const int times = static_cast<int>(kSecondsOfOne / seconds_of(1, turned)) + 1;
  std::vector<double> limits, of_straight, of_transposed;
  for (int round = 0; round < kRounds; ++round) {
    limits.push_back(seconds_of(times, [&] { stream_all(in, out); }));
    of_straight.push_back(seconds_of(times, as_stored));
    of_transposed.push_back(seconds_of(times, turned));
  }
  const double gigabytes = static_cast<double>(in.bytes() + out.bytes()) / 1e9;
  const double limit = gigabytes / median(limits);
  auto columns = [&](const std::vector<double>& seconds) {
    const double rate = gigabytes / median(seconds);
    return fmt::format("{:7.1f} {:5.0f} %", rate, 100 * rate / limit);
  };
  std::printf("%-28s %7.1f %s %s\n", described(matrix, dtype).c_str(), limit,
              columns(of_straight).c_str(), columns(of_transposed).c_str());
  std::fflush(stdout);
}

void measure_product(const QuantizedMatrix& matrix, Dtype dtype) {
  const QuantizedWeight weight{.matrix = matrix, .numbers = {{matrix.rows, matrix.columns}, dtype}};
  const Type of_x{{1, matrix.columns}, dtype}, of_y{{1, matrix.rows}, dtype};
  Memory code_memory(quantized_type(weight).bytes()), number_memory(weight.numbers.bytes()),
      x_memory(of_x.bytes()), y_memory(of_y.bytes());
  const Ref codes{code_memory.data(), quantized_type(weight)},
      numbers{number_memory.data(), weight.numbers}, x{x_memory.data(), of_x},
      y{y_memory.data(), of_y};
  Call fused(models::quantized_linear_op, weight, {x, codes}, y);
  Call dequantize(models::dequantize_op, weight, {codes}, numbers);
  Call product(models::linear_op, {}, {x, numbers}, y);
  auto apart = [&] {
    dequantize();
    product();
  };
  const int times = static_cast<int>(kSecondsOfOne / seconds_of(1, apart)) + 1;
  std::vector<double> of_fused, of_apart;
  for (int round = 0; round < kProductRounds; ++round) {
    of_fused.push_back(seconds_of(times, fused));
    of_apart.push_back(seconds_of(times, apart));
  }
  const double one = std::ranges::min(of_fused), other = std::ranges::min(of_apart);
  std::printf("%-36s %7.2f %7.2f %7.2f\n", described(matrix, dtype).c_str(), 1e3 * one, 1e3 * other,
              one / other);
  std::fflush(stdout);
}

template <class Measure>
void of_each_format(int64_t rows, int64_t columns, Measure measure) {
  using enum QuantizedFormat;
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    for (QuantizedFormat format : {nf4, mxfp4, int8, fp8, bfloat16})
      measure({.format = format, .rows = rows, .columns = columns}, dtype);
    measure({.format = nf4, .rows = rows, .columns = columns, .has_nested_scales = true}, dtype);
  }
}

void run() {
  std::printf("%d threads, medians of %d, GB/s\n%-37s %7s %15s %15s\n", omp_get_max_threads(),
              kRounds, "", "limit", "as stored", "transposed");
  for (const auto& [rows, columns] : {std::pair(1408, 512), {14336, 4096}})
    of_each_format(rows, columns, measure);
  std::printf("\nthe product of one row, the fastest of %d, ms\n%-36s %7s %7s %7s\n",
              kProductRounds, "", "fused", "apart", "ratio");
  for (const auto& [rows, columns] : {std::pair(4096, 4096), {14336, 4096}, {4096, 14336}})
    of_each_format(rows, columns, measure_product);
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app(
      "Dequantization on the CPU beside a loop that moves as many bytes, and beside products.",
      "bench_dequantize");
  CLI11_PARSE(app, argc, argv);
  return exit_code_of("bench_dequantize", bench::run);
}
